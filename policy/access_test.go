package policy_test

import (
	"errors"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

func TestWhoMayTalkIsDecidedByTheChatFirstAndThenByTheChannel(t *testing.T) {
	standing := func(registered bool, a corebot.ChatAccess) corebot.Standing {
		return corebot.Standing{Registered: registered, Access: a}
	}
	for _, c := range []struct {
		rule  policy.AccessRule
		list  []string
		chat  corebot.Standing
		allow bool
		by    string
	}{
		{policy.AccessOpen, nil, standing(false, ""), true, "open"},
		{policy.AccessOpen, nil, standing(true, corebot.DenyChat), false, "chat-denied"},
		{policy.AccessRegistered, nil, standing(false, ""), false, "not-registered"},
		{policy.AccessRegistered, nil, standing(true, ""), true, "registered"},
		{policy.AccessRegistered, []string{"*"}, standing(false, ""), false, "not-registered"},
		{policy.AccessRegistered, nil, standing(true, corebot.DenyChat), false, "chat-denied"},
		{policy.AccessRegistered, nil, standing(false, corebot.AllowChat), true, "chat-allowed"},
		{policy.AccessAllowlist, nil, standing(true, ""), false, "not-listed"},
		{policy.AccessAllowlist, []string{"webhook::ann"}, standing(false, ""), true, "listed"},
		{policy.AccessAllowlist, []string{"webhook::bob"}, standing(true, ""), false, "not-listed"},
		{policy.AccessAllowlist, []string{"*"}, standing(false, ""), true, "listed"},
		{policy.AccessAllowlist, []string{"*"}, standing(true, corebot.DenyChat), false, "chat-denied"},
		{policy.AccessAllowlist, nil, standing(false, corebot.AllowChat), true, "chat-allowed"},
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
	if got := (policy.Access{}).Admit(ann, here, corebot.Standing{Registered: true}); got.Allow {
		t.Errorf("the zero rule: %+v", got)
	}
}
