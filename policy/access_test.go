package policy_test

import (
	"errors"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

func TestWhoMayTalkIsDecidedByTheChatFirstAndThenByTheChannel(t *testing.T) {
	admission := func(registered bool, a corebot.ChatAccess) corebot.Admission {
		return corebot.Admission{Registered: registered, Access: a}
	}
	for _, c := range []struct {
		rule  policy.AccessRule
		list  []string
		chat  corebot.Admission
		allow bool
		by    string
	}{
		{policy.AccessOpen, nil, admission(false, ""), true, "open"},
		{policy.AccessOpen, nil, admission(true, corebot.DenyChat), false, "chat-denied"},
		{policy.AccessRegistered, nil, admission(false, ""), false, "not-registered"},
		{policy.AccessRegistered, nil, admission(true, ""), true, "registered"},
		{policy.AccessRegistered, []string{"*"}, admission(false, ""), false, "not-registered"},
		{policy.AccessRegistered, nil, admission(true, corebot.DenyChat), false, "chat-denied"},
		{policy.AccessRegistered, nil, admission(false, corebot.AllowChat), true, "chat-allowed"},
		{policy.AccessAllowlist, nil, admission(true, ""), false, "not-listed"},
		{policy.AccessAllowlist, []string{"webhook::ann"}, admission(false, ""), true, "listed"},
		{policy.AccessAllowlist, []string{"webhook::bob"}, admission(true, ""), false, "not-listed"},
		{policy.AccessAllowlist, []string{"*"}, admission(false, ""), true, "listed"},
		{policy.AccessAllowlist, []string{"*"}, admission(true, corebot.DenyChat), false, "chat-denied"},
		{policy.AccessAllowlist, nil, admission(false, corebot.AllowChat), true, "chat-allowed"},
		{policy.AccessPairing, nil, admission(true, ""), false, "not-paired"},
		{policy.AccessPairing, nil, corebot.Admission{Paired: true}, true, "paired"},
		{policy.AccessPairing, nil, corebot.Admission{Paired: true, Access: corebot.DenyChat}, false, "chat-denied"},
		{policy.AccessPairing, []string{"webhook::ann"}, admission(false, ""), true, "listed"},
		{policy.AccessAllowlist, nil, corebot.Admission{Paired: true}, false, "not-listed"},
		{policy.AccessRegistered, nil, corebot.Admission{Paired: true}, false, "not-registered"},
	} {
		list, err := corebot.ParseAllowlist("webhook", c.list)
		if err != nil {
			t.Fatal(err)
		}
		a, err := policy.NewAccess(c.rule, list)
		if err != nil {
			t.Fatal(err)
		}
		got := a.Admit(ann, here, c.chat)
		if got.Allow != c.allow || got.Rule != c.by || got.Allow == (got.Reason != "") {
			t.Errorf("%s %q, chat %+v: got %+v, want %v by %s", c.rule, c.list, c.chat, got, c.allow, c.by)
		}
	}
}

func TestARuleThatIsNotKnownLetsNobodyIn(t *testing.T) {
	for _, rule := range []policy.AccessRule{"", "Open", "all"} {
		if _, err := policy.NewAccess(rule, corebot.Allowlist{}); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%q: %v", rule, err)
		}
	}
	if got := (policy.Access{}).Admit(ann, here, corebot.Admission{Registered: true}); got.Allow {
		t.Errorf("the zero rule: %+v", got)
	}
}
