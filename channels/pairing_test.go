package channels_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
)

// pairingDoor is a door where strangers need a code. One sender is on its list.
func pairingDoor(t *testing.T) (*apptest.Kit, *channels.FrontDoor) {
	t.Helper()
	k := apptest.New(t, apptest.Options{})
	list, err := corebot.ParseAllowlist(apptest.Channel, []string{apptest.Channel + ":acc:listed"})
	if err != nil {
		t.Fatal(err)
	}
	access, err := policy.NewAccess(policy.AccessPairing, list)
	if err != nil {
		t.Fatal(err)
	}
	return k, doorOf(t, k, channels.AccountRules{Access: access, Groups: channels.GroupsMention},
		channels.DoorOptions{Trail: storage.NewAudit(k.DB), Metrics: k.Registry})
}

var codeIn = regexp.MustCompile(`Your code is ([A-Z2-9]{8}),`)

// codes are those that the chats of strangers are told. Nothing else is said there.
func codes(t *testing.T, k *apptest.Kit) (all []string) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		ds, _ := k.Bus.Claim(ctx, corebot.OutboundPool(apptest.Channel), 10)
		cancel()
		if len(ds) == 0 {
			return all
		}
		for _, d := range ds {
			found := codeIn.FindStringSubmatch(d.Message.Text())
			if found == nil || d.Message.Notice.Kind != corebot.NoticePairing {
				t.Fatalf("a stranger is told %q", d.Message.Text())
			}
			all = append(all, found[1]+" "+d.Message.InReplyTo)
			done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}
			if err := k.Bus.Settle(t.Context(), d, done); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAStrangerGetsACodeAndNothingElse(t *testing.T) {
	k, door := pairingDoor(t)
	for i, text := range []string{"hello", "/stop", "/help", "hello again"} {
		id := fmt.Sprint("m", i)
		if _, err := door.Accept(t.Context(), incoming(id, text)); !errors.Is(err, channels.ErrNotAdmitted) {
			t.Fatalf("%s: %v", text, err)
		}
		if stored(t, k, id) != 0 {
			t.Errorf("%q is stored", text)
		}
	}
	if got := codes(t, k); len(got) != 1 || !strings.HasSuffix(got[0], " m0") {
		t.Errorf("told are the codes %v", got)
	}
	if said := k.Said("a"); len(said) != 0 {
		t.Errorf("the history has %+v", said)
	}
	in := incoming("listed", "hello")
	in.SenderID = "listed"
	if _, err := door.Accept(t.Context(), in); err != nil {
		t.Errorf("who is listed: %v", err)
	}
}

func TestNoCodeIsGivenWhereOthersOrProgramsReadIt(t *testing.T) {
	for name, change := range map[string]func(*channels.Incoming){
		"of a program": func(in *channels.Incoming) { in.Bot = true },
		"of a group":   func(in *channels.Incoming) { in.Envelope.Group = true },
		"of a group, with a mention": func(in *channels.Incoming) {
			in.Envelope.Group,
				in.Envelope.Mentioned = true, true
		},
		"of a sender without an id":    func(in *channels.Incoming) { in.SenderID = "" },
		"of a sender with a hidden id": func(in *channels.Incoming) { in.SenderID = "ann\u0000" },
		"with an id of Corebot's own":  func(in *channels.Incoming) { in.ID = corebot.OwnID("paired", 1) },
		"with no words":                func(in *channels.Incoming) { in.Parts = nil },
	} {
		t.Run(name, func(t *testing.T) {
			k, door := pairingDoor(t)
			in := incoming("m1", "hello")
			change(&in)
			if _, err := door.Accept(t.Context(), in); err == nil {
				t.Error("it was accepted")
			}
			open, _, err := storage.NewPairings(k.DB).Page(t.Context(), "", "", 10)
			if err != nil || len(open) != 0 {
				t.Errorf("asked: %+v, %v", open, err)
			}
		})
	}
}

func TestABatchThatComesAgainTellsACodeOnce(t *testing.T) {
	k, door := pairingDoor(t)
	account := channels.Account{Kind: apptest.Channel, Name: "acc"}
	batch := []channels.Incoming{incoming("m1", "hello")}
	for range 2 {
		taken, err := door.AcceptBatch(t.Context(), account, batch, corebot.Cursor{}.To("1"))
		if err != nil || !errors.Is(taken.Messages[0].Err, channels.ErrNotAdmitted) {
			t.Fatalf("%+v, %v", taken, err)
		}
	}
	if got := codes(t, k); len(got) != 1 {
		t.Errorf("the codes are %v", got)
	}
}

func TestAnAdminOfEverythingLetsAStrangerInFromAnyChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, door := pairingDoor(t)
		refused := func(in channels.Incoming) {
			t.Helper()
			if _, err := door.Accept(t.Context(), in); !errors.Is(err, channels.ErrNotAdmitted) {
				t.Fatalf("%s: %v", in.ID, err)
			}
		}
		refused(incoming("m1", "hello"))
		code, _, _ := strings.Cut(codes(t, k)[0], " ")
		// pair sends a /pair of a sender in another chat, and returns what he is told.
		sent := 0
		pair := func(sender, args string, person bool) string {
			t.Helper()
			sent++
			in := incoming(fmt.Sprint("p", sent), "/pair "+args)
			in.SenderID, in.Chat, in.Interactive = sender, "elsewhere", person
			in.Account = "" // an account where everybody may talk
			if _, err := k.Door.Accept(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			return k.Told(in.ID)[0].Text()
		}
		boss := corebot.Principal{Channel: apptest.Channel, ID: "boss"}
		here := corebot.Principal{Channel: apptest.Channel, ID: "here"}
		elsewhere := apptest.Key("elsewhere")
		elsewhere.Thread = "t"
		for _, g := range []corebot.Grant{
			{Principal: boss, Role: corebot.RoleAdmin},
			{Principal: here, Role: corebot.RoleAdmin, Chat: elsewhere},
			{Principal: corebot.Principal{Channel: apptest.Channel, ID: "other"}, Role: corebot.RoleAdmin},
		} {
			if err := k.Grants.Grant(t.Context(), g); err != nil {
				t.Fatal(err)
			}
		}
		for who, told := range map[string]string{
			"nobody": pair("nobody", code, true), "an admin of one chat": pair("here", code, true),
			"a program of the admin": pair("boss", code, false), "the stranger": pair("alice", code, true),
		} {
			if !strings.HasPrefix(told, "That is not allowed: ") || strings.Contains(told, code) {
				t.Errorf("%s is told %q", who, told)
			}
		}
		if told := pair("nobody", "", true); strings.Contains(told, code) {
			t.Errorf("a stranger's list is %q", told)
		}
		if told := pair("boss", "", true); !strings.Contains(told, code+": "+apptest.Channel+":acc:alice") {
			t.Errorf("the list is %q", told)
		}
		for args, want := range map[string]string{
			"ABCDEFGH": "Nobody has the code ABCDEFGH.", "nonsense!": "That is no code", "deny": "That is no code",
			"deny a b": "/pair CODE lets in", "\u202eABCDEFG": "That is no code",
		} {
			if told := pair("boss", args, true); !strings.HasPrefix(told, want) {
				t.Errorf("/pair %q is told %q", args, told)
			}
		}
		refused(incoming("m2", "hello?"))
		if err := k.Grants.Revoke(t.Context(), boss, corebot.Key{}); err != nil {
			t.Fatal(err)
		}
		if told := pair("boss", code, true); !strings.HasPrefix(told, "That is not allowed: ") {
			t.Errorf("who lost the role is told %q", told)
		}
		refused(incoming("m3", "hello?"))
		if told := pair("other", strings.ToLower(code), true); told != apptest.Channel+":acc:alice may talk now." {
			t.Errorf("the admin is told %q", told)
		}
		if told := pair("other", code, true); !strings.HasPrefix(told, "The code "+code+" was used") {
			t.Errorf("the used code: %q", told)
		}
		if _, err := door.Accept(t.Context(), incoming("m4", "hello!")); err != nil {
			t.Errorf("who was let in: %v", err)
		}
	})
}
