package router_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
)

// linking is a Corebot in which chats are linked.
type linking struct {
	*apptest.Kit
	t     *testing.T
	model *apptest.Model
	n     int
}

func newLinking(t *testing.T) *linking {
	model := apptest.Always(apptest.Text("hm"))
	return &linking{Kit: apptest.New(t, apptest.Options{Model: model}).Start(), t: t, model: model}
}

// says has somebody say something, and gives what he is told.
func (l *linking) says(who, chat, text string) string {
	l.t.Helper()
	l.n++
	id := fmt.Sprint("m", l.n)
	l.SayAs(who, chat, id, text)
	pass(time.Second)
	told := ""
	for _, m := range l.Told(id) {
		told += m.Text() + "\n"
	}
	return told
}

func (l *linking) want(who, chat, text, told string) {
	l.t.Helper()
	if got := l.says(who, chat, text); !strings.Contains(got, told) {
		l.t.Errorf("%s in %s: %s: told %q, want %q", who, chat, text, got, told)
	}
}

var codeIn = regexp.MustCompile(`/link ([0-9A-Z]{8}) `)

func (l *linking) offer(who, chat string) string {
	l.t.Helper()
	code := codeIn.FindStringSubmatch(l.says(who, chat, "/link"))
	if code == nil {
		l.t.Fatal("there is no code")
	}
	return code[1]
}

// shown is what the model was shown last.
func (l *linking) shown() string {
	text := ""
	for _, m := range l.model.Last().Messages {
		text += m.Text + "\n"
	}
	return text
}

func TestAConversationGoesOnInAnotherChatIfBothAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinking(t)
		l.says("ann", "a", "my cat is Kafka")
		l.says("bea", "b", "something of before")
		code := l.offer("ann", "a")
		l.want("bea", "b", "/link "+strings.ToLower(code), "Asked. Say /link yes in the other chat")
		if got := l.Transcript("b"); len(got) != 2 {
			t.Errorf("before ann agreed, b has %q", got)
		}
		l.want("ann", "a", "/link YES", "goes on in main:test::b, with 2 entries")
		l.want("bea", "b", "and my cat?", "hm")
		if shown := l.shown(); !strings.Contains(shown, "Kafka") || strings.Contains(shown, "of before") {
			t.Errorf("the model was shown %q", shown)
		}
		said := l.Said("b")
		if len(said) != 4 || said[0].Sender != apptest.Person("ann") {
			t.Errorf("b has %+v", said)
		}
		// A later message stays where it is said.
		l.says("ann", "a", "my dog is Camus")
		l.says("bea", "b", "and my dog?")
		if strings.Contains(l.shown(), "Camus") {
			t.Error("b knows what was said in a later")
		}
		l.says("ann", "a", "what did bea say?")
		if strings.Contains(l.shown(), "and my cat?") {
			t.Error("a knows what was said in b")
		}
		l.want("bea", "b", "/unlink", "Unlinked. 2 entries that were copied are deleted.")
		l.says("bea", "b", "and my cat?")
		if strings.Contains(l.shown(), "Kafka") {
			t.Error("b still knows it")
		}
		l.want("bea", "b", "/unlink", "This chat is not linked.")
		l.want("ann", "a", "/unlink", "This chat is not linked.")
		l.want("bea", "b", "/new", "A new conversation begins here.") // she alone has spoken in it
	})
}

func TestACodeIsGoodForOneChatAndAShortTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinking(t)
		l.want("ann", "a", "/link", "Chat main:test::a: not found.") // there is nothing to resume
		l.says("ann", "a", "the code is 4711")
		code := l.offer("ann", "a")
		l.want("ann", "a", "/link "+code, "That is the same chat.")
		l.want("bea", "b", "/link "+code, "Asked.")
		l.want("eve", "c", "/link "+code, "not found") // it was used
		l.want("eve", "a", "/link yes", "Others have spoken")
		l.want("eve", "c", "/link yes", "not found")
		pass(corebot.LinkTime)
		l.want("ann", "a", "/link yes", "not found") // too late
		// An admin of the chat agrees to nothing that somebody else has offered.
		must(t, l.Grants.Grant(t.Context(), corebot.Grant{
			Principal: apptest.Person("root"), Chat: apptest.Key("a"), Role: corebot.RoleAdmin,
		}))
		l.want("bea", "b", "/link "+l.offer("ann", "a"), "Asked.")
		l.want("root", "a", "/link yes", "not found")
		old := l.offer("ann", "a")
		newer := l.offer("ann", "a")
		l.want("bea", "b", "/link "+old, "not found") // there is a newer one
		pass(corebot.LinkTime)
		l.want("bea", "b", "/link "+newer, "not found")
		for _, chat := range []string{"b", "c"} {
			for _, line := range l.Transcript(chat) {
				if strings.Contains(line, "4711") {
					t.Errorf("%s has %q", chat, line)
				}
			}
		}
		l.want("bea", "b", "/link 12", "That is no code")
	})
}

func TestWrongCodesAreCountedAndARestartForgivesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		model := apptest.Always(apptest.Text("hm"))
		l := &linking{Kit: apptest.New(t, apptest.Options{Dir: dir, Model: model}).Start(), t: t, model: model}
		l.says("ann", "a", "hello")
		for range corebot.MaxLinkFailures {
			l.want("eve", "c", "/link AAAAAAAA", "not found")
		}
		code := l.offer("ann", "a")
		l.want("eve", "c", "/link "+code, "Too many wrong codes")
		l.Close()
		l.Kit = apptest.New(t, apptest.Options{Dir: dir, Model: model}).Start()
		l.want("eve", "c", "/link "+code, "Too many wrong codes")
		pass(corebot.LinkTime)
		l.want("eve", "c", "/link AAAAAAAA", "not found")
	})
}

// One person who tries codes locks himself and his chat. Others link on.
func TestNobodyLocksTheLinksOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinking(t)
		l.says("ann", "a", "hello")
		for i := range corebot.MaxLinkFailures { // in ever other chats
			l.want("eve", fmt.Sprint("c", i), "/link AAAAAAAA", "not found")
		}
		code := l.offer("ann", "a")
		l.want("eve", "d", "/link "+code, "Too many wrong codes")
		l.want("bea", "b", "/link "+code, "Asked.")
		l.want("ann", "a", "/link yes", "goes on in main:test::b")
		// Several people in one chat lock that chat.
		l.says("ann", "a2", "hello")
		for i := range corebot.MaxLinkFailures {
			l.want(fmt.Sprint("eve", i), "e", "/link AAAAAAAA", "not found")
		}
		code = l.offer("ann", "a2")
		l.want("eve-x", "e", "/link "+code, "Too many wrong codes")
		l.want("cal", "f", "/link "+code, "Asked.")
		// A program that names a sender for each code locks its account.
		for i := range corebot.MaxAccountLinkFailures - 2*corebot.MaxLinkFailures {
			l.want(fmt.Sprint("p", i), fmt.Sprint("p", i), "/link AAAAAAAA", "not found")
		}
		l.want("dan", "g", "/link AAAAAAAA", "Too many wrong codes")
		pass(corebot.LinkTime)
		l.want("dan", "g", "/link AAAAAAAA", "not found")
		l.want("eve", "d", "/link AAAAAAAA", "not found")
	})
}

// One person has so many codes at once, so the offers of others have room. An offer of a chat replaces its last.
func TestNobodyTakesAllCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinking(t)
		for i := range corebot.MaxGiverLinks + 1 {
			l.says("eve", fmt.Sprint("c", i), "hello")
		}
		for i := range corebot.MaxGiverLinks {
			l.offer("eve", fmt.Sprint("c", i))
		}
		last := fmt.Sprint("c", corebot.MaxGiverLinks)
		l.want("eve", last, "/link", "You offer 10 conversations now, which is the most")
		l.says("ann", "a", "hello")
		code := l.offer("ann", "a")
		l.want("bea", "b", "/link "+code, "Asked.")
		l.offer("eve", "c0")
		l.want("eve", last, "/link", "You offer 10")
		pass(corebot.LinkTime)
		l.offer("eve", last)
	})
}

// room is how it is in every chat now.
type room struct {
	group, silent bool
	err           error
}

func (r *room) Room(context.Context, corebot.Principal, corebot.Key) (group, talks bool, err error) {
	return r.group, !r.silent, r.err
}

// The chat that asks is looked at again when the other agrees: it can have become a group, and its taker can have lost
// his place.
func TestAYesLooksAtTheOtherChatAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, now := apptest.Always(apptest.Text("hm")), &room{}
		l := &linking{
			Kit: apptest.New(t, apptest.Options{Model: model, Router: router.Options{Rooms: now}}).Start(), t: t,
			model: model,
		}
		l.says("ann", "a", "my cat is Kafka")
		l.want("bea", "b", "/link "+l.offer("ann", "a"), "Asked.")
		for says, then := range map[string]room{
			"has become a group": {group: true}, "may not talk": {silent: true},
			"Nobody can tell now": {err: errors.New("away")},
		} {
			*now = then
			l.want("ann", "a", "/link yes", says)
		}
		if got := l.Transcript("b"); len(got) != 0 {
			t.Errorf("b has %q", got)
		}
		*now = room{}
		l.want("ann", "a", "/link yes", "goes on in main:test::b")
	})
}

func TestALinkCrossesNoGroupAndNoConversationOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinking(t)
		l.says("ann", "a", "the code is 4711")
		l.says("bob", "a", "me too")
		l.want("bob", "a", "/link", "Others have spoken in this session")
		l.says("ann", "own", "mine")
		l.want("bob", "a", "/link "+l.offer("ann", "own"), "Others have spoken in this session")
		// Somebody else begins to speak in the chat after its taker has asked.
		l.says("bea", "b", "hello")
		l.want("bea", "b", "/link "+l.offer("ann", "own"), "Asked.")
		l.says("eve", "b", "hello, too")
		l.want("ann", "own", "/link yes", "Others have spoken in the chat that would resume.")
		l.Accept(channels.Incoming{
			ID: "g1", Channel: apptest.Channel, Chat: "own", SenderID: "ann", Parts: corebot.TextPart("/link"),
			Envelope: corebot.Envelope{Group: true, Mentioned: true}, Interactive: true,
		})
		pass(time.Second)
		l.WantTold("g1", "A group takes part in no link: whoever is in it would read a conversation of others.")
		// Nobody but who has linked a chat ends that.
		l.says("bea", "d", "hello")
		l.want("bea", "d", "/link "+l.offer("ann", "own"), "Asked.")
		l.want("ann", "own", "/link yes", "goes on in main:test::d")
		l.want("eve", "d", "/unlink", "Only who has linked this chat, or an admin")
		l.want("ann", "own", "/unlink", "Unlinked. 2 entries")
	})
}

// Words that came by a link go no further by another one: whoever gave them agreed to one chat. And an admin of the one
// chat is none in the other.
func TestALinkHandsOnNeitherWordsOfALinkNorRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinking(t)
		must(t, l.Grants.Grant(t.Context(), corebot.Grant{
			Principal: apptest.Person("ann"), Chat: apptest.Key("a"), Role: corebot.RoleAdmin,
		}))
		l.says("ann", "a", "the code is 4711")
		l.says("ann", "b", "hello")
		l.want("ann", "b", "/link "+l.offer("ann", "a"), "Asked.")
		l.want("ann", "a", "/link yes", "goes on in main:test::b")
		l.says("ann", "b", "what I said here")
		role, err := l.Grants.RoleOf(t.Context(), apptest.Person("ann"), apptest.Key("b"))
		if err != nil || role != corebot.RoleNormal {
			t.Errorf("in b ann is %v: %v", role, err)
		}
		l.says("eve", "c", "hello")
		l.want("eve", "c", "/link "+l.offer("ann", "b"), "Asked.")
		l.want("ann", "b", "/link yes", "goes on in main:test::c, with 2 entries")
		if got := l.Transcript("c"); !slices.Equal(got, []string{"user: what I said here", "assistant: hm"}) {
			t.Errorf("c has %q", got)
		}
	})
}

// Two people link their chats both ways. No word comes back to the chat where it was said, and "/unlink" in one of them
// ends both links.
func TestLinksBothWaysBringNoWordBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinking(t)
		l.says("ann", "a", "the wombat of ann")
		l.says("bob", "b", "hello")
		l.want("bob", "b", "/link "+l.offer("ann", "a"), "Asked.")
		l.want("ann", "a", "/link yes", "goes on in main:test::b")
		l.says("bob", "b", "the quokka of bob")
		l.want("ann", "a", "/link "+l.offer("bob", "b"), "Asked.")
		l.want("bob", "b", "/link yes", "goes on in main:test::a, with 2 entries")
		if got := l.Transcript("a"); !slices.Equal(got, []string{"user: the quokka of bob", "assistant: hm"}) {
			t.Errorf("a has %q", got)
		}
		l.want("ann", "a", "/unlink", "4 entries")
		for who, word := range map[string]string{"ann": "quokka", "bob": "wombat"} {
			l.says(who, map[string]string{"ann": "a", "bob": "b"}[who], "what now?")
			if got := l.shown(); strings.Contains(got, word) {
				t.Errorf("%s is shown %q", who, got)
			}
		}
	})
}

// The person who offered a conversation takes the offer back, also when somebody has asked already.
func TestAnOfferThatWasTakenBackLinksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinking(t)
		l.says("ann", "a", "the wombat of ann")
		l.says("bob", "b", "hello")
		l.want("bob", "b", "/link "+l.offer("ann", "a"), "Asked.")
		l.want("ann", "a", "/unlink", "Unlinked.")
		l.want("ann", "a", "/link yes", "not found")
		l.says("bob", "b", "what now?")
		if got := l.shown(); strings.Contains(got, "wombat") {
			t.Errorf("b is shown %q", got)
		}
	})
}
