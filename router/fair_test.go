package router_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
)

// slowly answers every message after a while, and keeps when it did.
type slowly struct {
	takes time.Duration
	mu    sync.Mutex
	at    map[string]time.Time
}

func (s *slowly) Turn(_ context.Context, d corebot.Delivery) (corebot.Result, error) {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[d.Message.ID] = time.Now()
	return answer(d, "done"), nil
}

func (s *slowly) answered(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[id]
}

func TestBehindHundredsOfChatsOfOneSenderAnotherIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{takes: 2 * time.Second, at: map[string]time.Time{}}
		k := apptest.New(t, apptest.Options{
			Brain: s, Bus: bus.Options{Turns: 64},
			Router: router.Options{Workers: 64},
		}).Start()
		const chats = 320
		for i := range chats {
			k.SayAs("hog", fmt.Sprint("h", i), fmt.Sprint("h", i), "hello")
		}
		pass(time.Second)
		for n := range 5 { // for as long as the other's turns last
			id, said := fmt.Sprint("a", n), time.Now()
			k.SayAs("ann", "a", id, "hello")
			pass(3 * time.Second)
			if took := s.answered(id).Sub(said); took < s.takes || took > s.takes+100*time.Millisecond {
				t.Errorf("message %d was answered after %v", n, took)
			}
		}
		pass(time.Minute)
		for i := range chats {
			k.WantEnd(fmt.Sprint("h", i), corebot.EndAnswered)
		}
	})
}

func TestASenderWhoIsAloneIsServedWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{takes: time.Second, at: map[string]time.Time{}}
		k := apptest.New(t, apptest.Options{
			Brain: s, Bus: bus.Options{Turns: 8},
			Router: router.Options{Workers: 8},
		}).Start()
		begun := time.Now()
		for i := range 40 {
			k.SayAs("ann", fmt.Sprint("c", i), fmt.Sprint(i), "hello")
		}
		pass(time.Minute)
		last := begun
		for i := range 40 {
			if at := s.answered(fmt.Sprint(i)); at.After(last) {
				last = at
			}
		}
		if took := last.Sub(begun); took > 10*time.Second+200*time.Millisecond { // four turns at a time: half of eight
			t.Errorf("the last of 40 chats was answered after %v", took)
		}
	})
}
