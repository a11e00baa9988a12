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
		wake := make(chan struct{}, 1)
		say("nobody follows")
		f, gap := h.Follow(k, 0, wake)
		say("a")
		<-wake
		say("b")
		events, lost := f.Next()
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
			say(fmt.Sprint(i))
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

func TestRingsAreBounded(t *testing.T) {
	var h Hub
	for i := range maxRings + 10 {
		f, _ := h.Follow(corebot.Key{Chat: fmt.Sprint(i)}, 0, make(chan struct{}, 1))
		f.Stop()
	}
	if len(h.rings) != maxRings {
		t.Errorf("there are %d rings", len(h.rings))
	}
}
