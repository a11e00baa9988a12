package app_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// deadHome is a home with one dead letter.
func deadHome(t *testing.T) (home string, letter int64) {
	t.Helper()
	return deadHomeOf(t, "hello")
}

// deadHomeOf is deadHome with a text of the message.
func deadHomeOf(t *testing.T, text string) (home string, letter int64) {
	t.Helper()
	home = t.TempDir()
	err := app.WithStore(t.Context(), home, func(db *storage.DB) error {
		q := storage.NewQueue(db)
		m := corebot.Message{
			ID: "lost", Direction: corebot.Inbound, Kind: corebot.KindPrompt, Parts: corebot.TextPart(text),
			Key:    corebot.Key{Agent: corebot.DefaultAgent, Channel: "webhook", Chat: "work"},
			Sender: corebot.Principal{Channel: "webhook", ID: "ann"},
		}
		if _, err := q.Publish(t.Context(), []corebot.Message{m}, corebot.Limits{}); err != nil {
			return err
		}
		ds, err := q.Claim(t.Context(), corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute})
		if err != nil {
			return err
		}
		letter = ds[0].Life
		return q.Settle(t.Context(), ds[0], corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"})
	})
	if err != nil {
		t.Fatal(err)
	}
	return home, letter
}

// daemon serves a home with the offline model until the test ends.
func daemon(t testing.TB, home string, change ...func(*config.Config)) *app.App {
	t.Helper()
	c := config.Defaults()
	c.Home, c.LLM.Offline, c.Observability.Enabled = home, true, false
	c.Console.Enabled, c.Console.Addr = true, "127.0.0.1:0"
	for _, f := range change {
		f(&c)
	}
	a, err := app.New(t.Context(), c, app.Options{Serve: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, a.Close()); err != nil {
			t.Error(err)
		}
	})
	return a
}

// ended waits until a message has ended.
func ended(t *testing.T, db *storage.DB, life int64) corebot.Life {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		l, err := storage.NewLives(db).Get(t.Context(), life)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the message is %+v: %v", l, err)
		}
		if l.End != "" && l.End != corebot.EndDead {
			return l
		}
	}
}

func TestFiftyReplaysAtOnceThroughTheControlSocketDeliverOnce(t *testing.T) {
	home, letter := deadHome(t)
	a := daemon(t, home)
	var replayed, gone atomic.Int32
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			err := app.Change(t.Context(), home, func(c control.Caller) error {
				_, err := control.Call[operate.Done](t.Context(), c, operate.ReplayDeadLetters.Name,
					operate.Replay{IDs: []int64{letter}, Fresh: i%2 == 0})
				return err
			})
			switch {
			case err == nil:
				replayed.Add(1)
			case errors.Is(err, corebot.ErrNotFound):
				gone.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if replayed.Load() != 1 || gone.Load() != 49 {
		t.Errorf("%d replayed it, %d found it gone", replayed.Load(), gone.Load())
	}
	life := ended(t, a.Store, letter)
	replies := slices.DeleteFunc(life.Replies, func(l corebot.Life) bool { return l.Kind != corebot.KindReply })
	if life.End != corebot.EndAnswered || life.Run != 2 || len(replies) != 1 {
		t.Errorf("the message is %s after run %d, with %d replies", life.State, life.Run, len(replies))
	}
}

func TestAnAdminsTurnListsAndReplaysDeadLetters(t *testing.T) {
	home, letter := deadHome(t)
	a := daemon(t, home)
	root := corebot.Principal{Channel: "cli", Account: "local", ID: "0"}
	err := storage.NewGrants(a.Store).Grant(t.Context(), corebot.Grant{
		Principal: root, Role: corebot.RoleAdmin,
		By: "operator",
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, text := range map[string]string{
		"list":   `/tool bus.dead_letter.list {"direction":"inbound"}`,
		"replay": `/tool bus.dead_letter.replay {"id":1}`,
	} {
		m := corebot.Message{
			ID: id, Direction: corebot.Inbound, Kind: corebot.KindPrompt,
			Key:    corebot.Key{Agent: corebot.DefaultAgent, Channel: "cli", Account: "local", Chat: id},
			Sender: root, Parts: corebot.TextPart(text),
		}
		r, err := a.Bus.Publish(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		life := ended(t, a.Store, r.Life)
		if len(life.Steps) != 2 || life.Steps[1].Result == nil ||
			life.Steps[1].Result.Outcome != corebot.OutcomeSuccess {
			t.Errorf("%s: the steps are %+v", id, life.Steps)
		}
	}
	if life := ended(t, a.Store, letter); life.Run != 2 {
		t.Errorf("the letter is %+v", life)
	}
	events, err := storage.NewAudit(a.Store).List(t.Context(), corebot.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var trail []string
	for _, e := range events {
		trail = append(trail, e.Event+" "+e.Tool+" "+e.Principal.ID)
	}
	if got := strings.Join(trail, ", "); !strings.Contains(got, "dead_letter.replay bus.dead_letter.replay 0") ||
		!strings.Contains(got, "tool.result bus.dead_letter.list 0") {
		t.Errorf("the audit has %s", got)
	}
}
