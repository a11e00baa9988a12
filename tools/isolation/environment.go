package isolation

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/corebot/corebot"
)

// fixedEnv are the variables that every program has.
func fixedEnv(home, tmp string) []string {
	return []string{"PATH=" + searchPath, "HOME=" + home, "TMPDIR=" + tmp, "LANG=C.UTF-8"}
}

// checkEnv refuses names of tools.allowed_env that no variable has, that are fixed, or that are Corebot's own.
func checkEnv(names []string) error {
	word := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	for _, name := range names {
		switch {
		case !word.MatchString(name):
			return corebot.WithHint(fmt.Errorf("tools.allowed_env: %q is not the name of a variable", name), "names are letters, digits and _")
		case slices.Contains([]string{"PATH", "HOME", "TMPDIR", "LANG"}, name):
			return corebot.WithHint(fmt.Errorf("tools.allowed_env: %s has the same value for every program", name), "take it out of the list")
		case strings.HasPrefix(name, "COREBOT_"):
			return corebot.WithHint(fmt.Errorf("tools.allowed_env: %s is a setting of Corebot", name), "programs are not to see it: take it out of the list")
		}
	}
	return nil
}

// environment is what a program sees: the fixed variables, and those that were listed and are set.
func environment(home, tmp string, allowed []string) []string {
	env := fixedEnv(home, tmp)
	for _, name := range allowed {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
