package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/storage"
)

// madeHomes are homes as `corebot init` makes them, each with a new database, by the arguments of init.
var madeHomes struct {
	sync.Mutex
	dirs map[string]string
}

// copyHome makes a home by copying one that the released program has made with these arguments. It spares a start of
// the program and the making of a database. A copy has the same webhook token and the same database as its siblings.
func copyHome(home string, args ...string) error {
	made, err := madeHome(args)
	if err != nil {
		return err
	}
	return filepath.WalkDir(made, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		to := filepath.Join(home, strings.TrimPrefix(path, made))
		if d.IsDir() {
			return os.MkdirAll(to, info.Mode().Perm())
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, content, info.Mode().Perm())
	})
}

func madeHome(args []string) (string, error) {
	madeHomes.Lock()
	defer madeHomes.Unlock()
	name := strings.Join(args, " ")
	if dir, made := madeHomes.dirs[name]; made {
		return dir, nil
	}
	program, err := buildProgram()
	if err != nil {
		return "", err
	}
	dir, err := sharedDir("corebot-home")
	if err != nil {
		return "", err
	}
	home := filepath.Join(dir, "home")
	cmd := exec.CommandContext(context.Background(), program, append([]string{"--home", home, "init"}, args...)...)
	cmd.Env = append(os.Environ(), "COREBOT_LLM_OFFLINE=true")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make a home: %w\n%s", err, out)
	}
	if err := app.WithStore(context.Background(), home, func(*storage.DB) error { return nil }); err != nil {
		return "", err
	}
	if madeHomes.dirs == nil {
		madeHomes.dirs = map[string]string{}
	}
	madeHomes.dirs[name] = home
	return home, nil
}

func TestACopiedHomeIsThatOfInit(t *testing.T) {
	t.Parallel()
	s := newHome(t)
	s.output("init", "--webhook")
	requireClosed(t, s.home, 10)
	cmd := s.command(t.Context(), "init", "--webhook")
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "made ") {
		t.Errorf("init finds something to make in the copy: %v\n%s", err, out)
	}
}
