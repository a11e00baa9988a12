package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// startInit runs `corebot init` on a terminal of a size, without any setting of the environment.
func startInit(t *testing.T, columns uint16) (*service, *screen) {
	t.Helper()
	s := newHome(t)
	cmd := s.command(t.Context(), "init")
	cmd.Env = append(cmd.Env, "COREBOT_LLM_OFFLINE=", "COREBOT_WEBHOOK_ADDR=")
	return s, startScreen(t, cmd, columns, 24)
}

func (s *screen) answer(mark int, question, answer string) {
	s.t.Helper()
	s.await(mark, question)
	s.press(answer + "\r")
}

func TestANewcomerIsAskedForProviderKeyAndModel(t *testing.T) {
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
			c.answer(mark, "Model", "")
			c.answer(mark, "What may it do", "")
			c.answer(mark, "HTTP", "")
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
			s.env = append(s.env, "COREBOT_LLM_OFFLINE=")
			if got := s.output("send", "--wait", "hello"); !strings.Contains(got, "A real answer.") {
				t.Errorf("the first answer: %s", got)
			}
		})
	}
}

func TestEnterAloneSetsAHomeUp(t *testing.T) {
	s, c := startInit(t, 80)
	for _, question := range []string{"Number or name", "What may it do", "HTTP"} {
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
	for name, end := range map[string]func(*screen){
		"by Ctrl-C":          func(c *screen) { c.press(ctrlC) },
		"by the end of file": func(c *screen) { c.press(ctrlD) },
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
		})
	}
}
