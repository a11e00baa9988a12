package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/long"
)

func TestChatsOfTerminalsAreListedAndResumedByNumberAndName(t *testing.T) {
	long.Only(t, "TestAChatThatIsOpenedAgainShowsItsLastMessages")
	t.Parallel()
	s := newHome(t)
	if got := s.output("chat", "--list"); got != "no chats\n" {
		t.Errorf("before the first chat: %q", got)
	}
	s.output("send", "--chat", "one", "--wait", "hello")
	s.output("send", "--chat", "two", "--wait", "hello")
	s.output("send", "--chat", "one", "--wait", "who are you?")
	sc := s.chat("--resume", "2")
	sc.await(0, "chat two")
	sc.say("/name garden plans", "this chat is called garden plans")
	file := filepath.Join(t.TempDir(), "chat.md")
	sc.say("/export "+file, "2 messages are in")
	text, err := os.ReadFile(file)
	if head, rest, _ := strings.Cut(string(text), "\n\nhello\n\n## Corebot, "); err != nil ||
		!strings.HasPrefix(head, "## ") || !strings.Contains(rest, "\n\nHello! I am Corebot's") {
		t.Errorf("the export is %q: %v", text, err)
	}
	sc.say("/export "+file, "export the chat: ")
	if again, err := os.ReadFile(file); err != nil || string(again) != string(text) {
		t.Errorf("it was written over: %q: %v", again, err)
	}
	sc.say("/export ~/no/such.md", "open "+filepath.Join(os.Getenv("HOME"), "no/such.md"))
	sc.press(ctrlD)
	sc.ends()
	rows := strings.Split(s.output("chat", "--list"), "\n")
	if len(rows) < 2 || !strings.HasPrefix(rows[0], "  1  one") || !strings.HasPrefix(rows[1], "  2  garden plans") {
		t.Errorf("the list is %q", rows)
	}
	s.chat("--resume", "garden plans").await(0, "chat two")
	out, err := s.command(t.Context(), "chat", "--resume", "nothing").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "corebot chat --list") {
		t.Errorf("an unknown name: %v\n%s", err, out)
	}
	out, err = s.command(t.Context(), "chat", "--resume", "").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--resume is empty") {
		t.Errorf("no name: %v\n%s", err, out)
	}
}

func TestADumbTerminalIsNotDrawnOn(t *testing.T) {
	t.Parallel()
	s := newHome(t)
	cmd := s.command(t.Context(), "chat")
	cmd.Args = append([]string{"/usr/bin/env", "TERM=dumb"}, cmd.Args...)
	cmd.Path = "/usr/bin/env"
	sc := startScreen(t, cmd, 20, 10)
	sc.press("hello\n")
	sc.await(0, "Hello! I am Corebot's")
	sc.mu.Lock()
	raw := sc.text.String()
	sc.mu.Unlock()
	if strings.Contains(raw, "\x1b") {
		t.Errorf("it got escapes: %q", raw)
	}
}
