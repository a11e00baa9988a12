package router_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
)

// stuck answers at once, but not in chats whose text says for how long something stands still there.
type stuck struct{ slowly }

func (s *stuck) Turn(ctx context.Context, d corebot.Delivery) (corebot.Result, error) {
	if wait, err := time.ParseDuration(d.Message.Text()); err == nil {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return corebot.Result{}, context.Cause(ctx)
		}
	}
	return s.slowly.Turn(ctx, d)
}

// counting counts the turns that run at once.
type counting struct {
	stuck
	now, most atomic.Int64
}

func (c *counting) Turn(ctx context.Context, d corebot.Delivery) (corebot.Result, error) {
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	return c.stuck.Turn(ctx, d)
}

// Turns wait for an MCP server or a model that stands still. They are as many as there are workers, or more.
func TestTurnsThatStandStillHoldUpNoOtherChat(t *testing.T) {
	for name, fair := range map[string]int{"fair": 8, "first come": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stuck{slowly{at: map[string]time.Time{}}}
				k := apptest.New(t, apptest.Options{
					Brain: s, Bus: bus.Options{Turns: fair, Lease: time.Minute},
					Router: router.Options{Workers: 8},
				}).Start()
				for i := range 30 { // 8 places, and 24 that can be taken
					k.SayAs(fmt.Sprint("p", i), fmt.Sprint("c", i), fmt.Sprint("m", i), "10m")
				}
				pass(time.Second)
				said := time.Now()
				k.SayAs("ann", "a", "a0", "hello")
				pass(21 * time.Second)
				if at := s.answered("a0"); at.IsZero() || at.Sub(said) > 20*time.Second {
					t.Fatalf("another chat was answered at %v, it spoke at %v", at, said)
				}
				for n := range 20 { // from now on nobody waits
					id, said := fmt.Sprint("b", n), time.Now()
					k.SayAs("ann", "a", id, "hello")
					pass(time.Second)
					if took := s.answered(id).Sub(said); took < 0 || took > 100*time.Millisecond {
						t.Fatalf("message %d was answered after %v", n, took)
					}
				}
				pass(11 * time.Minute)
				for i := range 30 {
					k.WantEnd(fmt.Sprint("m", i), corebot.EndAnswered)
				}
			})
		})
	}
}

// However many turns stand still, only four times as many run as there are workers. Afterwards it is as before.
func TestLongTurnsTakeABoundedNumberOfPlacesAndGiveThemBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{stuck: stuck{slowly{at: map[string]time.Time{}}}}
		k := apptest.New(t, apptest.Options{
			Brain: s, Bus: bus.Options{Lease: time.Minute}, Router: router.Options{Workers: 2},
		}).Start()
		for i := range 40 {
			k.SayAs(fmt.Sprint("p", i), fmt.Sprint("c", i), fmt.Sprint("m", i), "3m")
		}
		pass(20 * time.Minute)
		for i := range 40 {
			k.WantEnd(fmt.Sprint("m", i), corebot.EndAnswered)
		}
		if got := s.most.Load(); got != 8 {
			t.Errorf("%d turns ran at once, want 8", got)
		}
		s.most.Store(0)
		for i := range 40 {
			k.SayAs(fmt.Sprint("p", i), fmt.Sprint("c", i), fmt.Sprint("n", i), "3s")
		}
		pass(5 * time.Minute)
		if got := s.most.Load(); got != 2 {
			t.Errorf("%d short turns ran at once, want 2", got)
		}
	})
}
