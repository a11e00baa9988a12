package live

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

func texts(events []Numbered) (all string) {
	for _, e := range events {
		all += e.Text
	}
	return all
}

func TestAFollowerGoesOnBehindTheLastEventThatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Hub
		k := corebot.Key{Agent: "main", Channel: "api", Chat: "a"}
		say := func(text string) { h.Publish(Event{Kind: Text, Key: k, Text: text}) }
		wakes := 0
		wake := func() { wakes++ }
		say("nobody follows")
		f, gap := h.Follow(k, 0, wake)
		say("a")
		events, lost := f.Next()
		say("b")
		if wakes != 2 {
			t.Errorf("it was woken %d times", wakes)
		}
		next, later := f.Next()
		events, lost = append(events, next...), lost || later
		if gap || lost || texts(events) != "ab" || events[1].Seq != events[0].Seq+1 {
			t.Fatalf("it has %+v, %v, %v", events, gap, lost)
		}
		f.Stop()
		say("c")
		back, gap := h.Follow(k, events[0].Seq, wake)
		if events, lost = back.Next(); gap || lost || texts(events) != "bc" {
			t.Errorf("it comes back to %+v, %v, %v", events, gap, lost)
		}
		for _, unknown := range []int64{1, events[0].Seq + 1000} {
			other, gap := h.Follow(k, unknown, wake)
			if !gap {
				t.Errorf("nothing is missing behind %d", unknown)
			}
			other.Stop()
		}
		for i := range 2 * ringEvents {
			h.Publish(Event{Kind: Text, Key: k, MessageID: fmt.Sprint(i)})
		}
		if events, lost = back.Next(); !lost || len(events) != ringEvents {
			t.Errorf("a slow one has %d events, lost %v", len(events), lost)
		}
		say(strings.Repeat("x", 2*ringBytes))
		if r := h.rings[k]; len(r.events) != 1 {
			t.Errorf("a large event leaves %d", len(r.events))
		}
		back.Stop()
		time.Sleep(ringTime + time.Second)
		say("late")
		if len(h.rings) != 0 {
			t.Error("a ring that nobody reads is kept")
		}
	})
}

// Pieces that nobody has read are one event, and a piece that somebody has read is never changed.
func TestPiecesOfATextThatNobodyHasReadAreOneEvent(t *testing.T) {
	var h Hub
	k := corebot.Key{Chat: "a"}
	say := func(id, text string) { h.Publish(Event{Kind: Text, Key: k, MessageID: id, Text: text}) }
	f, _ := h.Follow(k, 0, nil)
	say("m1", "a")
	say("m1", "b")
	say("m2", "c")
	say("m1", "d")
	first, _ := f.Next()
	if len(first) != 3 || first[0].Text != "ab" || first[2].Seq != first[0].Seq+2 {
		t.Errorf("it has %+v", first)
	}
	say("m1", "e")
	say("m1", "f")
	back, _ := h.Follow(k, first[0].Seq, nil) // between the events that were read
	say("m1", "g")                            // "ef" can be read by the place of back, but it has not been
	if events, gap := back.Next(); gap || texts(events) != "cdefg" || len(events) != 3 {
		t.Errorf("behind the first it has %+v, %v", events, gap)
	}
	if events, gap := f.Next(); gap || texts(events) != "efg" {
		t.Errorf("it goes on with %+v, %v", events, gap)
	}
	for range 2 * ringEvents {
		say("m1", "x")
	}
	if events, gap := f.Next(); gap || len(events) != 1 {
		t.Errorf("%d events, gap %v", len(events), gap)
	}
	late, _ := h.Follow(k, 0, nil) // its place is behind all
	say("m1", "y")
	if events, _ := late.Next(); texts(events) != "y" {
		t.Errorf("who came late has %+v", events)
	}
}

func TestRingsAreBounded(t *testing.T) {
	var h Hub
	for i := range maxRings + 10 {
		f, _ := h.Follow(corebot.Key{Chat: fmt.Sprint(i)}, 0, nil)
		f.Stop()
	}
	if len(h.rings) != maxRings {
		t.Errorf("there are %d rings", len(h.rings))
	}
}

// A long text comes in many small pieces. Each piece is copied a few times at most, whatever came before.
func TestPiecesOfATextAreAddedWithoutACopyOfTheWhole(t *testing.T) {
	var h Hub
	k := corebot.Key{Agent: "main", Channel: "test", Chat: "a"}
	f, _ := h.Follow(k, 0, nil)
	const pieces = 400
	copies := testing.AllocsPerRun(5, func() {
		h.Publish(Event{Kind: TurnStarted, Key: k, MessageID: "m"})
		for range pieces {
			h.Publish(Event{Kind: Text, Key: k, MessageID: "m", Text: "12345678"})
		}
	})
	if copies > pieces/4 {
		t.Errorf("%d pieces are copied with %.0f allocations", pieces, copies)
	}
	events, _ := f.Next()
	for i, e := range events {
		if want := strings.Repeat("12345678", pieces); e.Kind == Text && e.Text != want {
			t.Errorf("event %d has %d bytes of text, want %d", i, len(e.Text), len(want))
		}
	}
	if len(events) < 4 {
		t.Errorf("there are %d events", len(events))
	}
}

// The begin of a turn wakes no follower: there is nothing to tell yet. The follower has it with the next event.
func TestTheBeginOfATurnWakesNobody(t *testing.T) {
	var hub Hub
	k, woken := corebot.Key{Agent: "main", Chat: "c"}, 0
	f, _ := hub.Follow(k, 0, func() { woken++ })
	defer f.Stop()
	hub.Publish(Event{Kind: TurnStarted, Key: k, MessageID: "m"})
	if woken != 0 {
		t.Errorf("the begin wakes %d", woken)
	}
	hub.Publish(Event{Kind: Text, Key: k, MessageID: "m", Text: "hello"})
	if events, gap := f.Next(); woken != 1 || len(events) != 2 || gap {
		t.Errorf("woken %d times, %d events, gap %v", woken, len(events), gap)
	}
}
