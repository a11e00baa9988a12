package corebot_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestAnAllowlistNamesSendersChatsWithTheirThreadsOrEverybody(t *testing.T) {
	ann := corebot.Principal{Channel: "webhook", ID: "ann"}
	family := corebot.Key{Agent: "main", Channel: "webhook", Chat: "family"}
	thread := family
	thread.Thread = "t"
	nobody := corebot.Principal{Channel: "webhook"}
	for _, c := range []struct {
		list  string
		p     corebot.Principal
		k     corebot.Key
		named bool
	}{
		{"", ann, family, false},
		{"*", ann, family, true},
		{"*", nobody, family, true},
		{"webhook::ann", ann, family, true},
		{"webhook::Ann", ann, family, false},
		{"webhook:other:ann", ann, family, false},
		{"webhook::bob", ann, family, false},
		{"webhook::bob webhook::ann", ann, family, true},
		{"webhook::ann", nobody, family, false},
		{"main:webhook::family", nobody, family, true},
		{"main:webhook::family", ann, thread, true},
		{"main:webhook::family:t", ann, thread, true},
		{"main:webhook::family:t", ann, family, false},
		{"main:webhook::friends", ann, family, false},
		{"other:webhook::family", ann, family, false},
	} {
		list, err := corebot.ParseAllowlist("webhook", strings.Fields(c.list))
		if err != nil {
			t.Fatalf("%q: %v", c.list, err)
		}
		if got := list.Names(c.p, c.k); got != c.named {
			t.Errorf("%q names %s in %s: %v, want %v", c.list, c.p, c.k, got, c.named)
		}
	}
	if (corebot.Allowlist{}).Names(ann, family) {
		t.Error("the zero list names somebody")
	}
}

func TestAnAllowlistRefusesWhatCouldNeverMatch(t *testing.T) {
	for _, entry := range []string{
		"", "ann", "**", "webhook::*x", "webhook::", "cli:local:1000", "main:cli:local:main",
		"webhook::a b", "webhook::%61nn", "webhook::a%0A", "main:webhook::", "a:b:c:d:e:f",
	} {
		_, err := corebot.ParseAllowlist("webhook", []string{"*", entry})
		if !errors.Is(err, corebot.ErrInvalid) || corebot.HintOf(err) == "" {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

// FuzzAnAllowlistEntryNamesItselfOnly: whatever is taken names the very sender or chat that it spells, and not another.
func FuzzAnAllowlistEntryNamesItselfOnly(f *testing.F) {
	for _, s := range []string{
		"*", "webhook::ann", "main:webhook::family", "main:webhook::family:t", "webhook::a%3Ab",
		"webhook:%", "webhook::\xff", ":::",
	} {
		f.Add(s, "ann", "family")
	}
	f.Fuzz(func(t *testing.T, entry, sender, chat string) {
		list, err := corebot.ParseAllowlist("webhook", []string{entry})
		if err != nil {
			if !errors.Is(err, corebot.ErrInvalid) {
				t.Errorf("%q: %v", entry, err)
			}
			return
		}
		p, k := corebot.Principal{Channel: "webhook", ID: sender}, corebot.Key{
			Agent: "main", Channel: "webhook",
			Chat: chat,
		}
		want := entry == "*" || sender != "" && entry == p.String() || entry == k.String()
		if got := list.Names(p, k); got != want {
			t.Errorf("%q names %q in %q: %v", entry, sender, chat, got)
		}
	})
}
