package fault

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain is also the program that dies: it reaches one point once and another one twice.
func TestMain(m *testing.M) {
	if state, isProgram := os.LookupEnv("ARMED"); isProgram {
		armed = state
		Point("step", "before")
		Point("step", "after")
		Point("step", "after")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestOnlyAnArmedProgramDiesAndOnlyAtItsPoint(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "step.after"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		armed, fault string
		dies         bool
	}{
		{"yes", "step.before", true},
		{"yes", "step.after#2", true},
		{"yes", "step.after#3", false},
		{"yes", "step", false},
		{"yes", "", false},
		{"", "step.before", false},
		{"", "stall:" + dir, false}, // it would stand still for ever
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "ARMED="+c.armed, "COREBOT_FAULT="+c.fault)
		err := cmd.Run()
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && strings.Contains(exit.String(), "killed")
		if killed != c.dies || err != nil && !killed {
			t.Errorf("armed %q with %q: %v, want its death: %v", c.armed, c.fault, err, c.dies)
		}
	}
}

func TestOnlyAnArmedProgramThatIsToldSoPutsNothingOff(t *testing.T) {
	was := planned
	t.Cleanup(func() { armed, planned = "", was })
	for _, c := range []struct {
		armed, fault string
		soon         bool
	}{
		{"yes", "soon:step.before#2", true},
		{"yes", "soon:", true},
		{"yes", "step.before", false},
		{"yes", "", false},
		{"", "soon:step.before", false},
	} {
		armed, planned = c.armed, newPlan(c.fault)
		if got := PutOff(time.Minute); (got == 0) != c.soon {
			t.Errorf("a program that is armed %q puts a minute off by %v for %q", c.armed, got, c.fault)
		}
	}
	if p := newPlan("soon:step.before#2"); p.point != "step.before" || p.nth != 2 {
		t.Errorf("the plan is to die at %q, the time %d", p.point, p.nth)
	}
}
