package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/long"
)

func TestBesideAChatEveryCommandWorksAsBesideADaemon(t *testing.T) {
	t.Parallel()
	s := newHome(t)
	first := s.chat()
	first.say("hello", "Hello! I am Corebot's")

	if got := s.output("admin", "grant", "cli:local:7"); !strings.Contains(got, "cli:local:7 is admin") {
		t.Errorf("admin grant: %s", got)
	}
	if got := s.output("send", "--wait", "--chat", "other", "hello"); !strings.Contains(got, "Hello! I am Corebot's") {
		t.Errorf("send --wait: %s", got)
	}
	for _, args := range [][]string{
		{"send", "later"},
		{"dlq", "purge", "--all", "--yes"},
		{"approvals", "list"},
		{"chats", "reset", "main:cli:local:main"},
		{"status"},
		{"why", "--json", "nothing"},
	} {
		cmd := s.command(t.Context(), args...)
		if out, err := cmd.CombinedOutput(); err != nil && args[0] != "why" {
			t.Errorf("corebot %v: %v\n%s", args, err, out)
		}
	}

	second := s.chat()
	mark := first.mark()
	second.say("who are you?", "offline model")
	first.await(mark, "offline model") // it has the same chat open
	mark = first.mark()
	if got := s.output("send", "--wait", "hello"); !strings.Contains(got, "Hello! I am Corebot's") {
		t.Errorf("send --wait in the chat that is open: %s", got)
	}
	first.await(mark, "Hello! I am Corebot's") // and was not put out of it
	first.say("hello", "Hello! I am Corebot's")
}

func TestAnAttachedTerminalTakesOverWhenTheFirstEnds(t *testing.T) {
	long.Only(t, "TestBesideAChatEveryCommandWorksAsBesideADaemon")
	t.Parallel()
	for name, end := range map[string]func(*screen){
		"by leaving":      func(s *screen) { s.press(ctrlD); s.ends() },
		"by being killed": func(s *screen) { _ = s.cmd.Process.Kill(); s.ends() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newHome(t)
			first := s.chat()
			first.say("hello", "Hello! I am Corebot's")
			second, third := s.chat(), s.chat()
			second.press("half a ")
			end(first)
			second.await(0, fmt.Sprintf("process %d, has ended", first.cmd.Process.Pid))
			third.await(0, fmt.Sprintf("process %d, has ended", first.cmd.Process.Pid))
			second.say("sentence", "offline model")
			third.say("hello", "Hello! I am Corebot's")
			if here := strings.Count(second.seen()+third.seen(), "Corebot runs in this process now"); here != 1 {
				t.Errorf("Corebot runs in %d terminals", here)
			}
			s.awaitInChat("half a sentence")
		})
	}
}

func TestARestartOfTheDaemonReconnectsItsTerminals(t *testing.T) {
	long.Only(t, "TestBesideAChatEveryCommandWorksAsBesideADaemon")
	t.Parallel()
	s := newHome(t)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	s.awaitHome()
	one, two := s.chat(), s.chat()
	one.say("hello", "Hello! I am Corebot's")
	one.press("typed before ")
	s.kill()
	for _, sc := range []*screen{one, two} {
		sc.await(0, "Corebot has stopped. Waiting for it to come back")
	}
	two.press("sent meanwhile\r")
	mark, markTwo := one.mark(), two.mark()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	for _, sc := range []*screen{one, two} {
		sc.await(0, "Attached to Corebot again")
	}
	two.await(markTwo, "offline model")
	one.await(mark, "offline model")
	one.say("and sent after", "offline model")
	s.awaitInChat("typed before and sent after")
	one.press(ctrlD)
	if code := one.ends(); code != 0 {
		t.Errorf("a terminal that was left ended with %d", code)
	}
}

// awaitInChat waits until the terminals' chat has a text. A terminal shows an answer before the commit that ends its
// turn.
func (s *service) awaitInChat(text string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		chat := s.output("chats", "show", "main:cli:local:main")
		if strings.Contains(chat, text) {
			return
		} else if time.Now().After(deadline) {
			s.t.Fatalf("%q is not in the chat:\n%s", text, chat)
		}
	}
}

// awaitHome waits until a Corebot answers on the home.
func (s *service) awaitHome() {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(s.home + "/data/control.sock"); err == nil {
			return
		} else if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
	}
}

func TestACommandWaitsForTheMomentThatAnotherHoldsTheHome(t *testing.T) {
	t.Parallel()
	s := newHome(t)
	s.output("send", "hello")
	lock, err := holdHome(s.home)
	if err != nil {
		t.Fatal(err)
	}
	cmd := s.command(t.Context(), "admin", "grant", "cli:local:7")
	ended := make(chan error, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		ended <- errors.Join(err, fmt.Errorf("%s", out))
	}()
	select {
	case err := <-ended:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !strings.Contains(err.Error(), "is admin") {
		t.Error(err)
	}
}

// holdHome takes the lock of a home as a command does that answers nobody.
func holdHome(home string) (*os.File, error) {
	f, err := os.OpenFile(home+"/data/lock", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return f, lockFile(f)
}
