package channels_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
)

// refusedRows are the senders whom the audit names as refused, with the rule.
func refusedRows(t *testing.T, k *apptest.Kit) (rows []string) {
	t.Helper()
	events, err := storage.NewAudit(k.DB).List(t.Context(), corebot.AuditFilter{
		Outcome: corebot.OutcomeDenied,
		Limit:   1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		rows = append(rows, e.Event+" "+e.Principal.ID+" "+e.Rule)
	}
	return rows
}

// refusedCount is the metric, all rules together.
func refusedCount(t *testing.T, k *apptest.Kit) (sum float64) {
	t.Helper()
	families, err := k.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "corebot_door_refused_total" {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestWhoMayNotTalkIsRefusedWhateverHeSaysAndNothingOfItIsStored(t *testing.T) {
	k, door := newDoor(t, policy.AccessAllowlist, apptest.Channel+":acc:alice")
	for i, text := range []string{"hello", "/help", "/stop", "/new", "/status"} {
		in := incoming(fmt.Sprint("m", i), text)
		in.SenderID = "bob"
		if _, err := door.Accept(t.Context(), in); !errors.Is(err, channels.ErrNotAdmitted) ||
			corebot.HintOf(err) == "" {
			t.Errorf("%q: %v", text, err)
		}
		if n := stored(t, k, in.ID); n != 0 {
			t.Errorf("%q: %d messages are stored", text, n)
		}
	}
	if _, err := door.Accept(t.Context(), incoming("a", "hello")); err != nil {
		t.Errorf("who is listed: %v", err)
	}
	if got := refusedRows(t, k); len(got) != 1 || got[0] != "door.refused bob not-listed" || refusedCount(t, k) != 5 {
		t.Errorf("noted %q, counted %v", got, refusedCount(t, k))
	}
}

func TestAnEmptyAllowlistIsNobody(t *testing.T) {
	_, door := newDoor(t, policy.AccessAllowlist)
	if _, err := door.Accept(t.Context(), incoming("a", "hello")); !errors.Is(err, channels.ErrNotAdmitted) {
		t.Errorf("the error is %v", err)
	}
}

func TestOnAChannelWithoutARuleNobodyMayTalk(t *testing.T) {
	_, door := newDoor(t, policy.AccessOpen)
	in := incoming("a", "hello")
	in.Channel = "another"
	if _, err := door.Accept(t.Context(), in); !errors.Is(err, channels.ErrNotAdmitted) {
		t.Errorf("the error is %v", err)
	}
}

func TestAChatIsOpenedAndShutForTheNextMessage(t *testing.T) {
	k, door := newDoor(t, policy.AccessRegistered)
	chats := storage.NewChats(k.DB)
	in := incoming("", "hello")
	key := corebot.Key{Agent: "main", Channel: in.Channel, Account: in.Account, Chat: in.Chat}
	n := 0
	admitted := func() bool {
		n++
		in.ID, in.Thread = fmt.Sprint("m", n), fmt.Sprint("t", n) // a new lane each time
		_, err := door.Accept(t.Context(), in)
		if err != nil && !errors.Is(err, channels.ErrNotAdmitted) {
			t.Fatal(err)
		}
		return err == nil
	}
	for _, c := range []struct {
		change func() error
		want   bool
	}{
		{func() error { return nil }, false},
		{func() error { return chats.Register(t.Context(), key, true, "") }, true},
		{func() error { return chats.SetAccess(t.Context(), key, corebot.DenyChat) }, false},
		{func() error { return chats.SetAccess(t.Context(), key, corebot.AllowChat) }, true},
		{func() error { return chats.Register(t.Context(), key, false, "") }, true},
		{func() error { return chats.SetAccess(t.Context(), key, "") }, false},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if got := admitted(); got != c.want {
			t.Errorf("message %d: admitted is %v", n, got)
		}
	}
}

func TestAFloodOfStrangersLeavesAFewRowsAndIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, door := newDoor(t, policy.AccessAllowlist)
		knock := func(sender string) {
			in := incoming("m", "let me in")
			in.SenderID = sender
			if _, err := door.Accept(t.Context(), in); !errors.Is(err, channels.ErrNotAdmitted) {
				t.Fatal(err)
			}
		}
		for range 3 {
			for n := range 150 {
				knock(fmt.Sprint("stranger", n))
			}
		}
		if got := refusedRows(t, k); len(got) != 100 || refusedCount(t, k) != 450 {
			t.Errorf("%d rows, counted %v", len(got), refusedCount(t, k))
		}
		time.Sleep(time.Hour)
		knock("stranger149")
		if got := refusedRows(t, k); len(got) != 101 {
			t.Errorf("%d rows an hour later", len(got))
		}
	})
}

func TestAStrangerWithAnImpossibleNameIsRefusedAndNotNoted(t *testing.T) {
	k, door := newDoor(t, policy.AccessAllowlist)
	in := incoming("m", "hello")
	in.SenderID = "a\x1b[2Jb"
	if _, err := door.Accept(t.Context(), in); !errors.Is(err, channels.ErrNotAdmitted) {
		t.Errorf("the error is %v", err)
	}
	if got := refusedRows(t, k); len(got) != 0 {
		t.Errorf("noted %q", got)
	}
}

// deaf is a trail that cannot be written.
type deaf struct{}

func (deaf) Note(context.Context, corebot.AuditEvent) error { return corebot.ErrDiskFull }

func TestARefusalThatCannotBeNotedStands(t *testing.T) {
	k := apptest.New(t, apptest.Options{})
	door := doorOf(t, k, channels.AccountRules{}, channels.DoorOptions{Trail: deaf{}})
	if _, err := door.Accept(t.Context(), incoming("m", "hello")); !errors.Is(err, channels.ErrNotAdmitted) {
		t.Errorf("the error is %v", err)
	}
}

// unreadable knows no chat.
type unreadable struct{}

func (unreadable) Admission(context.Context, corebot.Key) (corebot.Admission, error) {
	return corebot.Admission{}, corebot.ErrClosed
}

func TestADoorThatCannotReadWhoMayTalkLetsNobodyIn(t *testing.T) {
	k := apptest.New(t, apptest.Options{})
	everybody, err := policy.NewAccess(policy.AccessOpen, corebot.Allowlist{})
	if err != nil {
		t.Fatal(err)
	}
	door, err := channels.NewFrontDoor(k.Bus, k.Router, channels.Admissions{
		Chats: unreadable{},
		Accounts: map[channels.Account]channels.AccountRules{
			{Kind: apptest.Channel}:              {Access: everybody},
			{Kind: apptest.Channel, Name: "acc"}: {Access: everybody},
		},
	}, channels.DoorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := door.Accept(t.Context(), incoming("m", "hello")); !errors.Is(err, corebot.ErrClosed) ||
		stored(t, k, "m") != 0 {
		t.Errorf("the error is %v", err)
	}
}
