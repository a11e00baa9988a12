package router_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
)

// A member who is not alone in a session takes nothing out of it. He gets no words by a copy of his own, and no rights
// by a chat in which nobody else is. An admin of a chat is none in a fork of it.
func TestAMemberOfAGroupForksAndRewindsNothingOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Always(apptest.Text("hm"))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		say := func(who, chat, id, text string, told string) {
			t.Helper()
			k.SayAs(who, chat, id, text)
			pass(time.Second)
			k.WantTold(id, told)
		}
		noCopy := strings.NewReplacer("begin a new one", "copy it", "reset", "fork").Replace(ofOthers)
		said := []string{"user: the code is 4711", "assistant: hm", "user: me too", "assistant: hm"}
		say("ann", "a", "1", "the code is 4711", "hm")
		say("bob", "a", "2", "me too", "hm")
		for range 2 { // the second are copies
			say("bob", "a", "3", "/fork mine", noCopy)
			say("bob", "a", "4", "/rewind 2",
				strings.NewReplacer("begin a new one", "rewind it", "reset", "rewind").Replace(ofOthers))
			say("bob", "a", "5", "/FORK mine at 1", noCopy)
		}
		inSession(t, k, 1, said...)
		for _, id := range []string{"3", "4", "5"} {
			k.WantEnd(id, corebot.EndRefused)
		}
		if n := len(k.Said("mine")); n != 0 {
			t.Errorf("the chat that bob wanted has %d entries", n)
		}

		here := corebot.Grant{Principal: apptest.Person("root"), Role: corebot.RoleAdmin, Chat: apptest.Key("a")}
		must(t, k.Grants.Grant(t.Context(), here))
		say("root", "a", "6", "/fork copy",
			"The chat copy has what was said here: 4 entries of the history. Memory, files, tasks, roles and "+
				"approvals stay with this chat.")
		if got := k.Transcript("copy"); !slices.Equal(got, said) {
			t.Errorf("the copy has %q", got)
		}
		role, err := k.Grants.RoleOf(t.Context(), here.Principal, apptest.Key("copy"))
		if err != nil || role != corebot.RoleNormal {
			t.Errorf("in the copy the admin of the chat is %v: %v", role, err)
		}
		// In the copy ann and bob still count as others.
		k.SayAs("root", "copy", "c1", "/rewind")
		pass(time.Second)
		k.WantEnd("c1", corebot.EndRefused)
		say("root", "a", "7", "/rewind",
			"Your last message and its answer are rewound: the model does not see them any more. They are kept. What "+
				"tools did meanwhile is not undone: messages that were sent, memory, tasks. /undo undoes changes of "+
				"files.")
		inSession(t, k, 1, said[:2]...)
		say("eve", "empty", "8", "/rewind", "There is nothing to rewind in this conversation.")
		say("eve", "empty", "9", "/fork x", "Chat main:test::empty: not found.")
	})
}

// A message after a rewind is answered in its order, and the model is not shown the messages that were taken back.
func TestTheModelIsNotShownWhatWasRewound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Always(apptest.Text("hm"))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		for i, text := range []string{"my cat is Kafka", "my dog is Camus", "/rewind", "and who is my dog?"} {
			k.SayAs("ann", "a", string(rune('1'+i)), text)
		}
		pass(time.Second)
		shown := ""
		for _, m := range model.Last().Messages {
			shown += m.Text + "\n"
		}
		if !strings.Contains(shown, "Kafka") || strings.Contains(shown, "Camus") ||
			!strings.Contains(shown, "my dog?") {
			t.Errorf("the model was shown %q", shown)
		}
	})
}

// Facts from messages that are taken back stay, and the chat is told how to forget them.
func TestARewindSaysThatFactsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{Model: apptest.Always(apptest.Text("hm"))}).Start()
		learn := func(ids ...string) {
			t.Helper()
			for i, id := range ids {
				must(t, storage.NewFacts(k.DB).Learn(t.Context(), corebot.Fact{
					Key: apptest.Key("a"), Scope: corebot.FactsOfChat, Subject: "ann", Relation: "likes",
					Object: fmt.Sprint(id, i), Sender: apptest.Person("ann"), MessageID: id,
				}))
			}
		}
		for i, id := range []string{"1", "2", "3", "4"} {
			k.SayAs("ann", "a", id, "hello "+id)
			pass(time.Second)
			learn([][]string{{"1"}, {"2", "2"}, {"3"}, nil}[i]...)
		}
		for i, want := range []string{
			"", " 1 fact that was said there stays: /memory lists it, and /memory forget NUMBER forgets it.",
			" 2 facts that were said there stay: /memory lists them, and /memory forget NUMBER forgets one.",
		} {
			id := fmt.Sprint("r", i)
			k.SayAs("ann", "a", id, "/rewind")
			pass(time.Second)
			told := k.Told(id)
			if len(told) != 1 || !strings.HasSuffix(told[0].Text(), "/undo undoes changes of files."+want) {
				t.Errorf("rewind %d: %+v", i, told)
			}
		}
	})
}
