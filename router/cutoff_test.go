package router_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/chain"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// endless is 20 KB of an answer, and then silence.
func endless() llmtest.Answer {
	return llmtest.Text(strings.Repeat("word ", 4_000)).Pieces(100).Stall(200)
}

// booked is everything that was used, as the books have it.
func booked(t *testing.T, k *apptest.Kit) corebot.UsageTotals {
	t.Helper()
	u, err := storage.NewBooks(k.DB).Use(t.Context(), corebot.UsageFilter{From: "0000", To: "9999"})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// wantStreamed fails the test unless so many answers of 20 KB are booked as estimates, and the life of a message says
// so, too.
func wantStreamed(t *testing.T, k *apptest.Kit, id string, answers int64) {
	t.Helper()
	const least, most = 3_900, 8_200 // tokens of 20 KB
	u, l := booked(t, k), k.Life(id)
	if u.OutputTokens < answers*least || u.OutputTokens > answers*most || u.InputTokens < answers*10 ||
		u.EstimatedTokens != u.Tokens() {
		t.Errorf("booked is %+v, want %d answers of 20 KB", u, answers)
	}
	if l.Usage.OutputTokens != u.OutputTokens || l.Usage.InputTokens != u.InputTokens ||
		l.Estimated != u.EstimatedTokens {
		t.Errorf("the life says %+v, %d of them estimated; booked is %+v", l.Usage, l.Estimated, u)
	}
}

func TestAStoppedAnswerIsBookedAndABudgetCountsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, srv := endpoint(t, llmtest.Always(endless()))
		budget := corebot.Budget{Principal: corebot.Cap{Tokens: 3_000}}
		k := apptest.New(t, apptest.Options{
			Model:  model,
			Router: router.Options{Spending: router.Spending{Budget: budget}},
		}).Start()
		k.Say("a", "1", "write a book")
		pass(time.Second)
		k.Say("a", "s", "/stop")
		pass(time.Second)
		k.WantEnd("1", corebot.EndStopped)
		wantStreamed(t, k, "1", 1)
		k.Say("a", "2", "and another")
		pass(time.Second)
		if state := k.Life("2").State; !strings.HasPrefix(state, "deferred: ") || len(srv.Requests()) != 1 {
			t.Errorf("the next message is %s, the model was asked %d times", state, len(srv.Requests()))
		}
		k.Say("a", "u", "/usage")
		wantTelling(t, k, "u", "of them estimated)")
	})
}

func TestAMessageThatMetARateLimitGoesOnWhenTheBudgetIsUsedUpMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, _ := endpoint(t, func(r llmtest.Request) llmtest.Answer {
			if r.N == 1 {
				return llmtest.Fail(429, "slow down").Header("Retry-After", "60")
			}
			return llmtest.Text("fine").Usage(3_000, 1)
		})
		budget := corebot.Budget{Principal: corebot.Cap{Tokens: 3_000}}
		k := apptest.New(t, apptest.Options{
			Model:  model,
			Router: router.Options{Spending: router.Spending{Budget: budget}},
		}).Start()
		k.Say("a", "1", "hello")
		pass(time.Second)
		k.Say("b", "2", "hello")
		pass(time.Hour)
		k.WantEnd("2", corebot.EndAnswered)
		k.WantEnd("1", corebot.EndAnswered)
	})
}

func TestAnAnswerThatANewerMessageInterruptsIsBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, _ := endpoint(t, llmtest.Queue(endless(), llmtest.Text("short").Usage(7, 3)))
		k := apptest.New(t, apptest.Options{
			Model:    model,
			Queueing: corebot.Queueing{Mode: corebot.ModeInterrupt},
		}).Start()
		k.Say("a", "1", "write a book")
		pass(time.Second)
		k.Say("a", "2", "no")
		pass(time.Second)
		k.WantEnd("1", corebot.EndStopped)
		k.WantEnd("2", corebot.EndAnswered)
		if u := booked(t, k); u.OutputTokens < 3_900 || u.EstimatedTokens != u.Tokens()-10 {
			t.Errorf("booked is %+v", u)
		}
	})
}

func TestAnAnswerThatAShutdownCutsOffIsBookedOnceAndItsStepsAreNotBookedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := llmtest.ToolCalls(llmtest.Call{Name: "web_search", Args: `{"text":"x"}`}).Usage(1_000, 10)
		model, _ := endpoint(t, llmtest.Queue(call, endless(), llmtest.Text("done").Usage(2_000, 20)))
		dir := t.TempDir()
		o := apptest.Options{
			Dir: dir, Model: model, Tools: []tools.Tool{slowSearch()},
			Router: router.Options{Drain: time.Second},
		}
		k := apptest.New(t, o).Start()
		k.Say("a", "1", "look")
		pass(time.Minute)
		k.Close()
		k = apptest.New(t, o).Start()
		pass(time.Minute)
		k.WantEnd("1", corebot.EndAnswered)
		u := booked(t, k)
		if cutOff := u.EstimatedTokens; cutOff < 3_900 || u.Tokens()-cutOff != 1_000+10+2_000+20 {
			t.Errorf("booked is %+v", u)
		}
		if l := k.Life("1"); l.Estimated != u.EstimatedTokens ||
			l.Usage.InputTokens+l.Usage.OutputTokens != u.Tokens() {
			t.Errorf("the life says %+v, %d estimated", l.Usage, l.Estimated)
		}
	})
}

func TestEveryAttemptThatBreaksOffIsBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := llmtest.Text(strings.Repeat("word ", 4_000)).Pieces(100).Break(200)
		model, _ := endpoint(t, llmtest.Queue(broken, broken, llmtest.Fail(500, "no"), broken, llmtest.Text("")))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		k.Say("a", "1", "write a book")
		pass(time.Hour)
		k.WantEnd("1", corebot.EndAnswered)
		if u := booked(t, k); u.EstimatedTokens < 3*3_900 || u.EstimatedTokens > 3*8_200 {
			t.Errorf("booked is %+v", u)
		}
	})
}

func TestWhatAModelUsedBeforeAnotherAnsweredIsBookedUnderItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := llmtest.Text(strings.Repeat("word ", 4_000)).Pieces(100).Break(200)
		call := llmtest.ToolCalls(llmtest.Call{Name: "web_search", Args: `{"text":"x"}`}).Usage(1_000, 10)
		first, _ := endpoint(t, llmtest.Always(broken))
		second, _ := endpoint(t, llmtest.Queue(call, llmtest.Text("done").Usage(2_000, 20)))
		model, err := chain.New([]chain.Provider{
			{Name: "one", Models: []llm.Model{renamed{first, "first"}}}, {Name: "two", Models: []llm.Model{second}},
		}, chain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		k := apptest.New(t, apptest.Options{Model: model, Tools: []tools.Tool{slowSearch()}}).Start()
		k.Say("a", "1", "look")
		pass(time.Hour)
		k.WantEnd("1", corebot.EndAnswered)
		if u := booked(t, k); u.EstimatedTokens < 2*3_900 || u.Tokens()-u.EstimatedTokens != 3_030 {
			t.Errorf("booked is %+v", u)
		}
	})
}

// renamed is a model under another name.
type renamed struct {
	llm.Model
	name string
}

func (r renamed) Name() string { return r.name }
