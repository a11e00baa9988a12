package corebot_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestAChatIsFoundByItsKeyOrByAShortFormThatIsItsAlone(t *testing.T) {
	chat := func(channel, account, chat, thread string) corebot.Key {
		return corebot.Key{Agent: "main", Channel: channel, Account: account, Chat: chat, Thread: thread}
	}
	known := []corebot.Key{
		chat("webhook", "", "c1", ""), chat("webhook", "", "c2", ""), chat("cli", "local", "c2", ""),
		chat("webhook", "", "a b", ""),
		chat("mail", "x", "in", "t1"), chat("mail", "y", "in", ""), chat("mail", "x", "in", ""),
	}
	for name, want := range map[string]string{
		"main:webhook::c1": "main:webhook::c1", "webhook::c1": "main:webhook::c1", "webhook:c1": "main:webhook::c1",
		"c1":              "main:webhook::c1",
		"main:other::new": "main:other::new", "cli:c2": "main:cli:local:c2", "cli:local:c2": "main:cli:local:c2",
		"a b": "main:webhook::a%20b", "a%20b": "main:webhook::a%20b", "webhook:a b": "main:webhook::a%20b",
		"in:t1": "main:mail:x:in:t1", "mail:x:in": "main:mail:x:in",
	} {
		if got, err := corebot.Named(name, known); err != nil || got.String() != want {
			t.Errorf("%q is %s, %v; want %s", name, got, err, want)
		}
	}
	_, err := corebot.Named("c2", known)
	if !errors.Is(err, corebot.ErrInvalid) || !strings.Contains(err.Error(), "main:webhook::c2, main:cli:local:c2") {
		t.Errorf("an ambiguous name ends with %v", err)
	}
	if _, err := corebot.Named("mail:in", known); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("a chat of two accounts ends with %v", err)
	}
	for _, name := range []string{"", "c3", ":c1", "::c1", "webhook", "main:webhook:c1", "C1"} {
		if got, err := corebot.Named(name, known); !errors.Is(err, corebot.ErrNotFound) || corebot.HintOf(err) == "" {
			t.Errorf("%q is %s, %v", name, got, err)
		}
	}
	var many []corebot.Key
	for i := range 50 {
		many = append(many, chat("webhook", fmt.Sprint(i), "c", ""))
	}
	if _, err := corebot.Named("c", many); err == nil || !strings.HasSuffix(err.Error(), "main:webhook:9:c, 40 more") {
		t.Errorf("fifty chats end with %v", err)
	}
}
