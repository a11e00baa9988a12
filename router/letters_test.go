package router_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
)

// told is the text of the one notice about a message.
func told(t *testing.T, k *apptest.Kit, id string) string {
	t.Helper()
	all := k.Told(id)
	if len(all) != 1 {
		t.Fatalf("%s was told %+v", id, all)
	}
	return all[0].Text()
}

func adminOf(t *testing.T, k *apptest.Kit, chat, who string) {
	t.Helper()
	g := corebot.Grant{Principal: apptest.Person(who), Role: corebot.RoleAdmin, Chat: apptest.Key(chat)}
	if err := k.Grants.Grant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

func TestDeadListsTheSendersOwnAndAllForAnAdmin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := fails(t, 4)
		k.Say("a", "1", "the first")
		k.SayAs("bob", "a", "2", "of bob\nin two lines")
		k.Say("elsewhere", "3", "of another chat")
		pass(time.Second)
		k.Say("a", "d1", "/dead")
		got := told(t, k, "d1")
		for text, want := range map[string]bool{
			"1 of your messages in this chat is given up:": true, "\n1 (": true, `"the first"`: true, "/drop ID": true,
			"Something failed inside Corebot.": true, "bob": false, "another chat": false, "no credit": false,
		} {
			if strings.Contains(got, text) != want {
				t.Errorf("%q is in the list: %v, want %v\n%s", text, !want, want, got)
			}
		}
		adminOf(t, k, "a", "root")
		k.SayAs("root", "a", "d2", "/dead")
		if got = told(t, k, "d2"); !strings.Contains(got, "2 of the messages of this chat are given up:") ||
			!strings.Contains(got, `, of bob): `) || !strings.Contains(got, `"of bob in two lines"`) {
			t.Errorf("an admin reads\n%s", got)
		}
		k.SayAs("carol", "a", "d3", "/dead")
		if got = told(t, k, "d3"); got != "None of your messages in this chat is given up." {
			t.Errorf("somebody else reads %q", got)
		}
	})
}

func TestRetryAllAndDropAllMeanWhatDeadLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := fails(t, 5)
		for i := range 3 {
			k.Say("a", fmt.Sprint(i), "hello")
		}
		k.SayAs("bob", "a", "b", "of bob")
		k.SayAs("bob", "a", "b2", "of bob")
		pass(time.Second)
		k.Say("a", "r1", "/retry all")
		k.Say("a", "r1", "/retry all") // delivered twice
		pass(time.Second)
		k.WantTold("r1", "3 messages will be tried again.")
		for i := range 3 {
			k.WantEnd(fmt.Sprint(i), corebot.EndAnswered)
			if run := k.Life(fmt.Sprint(i)).Run; run != 2 {
				t.Errorf("message %d has run %d times", i, run)
			}
		}
		k.WantEnd("b", corebot.EndDead)
		k.Say("a", "d1", "/drop all")
		k.WantTold("d1", "None of your messages in this chat is given up.")
		k.Say("a", "d2", "/drop b")
		k.WantTold("d2", "Only who sent the message, or an admin, can drop it.")
		k.SayAs("bob", "a", "d3", "/drop b")
		k.WantTold("d3", "Message b is dropped, and its text is deleted.")
		k.WantEnd("b", corebot.EndDropped)
		if m := k.Life("b").Message; m != nil {
			t.Errorf("its content is still there: %+v", m)
		}
		k.SayAs("bob", "a", "d4", "/drop b")
		k.WantTold("d4", "Message b was dropped and cannot be tried again. Please send it anew.")
		k.SayAs("bob", "a", "d5", "/drop")
		if got := told(t, k, "d5"); !strings.Contains(got, "/drop all") || k.Life("b2").End != corebot.EndDead {
			t.Errorf("/drop alone says %q, and b2 is %s", got, k.Life("b2").End)
		}
		adminOf(t, k, "a", "root")
		k.SayAs("root", "a", "d6", "/drop all")
		k.WantTold("d6", "1 message is dropped for good.")
		k.WantEnd("b2", corebot.EndDropped)
	})
}
