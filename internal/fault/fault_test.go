package fault

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
