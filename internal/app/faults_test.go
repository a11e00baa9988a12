package app_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/exchange"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/agent/llm/openai"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/tools"
)

var times = flag.Int("faults.times", 1, "how often a chat meets each fault of a provider")

const (
	attempts   = 3
	backoffMax = 4 * time.Second
	iterations = 4
)

// trouble is what a message says that is to meet the fault.
const trouble = "trouble"

// twoFaced asks one model about trouble and another about everything else.
type twoFaced struct {
	sick, well llm.Model
	asked      atomic.Int64 // how often the sick one was
}

func (m *twoFaced) Name() string { return "two-faced" }

func (m *twoFaced) Complete(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		said := r.Messages[i]
		if said.Role == llm.User && strings.HasPrefix(said.Text, trouble) {
			m.asked.Add(1)
			return m.sick.Complete(ctx, r, onText)
		}
		if said.Role == llm.User && strings.HasPrefix(said.Text, "say ") {
			break
		}
	}
	return m.well.Complete(ctx, r, onText)
}

func open(t testing.TB, srv *llmtest.Running) llm.Model {
	t.Helper()
	m, err := openai.New(srv.URL, exchange.Options{
		Model: "m", Transport: srv.Transport, MaxAnswerBytes: llmtest.MaxAnswerBytes,
		FirstByteTimeout: llmtest.FirstByteTimeout, IdleTimeout: llmtest.IdleTimeout, Timeout: llmtest.Timeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAChatThatMeetsAFaultIsToldInTimeAndNobodyElseNoticesIt plays every fault of a provider in a whole Corebot. It
// checks what the chat sees, how often the model was asked, and how long that took. Another chat is answered meanwhile,
// and so is the chat's own next message.
func TestAChatThatMeetsAFaultIsToldInTimeAndNobodyElseNoticesIt(t *testing.T) {
	survivals := llmtest.Survivals()
	for _, f := range long.Every(7, llmtest.Faults()) {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { meet(t, f, survivals[f.Name]) })
		})
	}
}

func meet(t *testing.T, f llmtest.Fault, s llmtest.Survival) {
	model := &twoFaced{sick: open(t, f.Start(t)), well: open(t, llmtest.Start(t, llmtest.Always(llmtest.Text("fine"))))}
	search := apptest.Tool("web.search", tools.ReadOnly, func(_ context.Context, text string) (string, error) {
		return "found " + text, nil
	})
	k := apptest.New(t, apptest.Options{
		Model: model, Tools: []tools.Tool{search}, Agent: agent.Options{MaxIterations: iterations},
		Bus: bus.Options{MaxAttempts: attempts, LimitPatience: -1, BackoffBase: time.Second, BackoffMax: backoffMax},
	}).Start()
	for n := range *times {
		sick, next, well := fmt.Sprintf("sick-%d", n), fmt.Sprintf("next-%d", n), fmt.Sprintf("well-%d", n)
		model.asked.Store(0)
		began := time.Now()
		k.Say("sick", sick, trouble)
		k.Say("sick", next, "say something")
		k.Say("well", well, "say something")

		waitFor(t, k, well, time.Second)
		k.WantTold(well, "fine")

		waitFor(t, k, sick, bound(s))
		wantEnding(t, k, sick, s, int(model.asked.Load()))
		if took := k.Life(sick).EndedAt.Sub(began); took > bound(s) {
			t.Errorf("it took %v, and at most %v are allowed", took, bound(s))
		}

		waitFor(t, k, next, time.Second)
		k.WantTold(next, "fine")
		if told, answered := k.Life(sick).EndedAt, k.Life(next).EndedAt; answered.Before(told) {
			t.Errorf("the next message was answered at %v, before this one ended at %v", answered, told)
		}
	}
}

// waitFor lets time pass until a message has ended.
func waitFor(t *testing.T, k *apptest.Kit, id string, most time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(most + time.Second); time.Now().Before(deadline); time.Sleep(max(most/50,
		100*time.Millisecond)) {
		synctest.Wait()
		if k.Life(id).End != "" {
			return
		}
	}
	t.Fatalf("%s has not ended after %v: %+v", id, most, k.Life(id))
}

// retried says whether the fault is worth another attempt.
func retried(s llmtest.Survival) bool {
	switch s.Fault {
	case "transient", "rate_limited", "unreachable":
		return true
	}
	return false
}

// bound is how long a message may take that meets the fault at every attempt.
func bound(s llmtest.Survival) time.Duration {
	if !retried(s) && s.Fault != "unauthorized" {
		return time.Second
	}
	return attempts*s.Took + (attempts-1)*max(backoffMax, s.RetryAfter+s.RetryAfter/4) + time.Second
}

// wantEnding checks what the chat was told, and how often the model was asked for it.
func wantEnding(t *testing.T, k *apptest.Kit, id string, s llmtest.Survival, asked int) {
	t.Helper()
	told := slices.DeleteFunc(k.Told(id), func(m corebot.Message) bool { return strings.HasSuffix(m.ID, "/delayed") })
	if len(told) != 1 || told[0].InReplyTo != id {
		t.Fatalf("the chat was told %+v, want one message", told)
	}
	text := told[0].Text()
	switch {
	case s.Fault == "ok" && s.Calls == 0:
		k.WantEnd(id, corebot.EndAnswered)
		if s.Text == "" {
			s.Text = "(The model answered with no text.)"
		}
		if !strings.HasPrefix(text, s.Text) || asked != 1 {
			t.Errorf("asked %d times, the chat was told %q", asked, text)
		}
	case s.Fault == "ok": // the model asks for tools again and again
		k.WantEnd(id, corebot.EndAnswered)
		if !strings.HasPrefix(text, "(The model answered with no text.)") || asked < 3 || asked > iterations+1 {
			t.Errorf("asked %d times, the chat was told %q", asked, text)
		}
	default:
		k.WantEnd(id, corebot.EndDead)
		want := 1
		if retried(s) || k.Life(id).Reason == bus.ReasonAttempts {
			want = attempts
		}
		if !strings.HasPrefix(text, "Sorry, I could not answer this message") || told[0].Kind != corebot.KindNotice ||
			asked != want {
			t.Errorf("asked %d times, want %d; the chat was told %q", asked, want, text)
		}
	}
}
