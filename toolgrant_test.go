package corebot_test

import (
	"errors"
	"testing"

	"github.com/corebot/corebot"
)

func TestAToolGrantIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]corebot.ToolGrant{
		"message.send=normal":     {Tool: "message.send", Role: corebot.RoleNormal},
		" mcp__files__* = admin ": {Tool: "mcp__files__*", Role: corebot.RoleAdmin},
		"*=cli:local:0": {Tool: "*", Principal: corebot.Principal{
			Channel: "cli", Account: "local",
			ID: "0",
		}},
		"chat.register=webhook::a%2Cb": {Tool: "chat.register", Principal: corebot.Principal{
			Channel: "webhook",
			ID:      "a,b",
		}},
		"chat.register=webhook::normal": {Tool: "chat.register", Principal: corebot.Principal{
			Channel: "webhook",
			ID:      "normal",
		}},
	} {
		got, err := corebot.ParseToolGrant(text)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
		if again, err := corebot.ParseToolGrant(got.String()); err != nil || again != want {
			t.Errorf("%q is written as %q: %+v, %v", text, got, again, err)
		}
	}
}

func TestAGrantOfNothingOrToNobodyIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "message.send", "=normal", "a*b=normal", "**=normal", "a b=normal", "a,b=normal", "é=normal", "a=",
		"a=Admin", "a=root", "a=alice",
		"a=webhook::", "a=webhook:alice", "a=webhook::a b", "a=b=normal",
	} {
		if g, err := corebot.ParseToolGrant(text); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%q: %+v, %v", text, g, err)
		}
	}
	ann := corebot.Principal{Channel: "webhook", ID: "ann"}
	for _, g := range []corebot.ToolGrant{
		{Tool: "a"},
		{Tool: "a", Role: corebot.RoleNormal, Principal: ann},
		{Tool: "a", Role: "root"},
		{Tool: "a", Principal: corebot.Principal{Channel: "webhook"}},
	} {
		if err := g.Validate(); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

func FuzzParseToolGrant(f *testing.F) {
	for _, s := range []string{"message.send=normal", "mcp__*=webhook::alice", "=", "a=%", "*=::x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := corebot.ParseToolGrant(s)
		if err != nil {
			return
		}
		if again, err := corebot.ParseToolGrant(g.String()); err != nil || again != g {
			t.Errorf("%q is %+v, which is written as %q and read as %+v, %v", s, g, g, again, err)
		}
	})
}
