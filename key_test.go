package corebot_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestAKeyIsSpelledInOneWay(t *testing.T) {
	for want, k := range map[string]corebot.Key{
		"main:telegram::42": {Agent: "main", Channel: "telegram", Chat: "42"},
		"main:telegram:bot:42:7": {
			Agent: "main", Channel: "telegram", Account: "bot", Chat: "42",
			Thread: "7",
		},
		"main:cli:a%3Ab:%2F%2E%2E%2F:%25": {Agent: "main", Channel: "cli", Account: "a:b", Chat: "/../", Thread: "%"},
		"main:cli::%C3%BC%20x_-":          {Agent: "main", Channel: "cli", Chat: "ü x_-"},
	} {
		if got := k.String(); got != want {
			t.Errorf("%+v is spelled %q, want %q", k, got, want)
		}
		if got, err := corebot.ParseKey(want); err != nil || got != k {
			t.Errorf("%q is read as %+v, %v", want, got, err)
		}
	}
}

func TestASecondSpellingOfAKeyIsRefused(t *testing.T) {
	for _, s := range []string{
		"", "main", "main:cli:x", "main:cli::1:2:3", // the number of fields
		"main:cli::1:", // an empty thread is left out
		// escaped needlessly, in lower case, or not at all
		"main:cli::%41", "main:cli::%3a", "main:cli::a b", "main:cli::ü",
		"main:cli::%", "main:cli::%4", "main:cli::%GG", // broken escapes
		":cli::1", "main:::1", "main:cli::", // required fields
		// values that Validate refuses
		"main:cli::%FF", "main:cli::%0A", "main:cli::" + strings.Repeat("x", corebot.MaxKeyField+1),
	} {
		if k, err := corebot.ParseKey(s); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%q is read as %+v, %v", s, k, err)
		}
	}
}

func FuzzKeysRoundTripAndNeverCollide(f *testing.F) {
	f.Add("main", "cli", "", "1", "", "main", "cli", "1", "", "")
	f.Add("a", "b:c", "", "d", "", "a", "b", "c", "d", "")
	f.Add("a", "b", "c", "%3A", "", "a", "b", "c", ":", "")
	f.Fuzz(func(t *testing.T, a, b, c, d, e, a2, b2, c2, d2, e2 string) {
		k, l := corebot.Key{Agent: a, Channel: b, Account: c, Chat: d, Thread: e},
			corebot.Key{Agent: a2, Channel: b2, Account: c2, Chat: d2, Thread: e2}
		if (k.String() == l.String()) != (k == l) {
			t.Fatalf("%+v and %+v are spelled %q and %q", k, l, k, l)
		}
		if k.Validate() != nil {
			return
		}
		if got, err := corebot.ParseKey(k.String()); err != nil || got != k {
			t.Fatalf("%+v is spelled %q and read as %+v, %v", k, k, got, err)
		}
		if strings.Trim(k.String(), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%:") != "" {
			t.Fatalf("%q is no safe name", k)
		}
	})
}

func FuzzParseKeyReadsOnlyWhatStringWrites(f *testing.F) {
	for _, s := range []string{
		"main:cli::1", "main:cli:a:1:2", "main:cli::%2F", "main:cli::%2f", ":::",
		"main:cli::1:",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := corebot.ParseKey(s)
		if err == nil && (k.String() != s || k.Validate() != nil) {
			t.Fatalf("%q is read as %+v, spelled %q, valid: %v", s, k, k, k.Validate())
		}
	})
}

func FuzzPrincipalsRoundTripAndNeverCollide(f *testing.F) {
	f.Add("cli", "local", "1000", "cli", "local:1000", "")
	f.Add("a", "", "b%", "a", "b", "")
	f.Fuzz(func(t *testing.T, a, b, c, a2, b2, c2 string) {
		p, q := corebot.Principal{Channel: a, Account: b, ID: c}, corebot.Principal{Channel: a2, Account: b2, ID: c2}
		if (p.String() == q.String()) != (p == q) {
			t.Fatalf("%+v and %+v are spelled %q and %q", p, q, p, q)
		}
		if got, err := corebot.ParsePrincipal(p.String()); err != nil || got != p {
			t.Fatalf("%+v is spelled %q and read as %+v, %v", p, p, got, err)
		}
	})
}

func TestWithoutAnOwnersChannelNoChannelIsTheOwners(t *testing.T) {
	var none corebot.OwnersChannel
	if none.Is("") || none.Is("cli") || !corebot.OwnersChannel("cli").Is("cli") {
		t.Error("another channel than the owner's is taken for it")
	}
}

func TestAPrincipalThatIsNoneIsRefused(t *testing.T) {
	for _, s := range []string{
		"", "cli", "cli:local", "cli:local:1:2", "cli:local:%", "cli:local:%4",
		"cli:local:%zz",
	} {
		if p, err := corebot.ParsePrincipal(s); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%q is read as %+v, %v", s, p, err)
		}
	}
}

func TestARoleThatIsNotKnownIsNeverTakenForAnother(t *testing.T) {
	for _, s := range []string{"", "Admin", "admin ", "root", "admin,normal"} {
		if r, err := corebot.ParseRole(s); err == nil || r != "" {
			t.Errorf("role %q is read as %q", s, r)
		}
	}
}

func TestEveryChannelHasAPoolOfItsOwn(t *testing.T) {
	a, b := corebot.Key{Channel: "a"}, corebot.Key{Channel: "b"}
	if corebot.PoolOf(corebot.Inbound, a) != corebot.InboundPool ||
		corebot.PoolOf(corebot.Inbound, b) != corebot.InboundPool {
		t.Error("inbound lanes are not in one pool")
	}
	if corebot.PoolOf(corebot.Outbound, a) == corebot.PoolOf(corebot.Outbound, b) ||
		corebot.PoolOf(corebot.Outbound, a) == corebot.InboundPool {
		t.Error("outbound lanes of two channels share a pool")
	}
	if corebot.OutboundPool("inbound") == corebot.InboundPool {
		t.Error("a channel's name makes its pool another's")
	}
}
