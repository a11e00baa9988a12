package bustest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

func orderSpecs() []spec {
	return []spec{
		{"a lane delivers one message at a time in the order of publishing", oneAtATime},
		{"a message in retry or waiting keeps its place and its lane waits, others do not", retryKeepsPlace},
		{"the order of lanes holds under many workers, retries, waits and publishers", orderUnderConcurrency},
		{"a flooded lane delays the others by no more than its one message", floodStarvesNobody},
		{"a claim for many takes the lanes that waited longest, each once", oldestFirst},
		{"a pool's backlog is no other pool's", poolsAreApart},
	}
}

func oneAtATime(s *suite) {
	for i := range 5 {
		s.publish("a", fmt.Sprint(i))
	}
	for i := range 5 {
		d := s.claim(fmt.Sprint(i))
		s.nothingReady()
		s.settle(d, answered())
	}
	s.nothingReady()
}

func retryKeepsPlace(s *suite) {
	s.publish("a", "1")
	s.publish("a", "2")
	s.publish("b", "3")
	s.settle(s.claim("1"), retryIn(10*time.Second))
	s.settle(s.claim("3"), answered())
	s.nothingReady()
	time.Sleep(10 * time.Second)
	s.settle(s.claim("1"), waitFor(time.Hour))
	time.Sleep(time.Hour - moment)
	s.nothingReady()
	time.Sleep(moment)
	s.settle(s.claim("1"), answered())
	s.claim("2")
}

// traffic is what many workers saw of many lanes.
type traffic struct {
	mu      sync.Mutex
	running map[string]string // chat → the message that runs
	ended   map[string][]string
	left    int
	fault   error
}

func (tr *traffic) begin(d corebot.Delivery) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	chat := d.Message.Key.Chat
	if other, busy := tr.running[chat]; busy {
		tr.fault = fmt.Errorf("chat %s runs %s beside %s", chat, d.Message.ID, other)
	}
	tr.running[chat] = d.Message.ID
}

// end is called before the settle, because after the settle another worker can have the lane.
func (tr *traffic) end(d corebot.Delivery, done bool) (last bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	chat := d.Message.Key.Chat
	delete(tr.running, chat)
	if done {
		tr.ended[chat] = append(tr.ended[chat], d.Message.ID)
		tr.left--
	}
	return tr.left == 0
}

func orderUnderConcurrency(s *suite) {
	const chats, each, workers = 8, 25, 6
	tr := &traffic{running: map[string]string{}, ended: map[string][]string{}, left: chats * each}
	// a claim that nobody wakes is an error, not a test that hangs
	ctx, stop := context.WithTimeout(s.t.Context(), time.Hour)
	defer stop()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { s.work(ctx, stop, tr) })
	}
	for c := range chats {
		wg.Go(func() {
			for i := range each {
				if _, err := s.bus.Publish(ctx, prompt(fmt.Sprint(c), fmt.Sprintf("%d-%03d", c, i))); err != nil {
					s.t.Errorf("publish: %v", err)
				}
			}
		})
	}
	wg.Wait()
	s.must(tr.fault)
	for chat, ids := range tr.ended {
		if len(ids) != each || !slices.IsSorted(ids) {
			s.t.Errorf("chat %s ended %v", chat, ids)
		}
	}
}

// work claims and settles messages with random outcomes until all have ended.
func (s *suite) work(ctx context.Context, stop func(), tr *traffic) {
	for {
		ds, err := s.bus.Claim(ctx, corebot.InboundPool, 1+rand.IntN(3))
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				s.t.Errorf("claim: %v", err)
			}
			return
		}
		for _, d := range ds {
			tr.begin(d)
			o := answered()
			switch rand.IntN(4) {
			case 0:
				o = retryIn(rand.N(50 * time.Millisecond))
			case 1:
				o = waitFor(rand.N(50 * time.Millisecond))
			}
			last := tr.end(d, o.Verb == corebot.Done)
			if err := s.bus.Settle(context.WithoutCancel(ctx), d, o); err != nil {
				s.t.Errorf("settle: %v", err)
			}
			if last {
				stop()
			}
		}
	}
}

func floodStarvesNobody(s *suite) {
	for i := range 30 {
		s.publish("flood", fmt.Sprint("f", i))
	}
	for i := range 5 {
		s.publish(fmt.Sprint("quiet", i), fmt.Sprint("q", i))
	}
	var served []string
	for range 12 {
		d := s.ready(corebot.InboundPool, 1)[0]
		served = append(served, d.Message.ID)
		time.Sleep(moment)
		s.settle(d, answered())
	}
	want := []string{"f0", "q0", "q1", "q2", "q3", "q4", "f1", "f2", "f3", "f4", "f5", "f6"}
	if !slices.Equal(served, want) {
		s.t.Fatalf("served %v, want %v", served, want)
	}
	s.publish("late", "l0")
	s.settle(s.claim("f7"), answered())
	s.claim("l0")
}

func oldestFirst(s *suite) {
	for _, chat := range []string{"c", "a", "b"} {
		s.publish(chat, chat+"1")
		s.publish(chat, chat+"2")
	}
	var ids []string
	for _, d := range s.ready(corebot.InboundPool, 2) {
		ids = append(ids, d.Message.ID)
	}
	for _, d := range s.ready(corebot.InboundPool, 100) {
		ids = append(ids, d.Message.ID)
	}
	if want := []string{"c1", "a1", "b1"}; !slices.Equal(ids, want) {
		s.t.Fatalf("claimed %v, want %v", ids, want)
	}
	if _, err := s.bus.Claim(s.t.Context(), corebot.InboundPool, 0); !errors.Is(err, corebot.ErrInvalid) {
		s.t.Fatalf("a claim for nothing: %v", err)
	}
}

func poolsAreApart(s *suite) {
	_, err := s.bus.Publish(s.t.Context(), reply("a", "r1"))
	s.must(err)
	s.nothingReady()
	if got := s.ready(corebot.OutboundPool("other"), 1); len(got) > 0 {
		s.t.Fatalf("another channel got %s", got[0].Message.ID)
	}
	got := s.ready(corebot.OutboundPool("test"), 1)
	if len(got) != 1 || got[0].Message.Direction != corebot.Outbound {
		s.t.Fatalf("the channel got %v", got)
	}
}
