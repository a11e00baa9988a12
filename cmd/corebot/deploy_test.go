package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/config"
)

// deployed is a file of docs/deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unitOf has the settings of the systemd unit, each with its values in their order.
func unitOf(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for lines := bufio.NewScanner(strings.NewReader(deployed(t, "corebot.service"))); lines.Scan(); {
		line := lines.Text()
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			all[name] = append(all[name], value)
		}
	}
	return all
}

// findCommand wants a command line that this program understands.
func findCommand(t *testing.T, words []string) {
	t.Helper()
	root := newRoot()
	cmd, rest, err := root.Find(words)
	if err != nil || cmd == root {
		t.Errorf("corebot %s: there is no such command: %v", strings.Join(words, " "), err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("corebot %s: %v", strings.Join(words, " "), err)
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		t.Errorf("corebot %s: %v", strings.Join(words, " "), err)
	}
}

func TestTheSystemdUnitFitsTheProgram(t *testing.T) {
	unit := unitOf(t)
	for _, line := range slices.Concat(unit["ExecStart"], unit["ExecReload"]) {
		words := strings.Fields(line)
		if words[0] != "/usr/local/bin/corebot" {
			t.Errorf("%s: another program", line)
		}
		findCommand(t, words[1:])
	}
	c := config.Defaults()
	for setting, least := range map[string]time.Duration{
		// A sign of life comes twice in WatchdogSec, and stops once a part has stood still for stuck_after.
		"WatchdogSec":    2 * c.Observability.StuckAfter,
		"TimeoutStopSec": 2 * c.Bus.Drain,
	} {
		value := unit[setting][0]
		if d, err := time.ParseDuration(strings.Replace(value, "min", "m", 1)); err != nil || d < least {
			t.Errorf("%s=%s: want at least %v (%v)", setting, value, least, err)
		}
	}
	for setting, want := range map[string]string{
		"Type":                  "notify",
		"KillMode":              "mixed",
		"Restart":               "always",
		"OOMPolicy":             "continue",
		"TimeoutStartSec":       "infinity",
		"User":                  "corebot",
		"StateDirectory":        "corebot",
		"StateDirectoryMode":    "0700",
		"CapabilityBoundingSet": "",
		"StartLimitIntervalSec": "0",
		"NoNewPrivileges":       "true",
		"ProtectSystem":         "strict",
	} {
		if got := unit[setting]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	user := strings.Fields(deployed(t, "corebot.sysusers"))
	if !slices.Contains(user, "/var/lib/"+unit["StateDirectory"][0]) {
		t.Errorf("the home of the user is not the state directory: %v", user)
	}
}

func TestSystemdFindsNothingWrongWithTheUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd is not installed")
	}
	// The unit is looked at with a program that is there, and without the manual pages, which are installed beside it.
	text := strings.ReplaceAll(deployed(t, "corebot.service"), "/usr/local/bin/corebot", "/bin/true")
	path := filepath.Join(t.TempDir(), "corebot.service")
	text = strings.Replace(text, "Documentation=", "#", 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"verify", "--man=no", path},
		{"security", "--no-pager", "--offline=true", "--threshold=30", path}, // tenths of points of exposure
	} {
		if out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput(); err != nil ||
			args[0] == "verify" && strings.Contains(string(out), "corebot.service:") {
			t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
