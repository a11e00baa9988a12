package router_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/agent/llm/openai"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/tools"
)

// endpoint is the real client of a scripted provider.
func endpoint(t *testing.T, script llmtest.Script) (*openai.Model, *llmtest.Running) {
	t.Helper()
	srv := llmtest.Start(t, script)
	m, err := openai.New(srv.URL, openai.Options{
		Model: llmtest.ModelID, Transport: srv.Transport,
		Tokenizer: llm.Estimate{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, srv
}

func TestAModelThatFailsIsAskedAgainAfterABackoffUntilTheChatIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Time
		k := apptest.New(t, apptest.Options{
			Bus: bus.Options{MaxAttempts: 4, BackoffBase: 8 * time.Second, BackoffMax: time.Minute},
			Model: apptest.Always(func(context.Context, llm.Request, func(string)) (corebot.Answer, error) {
				asked = append(asked, time.Now())
				return corebot.Answer{}, &corebot.Failure{Class: corebot.Transient, Err: errors.New("overloaded")}
			}),
		}).Start()
		k.Say("a", "1", "hello")
		synctest.Wait()
		for n, ceiling := 1, 8*time.Second; n < 4; n, ceiling = n+1, 2*ceiling {
			life := k.Life("1")
			wait := time.Until(life.WakeAt)
			if len(asked) != n || life.State != "waiting: backoff" || wait > ceiling {
				t.Fatalf("after attempt %d: asked %d times, %s, next in %v of at most %v", n, len(asked), life.State,
					wait, ceiling)
			}
			if len(k.Told("1")) != 0 {
				t.Fatalf("the chat was told of attempt %d", n)
			}
			pass(wait)
			if len(asked) != n+1 || asked[n].Sub(life.WakeAt).Abs() > time.Millisecond {
				t.Fatalf("attempt %d was due at %v, the model was asked at %v", n+1, life.WakeAt, asked[n:])
			}
		}
		pass(time.Hour)
		wantDead(t, k, "1", bus.ReasonAttempts, 4)
		if len(asked) != 4 {
			t.Errorf("the model was asked %d times", len(asked))
		}
	})
}

// wantDead fails the test unless a message is the one dead letter and its chat was told once.
func wantDead(t *testing.T, k *apptest.Kit, id, reason string, attempts int) {
	t.Helper()
	k.WantEnd(id, corebot.EndDead)
	dead, err := k.DeadLetters.List(t.Context(), corebot.DeadLetterFilter{Direction: corebot.Inbound, Limit: 10})
	if err != nil || len(dead) != 1 || dead[0].MessageID != id || dead[0].Reason != reason ||
		dead[0].Attempts != attempts || dead[0].LastError == "" {
		t.Errorf("the dead letters are %+v, %v; want %s of %d attempts", dead, err, reason, attempts)
	}
	told := k.Told(id)
	if len(told) != 1 || told[0].Kind != corebot.KindNotice || told[0].InReplyTo != id {
		t.Errorf("the chat was told %+v", told)
	}
}

func TestAPermanentErrorOfTheProviderIsDeadAfterOneAttempt(t *testing.T) {
	for _, status := range []int{400, 401} {
		synctest.Test(t, func(t *testing.T) {
			model, srv := endpoint(t, llmtest.Always(llmtest.Fail(status, "no")))
			k := apptest.New(t, apptest.Options{Model: model}).Start()
			k.Say("a", "1", "hello")
			pass(time.Hour)
			wantDead(t, k, "1", bus.ReasonPermanent, 1)
			if n := len(srv.Requests()); n != 1 {
				t.Errorf("status %d: %d requests", status, n)
			}
			k.Say("a", "2", "the chat goes on")
			pass(time.Second)
			k.WantEnd("2", corebot.EndDead)
		})
	}
}

func TestARateLimitWaitsAsLongAsTheProviderAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, srv := endpoint(t, func(r llmtest.Request) llmtest.Answer {
			if r.N == 1 {
				return llmtest.Fail(429, "slow down").Header("Retry-After", "120")
			}
			return llmtest.Text("now")
		})
		k := apptest.New(t, apptest.Options{Model: model, Bus: bus.Options{BackoffBase: time.Second}}).Start()
		k.Say("a", "1", "hello")
		pass(time.Second)
		k.Say("b", "2", "another chat does not wait")
		pass(118 * time.Second)
		k.WantEnd("2", corebot.EndAnswered)
		if n := len(srv.Requests()); n != 2 {
			t.Fatalf("%d requests before the time was up, want one of each chat", n)
		}
		pass(2*time.Second + 30*time.Second) // and the spread
		k.WantEnd("1", corebot.EndAnswered)
	})
}

func TestAPanicOfTheAgentIsARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		k := apptest.New(t, apptest.Options{Brain: brain(func(_ context.Context,
			d corebot.Delivery,
		) (corebot.Result, error) {
			if n.Add(1) == 1 {
				panic("a bug")
			}
			return answer(d, "fine"), nil
		})}).Start()
		k.Say("a", "1", "hello")
		pass(time.Minute)
		k.WantTold("1", "fine")
		if log := k.Life("1").AttemptLog; len(log) != 1 || log[0].What != "retry" ||
			log[0].Error != "internal error: a bug" {
			t.Errorf("the attempts are %+v", log)
		}
	})
}

func TestPoisonDiesWithANoticeWithoutRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		k := apptest.New(t, apptest.Options{Dir: dir})
		k.Say("a", "1", "hello")
		for range 3 { // each worker dies at the same place
			k.Claim()
			k.Crash()
			k = apptest.New(t, apptest.Options{Dir: dir})
		}
		k.Start()
		pass(time.Second)
		wantDead(t, k, "1", bus.ReasonPoison, 1)
		if steps := k.Life("1").Steps; len(steps) != 0 {
			t.Errorf("it ran: %+v", steps)
		}
	})
}

// damage puts a word in the place of another in all bodies that wait.
func damage(t *testing.T, k *apptest.Kit, word, other string) {
	t.Helper()
	k.Alter(`UPDATE message_queue SET body = CAST(replace(CAST(body AS TEXT), ?, ?) AS BLOB)`, word, other)
}

func TestADamagedMessageDiesWithANoticeWithoutRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script()
		k := apptest.New(t, apptest.Options{Model: model})
		k.Say("a", "1", "hello")
		damage(t, k, "hello", "hullo")
		k.Start()
		pass(time.Second)
		wantDead(t, k, "1", bus.ReasonDamaged, 1)
		if len(model.Requests()) != 0 {
			t.Error("the model was asked with a damaged message")
		}
	})
}

func TestADeadLetterThatIsReplayedResumesAndIsAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		fetch := apptest.Tool("web.fetch", tools.SideEffect, func(context.Context, string) (string, error) {
			runs.Add(1)
			return "done", nil
		})
		model := apptest.Script(
			apptest.Asks(apptest.Call("c1", "web.fetch", `{"text":"x"}`)),
			apptest.Fails(&corebot.Failure{Class: corebot.Permanent, Err: errors.New("no credit")}),
			apptest.Text("all done"))
		k := apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{fetch}}).Start()
		k.Say("a", "1", "do it")
		pass(time.Second)
		wantDead(t, k, "1", bus.ReasonPermanent, 1)
		if err := k.DeadLetters.Replay(t.Context(), k.Life("1").ID, false); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		k.WantEnd("1", corebot.EndAnswered)
		if told := k.Told("1"); len(told) != 2 || told[1].Text() != "all done" {
			t.Errorf("was told %+v", told)
		}
		if runs.Load() != 1 {
			t.Errorf("the side effect happened %d times", runs.Load())
		}
	})
}
