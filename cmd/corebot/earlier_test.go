package main

import (
	"strings"
	"testing"
	"time"
)

func TestAChatThatIsOpenedAgainShowsItsLastMessages(t *testing.T) {
	t.Parallel()
	s := newHome(t)
	first := s.chat()
	first.say("hello", "Hello! I am Corebot's")
	first.press(ctrlD)
	first.ends()
	s.output("send", "--chat", "other", "--wait", "something else")

	again := s.chat()
	seen := again.seen()
	for _, want := range []string{"› hello", "  Hello! I am Corebot's"} {
		if strings.Count(seen, want) != 1 {
			t.Errorf("%q is there %d times", want, strings.Count(seen, want))
		}
	}
	if strings.Contains(seen, "something else") {
		t.Error("what was said in another chat is there")
	}
	again.say("/new", "new conversation")
	again.press(ctrlD)
	again.ends()
	if seen := s.chat().seen(); strings.Contains(seen, "Hello! I am") {
		t.Error("what was said before /new is there")
	}
	if piped := s.output("chat"); strings.Contains(piped, "Hello! I am") {
		t.Errorf("without a terminal it is there too:\n%s", piped)
	}
}

func TestAReplyThatNobodySawIsShownOnce(t *testing.T) {
	t.Parallel()
	s := newHome(t)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	s.awaitHome()
	s.output("send", "hello")
	s.awaitSaid("main:cli:local:main", "Hello! I am Corebot's")
	sc := s.chat()
	sc.await(0, "Hello! I am Corebot's")
	sc.say("who are you?", "offline model")
	if n := strings.Count(sc.seen(), "Hello! I am Corebot's"); n != 1 {
		t.Errorf("the answer is there %d times", n)
	}
}

// awaitSaid waits until a text stands in the history of a chat.
func (s *service) awaitSaid(chat, text string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		shown, _ := s.command(s.t.Context(), "chats", "show", chat).CombinedOutput()
		if strings.Contains(string(shown), text) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%q was not said:\n%s", text, shown)
		}
	}
}
