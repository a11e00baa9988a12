package corebot_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

// restored is a message as it comes back from the store.
func restored(t *testing.T, m corebot.Message) corebot.Message {
	t.Helper()
	body, sum := m.EncodeBody()
	got := corebot.Message{Kind: m.Kind}
	if err := corebot.DecodeBody(body, sum[:], &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// asking is a turn of the agent main in a chat, and on whose behalf it runs.
func asking(chat string) (corebot.Delivery, corebot.Caller) {
	k := corebot.Key{Agent: "main", Channel: "test", Chat: chat}
	d := corebot.Delivery{Life: 7, Run: 1, Message: corebot.Message{
		ID: "1", Key: k,
		Sender: corebot.Principal{Channel: "test", ID: "root"},
	}}
	return d, d.Caller()
}

// turnOf is the turn of a message that was stored, with the next life.
func turnOf(t *testing.T, m corebot.Message, life int64) (corebot.Delivery, corebot.Caller) {
	t.Helper()
	stored := restored(t, m)
	stored.Key = m.Key
	d := corebot.Delivery{Life: life, Run: 1, Message: stored}
	return d, d.Caller()
}

func TestAQuestionSpeaksForItsCallerWithHisTaintAndWithThoseWhoSpokeBeside(t *testing.T) {
	d, c := asking("a")
	c.Taint, c.Others = "a page", []corebot.Principal{{Channel: "test", ID: "mallory"}}
	m, err := d.Question(3, c, "helper", "x")
	if err != nil {
		t.Fatal(err)
	}
	asked, as := turnOf(t, m, 8)
	want := corebot.Caller{
		Key: corebot.Key{Agent: "helper", Channel: "agent", Chat: "main:test::a"}, Principal: c.Principal,
		Entry: corebot.Entry{Kind: corebot.EntryAgent, From: c.Key}, MessageID: "corebot:agent/7/1/3", Others: c.Others,
		Taint: "a page",
	}
	if !reflect.DeepEqual(as, want) || as.Results() != c.Key {
		t.Errorf("the question runs for %+v, want %+v", as, want)
	}
	as.Taint = "another page"
	answer, ok := asked.Answer(as, "y")
	_, back := turnOf(t, answer, 9)
	if !ok || back.Key != c.Key || back.Results() != c.Key || back.Taint != "another page" ||
		!reflect.DeepEqual(back.Others, c.Others) || back.Principal != c.Principal {
		t.Errorf("the answer runs for %+v", back)
	}
	if _, ok := d.Answer(c, "z"); ok {
		t.Error("a person's turn answers an agent")
	}
}

func TestAnAnswerGoesBackTheWayThatTheQuestionsCame(t *testing.T) {
	d, c := asking("a")
	var way []corebot.Key
	for hop, agent := range []string{"b", "c", "d", "e"} {
		m, err := d.Question(0, c, agent, "x")
		if err != nil || m.Relay.Hops != hop+1 {
			t.Fatalf("question %d: %+v, %v", hop+1, m.Relay, err)
		}
		way = append(way, c.Key)
		d, c = turnOf(t, m, int64(10+hop))
		if c.Results() != way[0] {
			t.Errorf("notices of hop %d go to %v", hop+1, c.Results())
		}
	}
	if _, err := d.Question(0, c, "f", "x"); !errors.Is(err, corebot.ErrTooManyHops) {
		t.Errorf("a fifth question: %v", err)
	}
	for i := len(way) - 1; i >= 0; i-- {
		m, ok := d.Answer(c, "y")
		if !ok || m.Key != way[i] {
			t.Fatalf("the answer goes to %v, want %v", m.Key, way[i])
		}
		d, c = turnOf(t, m, int64(20+i))
		if _, err := d.Question(0, c, "f", "x"); !errors.Is(err, corebot.ErrTooManyHops) {
			t.Errorf("an answer allows another question: %v", err)
		}
	}
	if _, ok := d.Answer(c, "y"); ok {
		t.Error("the person's chat answers an agent")
	}
}

func TestAConversationOfAgentsHasOneNameThatCanBeStored(t *testing.T) {
	for _, chat := range []string{"a", strings.Repeat("é", 200)} {
		d, c := asking(chat)
		one, err := d.Question(0, c, "helper", "x")
		d.Life++
		two, again := d.Question(1, c, "helper", "y")
		if err := errors.Join(err, again, one.Validate(0)); err != nil || one.Key != two.Key || one.ID == two.ID {
			t.Errorf("%v and %v: %v", one.Key, two.Key, err)
		}
		_, other := asking(chat + "b")
		if three, _ := d.Question(0, other, "helper", "x"); three.Key == one.Key {
			t.Errorf("two chats share %v", one.Key)
		}
	}
}

// TestNoSenderWritesARelay: a sender can name metadata as he likes, but for names that are not UTF-8.
func TestNoSenderWritesARelay(t *testing.T) {
	const relay = `{"agent":"main","hops":-9,"back":[{"agent":"main","channel":"cli",` +
		`"account":"local","chatId":"501"}]}`
	for _, name := range []string{"\xferelay", "\ufffdrelay", "relay"} {
		m := corebot.Message{
			ID: "corebot:agent/1/1/1", Kind: corebot.KindPrompt, Key: corebot.Key{
				Agent: "main", Channel: "webhook",
				Chat: "x",
			},
			Parts: corebot.TextPart("x"), Metadata: corebot.Texts(map[string]string{name: relay}),
		}
		if err := m.Validate(0); (err == nil) != (name[0] != '\xfe') {
			t.Errorf("%q: %v", name, err)
		}
		if got := restored(t, m); got.Relay != nil || len(got.Metadata) != 1 {
			t.Errorf("%q came back as %+v, %+v", name, got.Relay, got.Metadata)
		}
	}
}

func TestMetadataStaysBesideARelay(t *testing.T) {
	d, c := asking("a")
	m, err := d.Question(0, c, "helper", "x")
	if err != nil {
		t.Fatal(err)
	}
	if got := restored(t, m); got.Metadata != nil || got.Relay == nil {
		t.Errorf("got %+v, %+v", got.Metadata, got.Relay)
	}
	m.Metadata = corebot.Texts(map[string]string{"a": "b"})
	if got := restored(t, m); !reflect.DeepEqual(got.Metadata, m.Metadata) || !reflect.DeepEqual(got.Relay, m.Relay) ||
		len(m.Metadata) != 1 {
		t.Errorf("got %+v, %+v", got.Metadata, got.Relay)
	}
}
