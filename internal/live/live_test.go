package live_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

func key(chat string) corebot.Key { return corebot.Key{Agent: "main", Channel: "test", Chat: chat} }

func TestWatchersSeeTheEventsOfTheirConversationInOrder(t *testing.T) {
	var hub live.Hub
	a, stopA := hub.Watch(key("a"))
	other, stopOther := hub.Watch(key("a"))
	b, stopB := hub.Watch(key("b"))
	for i := range 3 {
		hub.Publish(live.Event{Key: key("a"), Text: fmt.Sprint(i)})
	}
	for _, stop := range []func(){stopA, stopOther, stopB} {
		stop()
	}
	for name, events := range map[string]<-chan live.Event{"a": a, "other": other} {
		n := 0
		for e := range events {
			if e.Text != fmt.Sprint(n) {
				t.Errorf("%s saw %q as event %d", name, e.Text, n)
			}
			n++
		}
		if n != 3 {
			t.Errorf("%s saw %d events", name, n)
		}
	}
	if e, ok := <-b; ok {
		t.Errorf("the watcher of another conversation saw %+v", e)
	}
}

func TestPublishNeverWaitsForASlowWatcher(t *testing.T) {
	var hub live.Hub
	events, stop := hub.Watch(key("a"))
	defer stop()
	for i := range live.Buffer + 100 { // would hang here
		hub.Publish(live.Event{Key: key("a"), Text: fmt.Sprint(i)})
	}
	if len(events) != live.Buffer {
		t.Errorf("%d events wait", len(events))
	}
	if first := <-events; first.Text != "0" {
		t.Errorf("the first event is %q: the newest are missed, not the oldest", first.Text)
	}
}

func TestNothingIsSentToAWatcherThatHasStopped(t *testing.T) {
	var hub live.Hub
	var publishers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		publishers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					hub.Publish(live.Event{Key: key("a")}) // a send on a closed channel would panic
				}
			}
		})
	}
	for range 500 {
		events, stop := hub.Watch(key("a"))
		stop()
		stop() // twice does no harm
		for range events {
		}
	}
	close(done)
	publishers.Wait()
}

func TestAWatcherOfTurnsSeesTheBeginsAndEndsOfAllConversations(t *testing.T) {
	var hub live.Hub
	events, stop := hub.WatchTurns()
	for _, kind := range []live.EventKind{live.TurnStarted, live.Text, live.TurnEnded} {
		hub.Publish(live.Event{Kind: kind, Key: key("a")})
		hub.Publish(live.Event{Kind: kind, Key: key("b")})
	}
	stop()
	stop() // twice does no harm
	hub.Publish(live.Event{Kind: live.TurnEnded, Key: key("a")})
	seen := ""
	for e := range events {
		seen += fmt.Sprint(e.Key.Chat, " ", e.Kind, "\n")
	}
	if want := "a turn_started\nb turn_started\na turn_ended\nb turn_ended\n"; seen != want {
		t.Errorf("it saw\n%s", seen)
	}
}
