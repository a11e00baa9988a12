package needs_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/needs"
)

// skipping is a test that notes how it ends.
type skipping struct {
	testing.TB
	end string
}

func (s *skipping) Helper() {}

func (s *skipping) Skip(args ...any) {
	s.end = "skipped " + fmt.Sprint(args...)
	runtime.Goexit()
}

func (s *skipping) Fatalf(format string, args ...any) {
	s.end = "failed " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestWhereTheRunHasLookedOnlyWhatItNamedIsSkipped(t *testing.T) {
	for name, c := range map[string]struct {
		variable *string
		what     string
		want     string
	}{
		"nobody has looked":      {nil, "node", "skipped "},
		"it is named":            {new("root node"), "node", "skipped "},
		"another one is named":   {new("nodes root"), "node", "failed this test would be skipped for want of node"},
		"nothing is missing":     {new(""), "root", "failed this test would be skipped for want of root"},
		"nobody looks for that":  {nil, "luck", "failed luck is no name"},
		"not even if it is said": {new("luck"), "luck", "failed luck is no name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI_LACKS", "")
			if c.variable != nil {
				t.Setenv("CI_LACKS", *c.variable)
			} else if err := os.Unsetenv("CI_LACKS"); err != nil {
				t.Fatal(err)
			}
			s, done := &skipping{}, make(chan struct{})
			go func() {
				defer close(done)
				needs.Missing(s, c.what, "why")
			}()
			if <-done; !strings.HasPrefix(s.end, c.want) {
				t.Errorf("got %q", s.end)
			}
		})
	}
}

// The run looks for each thing that a test can lack, but for two: the tests are Go's, and Linux has the other always.
func TestTheRunLooksForEachName(t *testing.T) {
	text, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range needs.Names() {
		listed := strings.Contains(string(text), "\nhas "+name+" ")
		for line := range strings.Lines(string(text)) {
			listed = listed || strings.HasPrefix(line, "for program in ") && !strings.Contains(line, ":") &&
				strings.Contains(strings.TrimSuffix(line, "; do\n")+" ", " "+name+" ")
		}
		if want := name != "go" && name != "inotify"; listed != want {
			t.Errorf(".ci/run looks for %s: %v", name, listed)
		}
	}
}
