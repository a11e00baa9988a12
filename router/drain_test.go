package router_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/tools"
)

func TestShutdownClaimsNothingMoreAndLetsTurnsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{
			Model:  apptest.Always(apptest.After(20*time.Second, apptest.Text("done"))),
			Router: router.Options{Drain: 30 * time.Second},
		}).Start()
		k.Say("a", "1", "hello")
		pass(5 * time.Second)
		k.Say("a", "2", "waits behind it")
		began := time.Now()
		k.Shutdown()
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("the drain took %v, the turn 15s", took)
		}
		k.WantTold("1", "done")
		if life := k.Life("2"); life.State != "ready" || life.Attempts != 0 {
			t.Errorf("the waiting message is %s with %d attempts", life.State, life.Attempts)
		}
	})
}

// A worker claims its next message in the commit of the last one. Shutdown can begin before it hears of either.
func TestWhatAWorkerClaimedWithItsLastCommitIsRunDuringShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k *apptest.Kit
		started := make(chan struct{})
		k = apptest.New(t, apptest.Options{
			Model: apptest.Always(apptest.Text("done")), Router: router.Options{Workers: 1},
			Ledger: func(l router.Ledger) router.Ledger {
				return &faultyLedger{Ledger: l, commit: func(try int, real func() error) error {
					err := real()
					if try == 1 {
						go func() {
							<-started
							k.Shutdown()
						}()
						pass(time.Second)
					}
					return err
				}}
			},
		})
		for _, chat := range []string{"a", "b", "c"} {
			k.Say(chat, "in "+chat, "hello")
			pass(time.Second)
		}
		k.Start()
		close(started)
		pass(time.Minute)
		k.WantTold("in a", "done")
		k.WantTold("in b", "done")
		if life := k.Life("in c"); life.State != "ready" || life.Attempts != 0 {
			t.Errorf("after shutdown began, another message was claimed: it is %s with %d attempts", life.State,
				life.Attempts)
		}
	})
}

func TestATurnThatOutlastsTheDrainIsReleasedUncountedAndResumesFromItsJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var runs atomic.Int32
		fetch := apptest.Tool("web.fetch", tools.SideEffect, func(context.Context, string) (string, error) {
			runs.Add(1)
			return "done", nil
		})
		k := apptest.New(t, apptest.Options{
			Dir: dir, Tools: []tools.Tool{fetch}, Router: router.Options{Drain: 10 * time.Second},
			Model: apptest.Script(apptest.Asks(apptest.Call("c1", "web.fetch", `{"text":"x"}`)), apptest.Hangs()),
		}).Start()
		k.Say("a", "1", "do it")
		pass(time.Second)
		began := time.Now()
		k.Shutdown()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("the drain took %v", took)
		}
		if life := k.Life("1"); life.State != "waiting: shutdown" || life.Attempts != 0 || len(k.Told("1")) != 0 {
			t.Errorf("the message is %s with %d attempts, was told %v", life.State, life.Attempts, k.Told("1"))
		}
		k.Close()

		model := apptest.Script(apptest.Text("all done"))
		k = apptest.New(t, apptest.Options{Dir: dir, Tools: []tools.Tool{fetch}, Model: model}).Start()
		pass(time.Second)
		k.WantEnd("1", corebot.EndAnswered)
		k.WantTold("1", "all done")
		if life := k.Life("1"); life.Attempts != 1 || life.Usage.InputTokens != 20 {
			t.Errorf("it took %d attempts and %+v", life.Attempts, life.Usage)
		}
		if runs.Load() != 1 || len(model.Requests()) != 1 {
			t.Errorf("the side effect happened %d times, the model was asked %d times after the restart", runs.Load(),
				len(model.Requests()))
		}
	})
}

func TestACrashResumesFromTheJournalAtTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var runs atomic.Int32
		fetch := apptest.Tool("web.fetch", tools.SideEffect, func(ctx context.Context, _ string) (string, error) {
			runs.Add(1)
			<-ctx.Done()
			return "", ctx.Err()
		})
		k := apptest.New(t, apptest.Options{
			Dir: dir, Tools: []tools.Tool{fetch}, Router: router.Options{Drain: time.Second},
			Model: apptest.Script(apptest.Asks(apptest.Call("c1", "web.fetch", `{"text":"x"}`))),
		}).Start()
		k.Say("a", "1", "do it")
		pass(time.Second)
		k.Crash() // in the middle of the call

		model := apptest.Script(apptest.Text("I cannot tell"))
		k = apptest.New(t, apptest.Options{Dir: dir, Tools: []tools.Tool{fetch}, Model: model}).Start()
		pass(time.Second)
		k.WantTold("1", "I cannot tell")
		if runs.Load() != 1 {
			t.Errorf("the side effect was begun %d times", runs.Load())
		}
		if log := k.Life("1").AttemptLog; len(log) != 1 || log[0].What != "lease_lost" {
			t.Errorf("the attempts are %+v", log)
		}
	})
}

func TestARouterEndsWhenItsStoreIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{})
		ended := make(chan error, 1)
		go func() { ended <- k.Router.Run(context.Background()) }()
		pass(time.Second)
		k.Crash()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
