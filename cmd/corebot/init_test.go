package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot/storage/seedtest"
)

// startInit runs `corebot init` on a terminal of a size. Of the environment it has no setting but those of env.
func startInit(t *testing.T, columns uint16, env ...string) (*service, *screen) {
	t.Helper()
	return startInitAt(newHome(t), columns, env...)
}

func startInitAt(s *service, columns uint16, env ...string) (*service, *screen) {
	s.t.Helper()
	s.env = append([]string{"COREBOT_LLM_OFFLINE=", "COREBOT_WEBHOOK_ADDR="}, env...)
	cmd := s.command(s.t.Context(), "init")
	cmd.Dir = filepath.Dir(s.home)
	return s, startScreen(s.t, cmd, columns, 24)
}

func (s *screen) answer(mark int, question, answer string) {
	s.t.Helper()
	s.await(mark, question)
	s.press(answer + "\r")
}

func TestANewcomerIsAskedForProviderKeyAndModel(t *testing.T) {
	t.Parallel()
	models := httptest.NewServer(endpoints())
	defer models.Close()
	for name, columns := range map[string]uint16{"wide": 100, "twenty columns": 20} {
		t.Run(name, func(t *testing.T) {
			s, c := startInit(t, columns)
			c.answer(0, "Number or name", "nonsense")
			c.answer(0, "neither", "openai")
			c.answer(0, "Address", "ftp://nowhere")
			c.answer(0, "is no address", models.URL+"/keyed/v1")
			c.await(0, "Key (it")
			mark := c.mark() // the refusal can be drawn before the next line of this test runs
			c.press("sk-bad-key-0123456789\r")
			c.answer(mark, "Key (it", goodKey)
			c.answer(mark, "Model", "scripd")
			c.answer(mark, "did you mean", "")
			c.answer(mark, "What may it do", "")
			c.answer(mark, "HTTP", "")
			c.answer(mark, "Which chat network", "")
			if code := c.ends(); code != 0 {
				t.Fatalf("it ended with %d:\n%s", code, c.seen())
			}
			if seen := c.seen(); strings.Contains(seen, "sk-good") || strings.Contains(seen, "sk-bad") {
				t.Errorf("a key is shown:\n%s", seen)
			}
			key, err := os.ReadFile(filepath.Join(s.home, "openai.key"))
			info, statErr := os.Stat(filepath.Join(s.home, "openai.key"))
			if err != nil || statErr != nil || string(key) != goodKey+"\n" || info.Mode().Perm() != 0o600 {
				t.Errorf("the file of the key: %v, %v, %v", err, statErr, info.Mode())
			}
			text, err := os.ReadFile(filepath.Join(s.home, "corebot.yaml"))
			if err != nil || strings.Contains(string(text), "sk-") || !strings.Contains(string(text),
				"file:openai.key") {
				t.Errorf("the settings, %v:\n%s", err, text)
			}
			if got := s.output("send", "--wait", "hello"); !strings.Contains(got, "A real answer.") {
				t.Errorf("the first answer: %s", got)
			}
		})
	}
}

func TestEnterAloneSetsAHomeUp(t *testing.T) {
	t.Parallel()
	s, c := startInit(t, 80)
	for _, question := range []string{"Number or name", "What may it do", "HTTP", "Which chat network"} {
		c.answer(0, question, "")
	}
	if code := c.ends(); code != 0 {
		t.Fatalf("it ended with %d:\n%s", code, c.seen())
	}
	if got := s.output("send", "--wait", "hello"); !strings.Contains(got, "offline model") {
		t.Errorf("the first answer: %s", got)
	}
}

func TestAnInterruptedInitChangesNothing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*screen){
		"by Ctrl-C":          func(c *screen) { c.press(ctrlC) },
		"by the end of file": func(c *screen) { c.press(ctrlD) },
		"by Ctrl-C at the key": func(c *screen) {
			c.press("anthropic\r")
			c.answer(0, "Address", "")
			c.await(0, "Key (it")
			c.press("sk-secret" + ctrlC)
		},
		"by nonsense": func(c *screen) {
			for range maxTries {
				mark := c.mark()
				c.press("nonsense\r")
				c.await(mark, "neither")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := startInit(t, 80)
			c.await(0, "Number or name")
			end(c)
			if code := c.ends(); code != 1 || !strings.Contains(c.seen(), "nothing was changed") {
				t.Errorf("it ended with %d:\n%s", code, c.seen())
			}
			if _, err := os.Stat(s.home); !os.IsNotExist(err) {
				t.Errorf("there is a home: %v", err)
			}
			if strings.Contains(c.seen(), "sk-secret") {
				t.Errorf("the key is shown:\n%s", c.seen())
			}
			after, err := unix.IoctlGetTermios(int(c.keys.Fd()), unix.TCGETS)
			if err == nil && after.Lflag&unix.ECHO == 0 {
				t.Error("the terminal stays silent")
			}
		})
	}
}

// settings is what the settings file of the home says.
func (s *service) settings() string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.home, "corebot.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func TestAKeyOfTheEnvironmentIsTakenWithEnter(t *testing.T) {
	t.Parallel()
	models := httptest.NewServer(endpoints())
	defer models.Close()
	for name, key := range map[string]string{"good": goodKey, "refused": "sk-bad-key-0123456789"} {
		t.Run(name, func(t *testing.T) {
			s, c := startInit(t, 80, "OPENAI_API_KEY="+key, "OPENAI_BASE_URL="+models.URL+"/keyed/v1")
			for _, question := range []string{"Number or name [1]", "Address"} {
				c.answer(0, question, "")
			}
			if key != goodKey {
				c.answer(0, "is the key whole, and of this provider?", goodKey)
			}
			for _, question := range []string{"Model", "What may it do", "HTTP", "Which chat network"} {
				c.answer(0, question, "")
			}
			if code := c.ends(); code != 0 {
				t.Fatalf("it ended with %d:\n%s", code, c.seen())
			}
			// the variable has the refused key still, and wins
			warned := strings.Contains(c.seen(), "wins over these settings: OPENAI_API_KEY")
			if warned != (key != goodKey) {
				t.Errorf("it said that the environment wins: %v", warned)
			}
			kept := map[bool]string{true: "env:OPENAI_API_KEY", false: "file:openai.key"}[key == goodKey]
			if text := s.settings(); !strings.Contains(text, kept) || strings.Contains(text, "sk-") {
				t.Errorf("the settings:\n%s", text)
			}
		})
	}
}

func TestAProviderThatCannotBeReachedIsKeptOnlyIfThePersonSaysSo(t *testing.T) {
	t.Parallel()
	for answer, code := range map[string]int{"": 1, "y": 0} {
		s, c := startInit(t, 80)
		c.answer(0, "Number or name", "openai")
		c.answer(0, "Address", "http://127.0.0.1:1/v1")
		c.answer(0, "Key (it", goodKey)
		c.await(0, "can this machine reach it?")
		c.answer(0, "Keep it all the same?", answer)
		if code == 0 {
			for _, question := range []string{"Model", "What may it do", "HTTP", "Which chat network"} {
				c.answer(0, question, "")
			}
		}
		if got := c.ends(); got != code {
			t.Fatalf("%q ended with %d:\n%s", answer, got, c.seen())
		}
		if _, err := os.Stat(s.home); os.IsNotExist(err) != (code != 0) {
			t.Errorf("after %q the home: %v", answer, err)
		}
	}
}

// TestTheDirectoryToWorkInIsOneThatCorebotStartsWith: what is around the home is none, so it is not even the default
// there. A path can be short.
func TestTheDirectoryToWorkInIsOneThatCorebotStartsWith(t *testing.T) {
	t.Parallel()
	s := newHome(t)
	s.home = filepath.Join(seedtest.OnDisk(t), "home") // a sandbox shows no directory that is in memory
	s, c := startInitAt(s, 80)
	if err := os.MkdirAll(filepath.Join(filepath.Dir(s.home), "garden"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.answer(0, "Number or name", "offline")
	c.answer(0, "What may it do", "work")
	c.answer(0, "Directory:", "")
	c.answer(0, "no directory is named", ".")
	c.answer(0, "which is Corebot's own", "./garden")
	c.answer(0, "HTTP", "")
	c.answer(0, "Which chat network", "")
	if code := c.ends(); code != 0 {
		t.Fatalf("it ended with %d:\n%s", code, c.seen())
	}
	if text := s.settings(); !strings.Contains(text, filepath.Join(filepath.Dir(s.home), "garden")) {
		t.Errorf("the settings:\n%s", text)
	}
	s.output("config", "check")
}

// TestAHomeThatCannotBeWrittenIsRefusedBeforeAnythingIsAsked, for a user who is not root, as the person at a terminal
// mostly is.
func TestAHomeThatCannotBeWrittenIsRefusedBeforeAnythingIsAsked(t *testing.T) {
	dir, err := os.MkdirTemp(seedtest.Disk(), "corebot-closed") // other users do not reach those of the test
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	binary, closed := filepath.Join(dir, "corebot"), filepath.Join(dir, "closed")
	program, err := os.ReadFile(realProgram(t))
	for _, err := range []error{
		err, os.Chmod(dir, 0o755), os.WriteFile(binary, program, 0o755), os.Mkdir(closed, 0o555),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for command, want := range map[string]string{
		"init":   "cannot be written: no rights in " + closed,
		"doctor": "cannot be written: no rights in " + closed,
		"chat":   "mkdir " + closed,
	} {
		cmd := exec.Command(binary, "--home", filepath.Join(closed, "home"), command)
		cmd.Env, cmd.Dir = []string{"HOME=" + closed}, "/"
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		said := string(out)
		if err == nil || !strings.Contains(said, want) || !strings.Contains(said, "--home or COREBOT_HOME") {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}
