package app_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm/exchange"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/agent/llm/openai"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/tools"
)

var flatTurns = long.Int("flat.turns", 100, 300,
	"turns with faults after which memory and goroutines are to be what they were")

const (
	flatChats = 20
	// flatHeap is how much more may be in use after all turns than after the first part of them.
	flatHeap = 1 << 20
)

// TestManyTurnsWithFaultsLeaveNothingBehind measures after a part of the turns, when all is warm, and at the end.
func TestManyTurnsWithFaultsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFlat(t)
		f.run(flatTurns() / 3)
		warm, before := f.said, f.measure()
		f.run(flatTurns() - warm)
		after := f.measure()
		t.Logf("after %d turns: %+v; after %d: %+v; %d failures, %d summaries", warm, before, f.said, after, f.failures,
			f.summaries)
		if after.goroutines > before.goroutines+5 {
			t.Errorf("%d goroutines have become %d", before.goroutines, after.goroutines)
		}
		if after.heap > before.heap+flatHeap {
			t.Errorf("%d KiB in use have become %d", before.heap>>10, after.heap>>10)
		}
		if f.failures == 0 || f.summaries == 0 || f.calls == 0 {
			t.Errorf("%d failures, %d summaries, %d tool calls: all are to happen", f.failures, f.summaries, f.calls)
		}
	})
}

// flat is a Corebot whose model fails in many ways.
type flat struct {
	*apptest.Kit
	t         *testing.T
	transport *http.Transport
	said      int

	failures, summaries, calls int // guarded by nothing: one request at a time is answered
}

type measured struct {
	goroutines int
	heap       uint64 // bytes in use
}

func startFlat(t *testing.T) *flat {
	f := &flat{t: t}
	listener := llmtest.NewListener()
	f.transport = listener.Transport()
	one := make(chan struct{}, 1)
	server := &http.Server{
		ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			one <- struct{}{}
			defer func() { <-one }()
			llmtest.New(f.answer).ServeHTTP(w, r) // a new one each time: it would keep every request
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // always ErrServerClosed
	}()
	t.Cleanup(func() {
		f.transport.CloseIdleConnections()
		_ = server.Close()
		<-done
	})
	model, err := openai.New("http://model.test/v1", exchange.Options{Model: "m", Transport: f.transport})
	if err != nil {
		t.Fatal(err)
	}
	f.Kit = apptest.New(t, apptest.Options{
		Model: model,
		Tools: []tools.Tool{apptest.Tool("web.search", tools.ReadOnly,
			func(_ context.Context, text string) (string, error) {
				return strings.Repeat(text+" was found. ", 100), nil
			})},
		Agent: agent.Options{ContextTokens: 3_000, OutputTokens: 500, MaxIterations: 3},
		Bus:   bus.Options{MaxAttempts: 3, BackoffBase: time.Second, BackoffMax: 2 * time.Second},
	}).Start()
	return f
}

// answer breaks every fifth request, each time in another way, and searches or talks otherwise.
func (f *flat) answer(r llmtest.Request) llmtest.Answer {
	f.calls++
	switch {
	case strings.HasPrefix(string(r.Messages[0].Content), "You shorten a conversation"):
		f.summaries++
		return llmtest.Text("- they talked about many things")
	case f.calls%5 == 0:
		f.failures++
		return []llmtest.Answer{
			llmtest.Fail(http.StatusInternalServerError, "broken"), llmtest.Fail(http.StatusTooManyRequests,
				"slow down").Header("Retry-After", "1"),
			llmtest.Text("one two three").Break(1), llmtest.Text("one two three").End(1),
			llmtest.Raw(http.StatusOK, "text/html", "<html>"),
			llmtest.Fail(http.StatusBadRequest, "no"), llmtest.Text("never").Break(-1),
			llmtest.Raw(http.StatusRequestEntityTooLarge, "text/plain", "too long"),
		}[f.failures%8]
	case f.calls%3 == 0 && len(r.Tools) > 0:
		return llmtest.ToolCalls(llmtest.Call{Name: "web_search", Args: fmt.Sprintf(`{"text":"thing %d"}`, f.calls)})
	}
	return llmtest.Text(fmt.Sprint("I have heard that ", f.calls, " times ", strings.Repeat("over and over ", 20)))
}

// run has so many more messages answered, each in its chat.
func (f *flat) run(turns int) {
	f.t.Helper()
	for range turns / flatChats {
		var ids []string
		for chat := range flatChats {
			f.said++
			ids = append(ids, fmt.Sprint("m", f.said))
			f.Say(fmt.Sprint("chat", chat), ids[chat], "tell me more, please")
		}
		for _, id := range ids {
			for tries := 0; f.Life(id).End == ""; tries++ {
				if time.Sleep(time.Second); tries > 600 {
					f.t.Fatalf("%s has not ended: %+v", id, f.Life(id))
				}
			}
		}
		f.send()
	}
}

// send takes the replies that wait, as a channel does.
func (f *flat) send() {
	for {
		ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
		ds, err := f.Bus.Claim(ctx, corebot.OutboundPool(apptest.Channel), flatChats)
		cancel()
		if err != nil {
			return // none waits
		}
		for _, d := range ds {
			if err := f.Bus.Settle(f.t.Context(), d, corebot.Outcome{
				Verb: corebot.Done,
				End:  corebot.EndSent,
			}); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

func (f *flat) measure() measured {
	f.transport.CloseIdleConnections()
	synctest.Wait()
	runtime.GC()
	runtime.GC() // the first only moves what is pooled aside
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return measured{runtime.NumGoroutine(), m.HeapAlloc}
}
