package main

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/needs"
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
	needs.Program(t, "systemd-analyze")
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

// instruction is what stands behind an instruction in the last stage of the Containerfile.
func instruction(t *testing.T, name string) string {
	t.Helper()
	_, last, _ := strings.Cut(deployed(t, "Containerfile"), "\nFROM scratch\n")
	for line := range strings.Lines(last) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return rest
		}
	}
	t.Errorf("the image has no %s", name)
	return ""
}

func TestTheContainerFileFitsTheProgram(t *testing.T) {
	words := func(list string) (all []string) {
		if err := json.Unmarshal([]byte(list), &all); err != nil || len(all) == 0 {
			t.Fatalf("%s is no list: %v", list, err)
		}
		return all
	}
	if entry := words(instruction(t, "ENTRYPOINT")); !slices.Equal(entry, []string{"/corebot"}) {
		t.Errorf("the image runs %q", entry)
	}
	findCommand(t, words(instruction(t, "CMD")))
	_, check, _ := strings.Cut(instruction(t, "HEALTHCHECK"), " CMD ")
	if health := words(check); health[0] != "/corebot" {
		t.Errorf("the health check runs %q", health)
	} else {
		findCommand(t, health[1:])
	}
	home := instruction(t, "VOLUME")
	if got := instruction(t, "ENV"); got != "COREBOT_HOME="+home {
		t.Errorf("the home is %s, the volume %s", got, home)
	}
	text, user := deployed(t, "Containerfile"), instruction(t, "USER")
	for _, want := range []string{"chown " + user + " /image" + home, "chmod 700 /image" + home, "corebot:x:" + user} {
		if !strings.Contains(text, want) {
			t.Errorf("the image is not made with %q", want)
		}
	}
	c := config.Defaults()
	want := portOf(t, c.Observability.Addr) + " " + portOf(t, c.Webhook.Addr)
	if got := instruction(t, "EXPOSE"); got != want {
		t.Errorf("the image exposes %s, the defaults are %s", got, want)
	}
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))[1]
	if !strings.Contains(text, "golang:"+goVersion+" ") {
		t.Errorf("go.mod wants Go %s, and the image is built with another", goVersion)
	}
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// composed is compose.yaml, as far as it must fit the program and the files beside it.
type composed struct {
	Services map[string]struct {
		Build           struct{ Context, Dockerfile string }
		Environment     map[string]string
		Ports, Volumes  []string
		Entrypoint      []string
		Command         []string
		StopGracePeriod string `yaml:"stop_grace_period"`
		ReadOnly        bool   `yaml:"read_only"`
	}
	Volumes map[string]any
}

func TestTheComposeFileFitsTheProgramAndTheFilesBesideIt(t *testing.T) {
	var c composed
	if err := yaml.Unmarshal([]byte(deployed(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "docs", "deploy")
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			_, named := c.Volumes[from]
			if _, err := os.Stat(filepath.Join(dir, from)); !named && (err != nil || !strings.HasPrefix(from, ".")) {
				t.Errorf("%s: %s: neither a volume nor a file: %v", name, v, err)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: %s is open to other machines", name, p)
			}
		}
	}
	s := c.Services["corebot"]
	if _, err := os.Stat(filepath.Join(dir, s.Build.Context, s.Build.Dockerfile)); err != nil || !s.ReadOnly {
		t.Errorf("%+v: %v", s.Build, err)
	}
	if d, err := time.ParseDuration(s.StopGracePeriod); err != nil || d < 2*config.Defaults().Bus.Drain {
		t.Errorf("a stop has %s: %v", s.StopGracePeriod, err)
	}
	if v := "corebot:" + instruction(t, "VOLUME"); !slices.Contains(s.Volumes, v) {
		t.Errorf("the home is not kept in %s: %v", v, s.Volumes)
	}
	for name, value := range s.Environment { // an unknown setting would keep Corebot from starting
		if strings.HasPrefix(value, "${") {
			value = "a-value-of-more-than-sixteen-bytes"
		}
		t.Setenv(name, value)
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
	got, err := config.Load(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Check(got); err != nil {
		t.Error(err)
	}
	def := config.Defaults()
	for _, at := range [][2]string{
		{got.Observability.Addr, def.Observability.Addr}, {got.Webhook.Addr, def.Webhook.Addr},
	} {
		if at[0] != "0.0.0.0:"+portOf(t, at[1]) {
			t.Errorf("it listens at %s, the default is %s", at[0], at[1])
		}
	}
	if !got.Webhook.Enabled || got.Observability.Token.Reveal() == "" || got.Webhook.Token.Reveal() == "" {
		t.Error("a listener is closed, or open without a token")
	}
}
