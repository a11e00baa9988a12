package mcp

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corebot/corebot/internal/owned"
)

// markVariable names every process of a server, so that one which left its process group can be found when the server ends.
const markVariable = "COREBOT_MCP_SERVER"

// environment is what a program sees: where programs and the user's files are, the language, what the operator lets through, and what the entry
// sets, which wins. It never has anything else of Corebot's own environment.
func environment(s Spec, pass []string, env func(string) (string, bool), mark string) []string {
	all := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
	for _, name := range slices.Concat([]string{"PATH", "HOME", "LANG"}, pass, s.PassEnv) {
		if value, ok := env(name); ok {
			all[name] = value
		}
	}
	maps.Copy(all, s.Env)
	all[markVariable] = mark
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return list
}

// program finds what a command means: as a shell would in the program's own environment and directory. A program that others can change, or exchange, is
// refused.
func program(s Spec, environment []string) (string, error) {
	path, err := find(s, environment)
	if err == nil {
		err = owned.Check(path)
	}
	return path, err
}

func find(s Spec, environment []string) (string, error) {
	if filepath.IsAbs(s.Command) {
		return s.Command, runnable(s.Command)
	}
	if strings.Contains(s.Command, "/") {
		path := filepath.Join(s.Dir, s.Command)
		return path, runnable(path)
	}
	for _, variable := range environment {
		list, ok := strings.CutPrefix(variable, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(cmp.Or(dir, "."), s.Command)
			if filepath.IsAbs(path) && runnable(path) == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("there is no program %q in PATH", s.Command)
}

func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s cannot be executed", path)
	}
	return nil
}
