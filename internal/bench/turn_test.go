package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/openai"
	"github.com/corebot/corebot/internal/load"
)

// program is a webhook and a metrics page that keep what a Corebot promises, but for one thing, which breaks names. It
// asks the endpoint once for every message that is new.
type program struct {
	t       *testing.T
	breaks  string
	model   *Endpoint
	mu      sync.Mutex
	replies map[string][]load.Reply
	commits int // three for every message, and one a scrape if it never falls quiet
	late    int // commits that end after their replies can be read: each scrape sees one more of them
}

// play serves a program that breaks one promise and a model for it, until the test ends.
func play(t *testing.T, breaks string) Program {
	t.Helper()
	model, err := NewEndpoint()
	if err != nil {
		t.Fatal(err)
	}
	stop := background(model.Run)
	p := &program{t: t, breaks: breaks, model: model, replies: map[string][]load.Reply{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhook", p.post)
	mux.HandleFunc("GET /webhook/outbound", p.outbound)
	mux.HandleFunc("GET /metrics", p.metrics)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.Close()
		if err := errors.Join(stop(), model.Close()); err != nil {
			t.Error(err)
		}
	})
	return Program{Webhook: server.URL, Token: "token", Metrics: server.URL + "/metrics", Model: model}
}

func (p *program) post(w http.ResponseWriter, r *http.Request) {
	var m load.Message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		p.t.Error(err)
	}
	p.ask()
	if p.breaks == "model" {
		p.ask()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits += 2
	p.late++
	reply := load.Reply{ID: m.ID + "/1/0", InReplyTo: m.ID, Content: Reply}
	switch p.breaks {
	case "content":
		reply.Content = "Sorry."
	case "order":
		reply.InReplyTo = "another"
	}
	p.replies[m.ChatID] = append(p.replies[m.ChatID], reply)
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(map[string]string{"id": m.ID, "status": "accepted"})
}

// ask is a turn's request to the model.
func (p *program) ask() {
	answer, err := http.Post(p.model.BaseURL()+"/chat/completions", "application/json",
		strings.NewReader(`{"stream":true}`))
	if err != nil {
		p.t.Error(err)
		return
	}
	_ = answer.Body.Close()
}

func (p *program) outbound(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := 0
	_, _ = fmt.Sscan(r.FormValue("after"), &from)
	all := p.replies[r.FormValue("chatId")]
	_ = json.NewEncoder(w).Encode(map[string]any{"messages": all[from:], "cursor": fmt.Sprint(len(all))})
}

func (p *program) metrics(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if p.late > 0 {
			p.commits, p.late = p.commits+1, p.late-1
		}
	}()
	if p.breaks == "quiet" {
		p.commits++
	}
	name := "corebot_store_commits_total"
	if p.breaks == "metrics" {
		name = "something_else"
	}
	fmt.Fprintf(w, "# TYPE %s counter\n%s %d\n# TYPE corebot_store_rows_written_total "+
		"counter\ncorebot_store_rows_written_total %d\n", name, name, p.commits, 5*p.commits)
	fmt.Fprintf(w, "# TYPE corebot_store_batch_operations "+
		"histogram\ncorebot_store_batch_operations_bucket{le=\"+Inf\"} %d\n", p.commits)
	fmt.Fprintf(w, "corebot_store_batch_operations_sum %d\ncorebot_store_batch_operations_count %d\n", 2*p.commits,
		p.commits)
}

func small(t *testing.T) TurnOptions {
	return TurnOptions{Messages: 25, Chats: 7, Clients: 3, Single: 12, Rounds: 2, Dir: t.TempDir()}
}

// hurried measures as [Turn] does, but for the time that it waits for quiet.
func hurried(ctx context.Context, p Program, o TurnOptions) (Report, error) {
	b := newTurnBench(p, o)
	b.quietPause, b.idleTime = time.Millisecond, 2*time.Millisecond
	return b.measure(ctx)
}

func TestATurnReportCountsWhatTheProgramDid(t *testing.T) {
	o := small(t)
	r, err := hurried(t.Context(), play(t, ""), o)
	if err != nil {
		t.Fatal(err)
	}
	requireEmpty(t, o.Dir)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"turns_per_s", "cpu_ms_per_turn", "added_p50_ms", "added_p99_ms", "model_p50_ms",
		"fsync_p50_ms", "raw_insert_per_s", "turns_of_raw",
	} {
		if v, ok := got[key].(float64); !ok || v <= 0 {
			t.Errorf("%s is %v", key, got[key])
		}
	}
	for key, want := range map[string]float64{
		"commits_per_turn": 3, "rows_per_turn": 15, "crowded_commits_per_turn": 3, "crowded_operations_per_commit": 2,
		"idle_commits_per_s": 0, "messages": 25, "rounds": 2,
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
}

func TestATurnBenchNoticesAProgramThatBreaksItsWord(t *testing.T) {
	for breaks, want := range map[string]string{
		"order":   "the next reply should be",
		"content": "the next reply should be",
		"model":   "the model was asked 2 times in one turn",
		"metrics": "corebot_store_commits_total has 0 values",
	} {
		if _, err := hurried(t.Context(), play(t, breaks), small(t)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", breaks, err)
		}
	}
}

func TestATurnBenchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	o := small(t)
	o.Progress = func(line string) {
		if strings.Contains(line, "idle") {
			cancel(enough)
		}
	}
	if _, err := hurried(ctx, play(t, ""), o); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}

func TestWhatAProgramCommitsByItselfIsNoTurnsFault(t *testing.T) {
	before, after := counters{commits: 10, rows: 100}, counters{commits: 10 + 4*50 + 7, rows: 100 + 17*50 + 14}
	commits, rows := idleRates{commits: 3.5, rows: 7}.perTurn(before, after, 2, 50)
	if commits != 4 || rows != 17 {
		t.Errorf("%v commits and %v rows a turn", commits, rows)
	}
}

func TestAStoreThatNeverFallsQuietIsAnError(t *testing.T) {
	p := play(t, "quiet")
	_, err := waitUntilIdle(t.Context(), p.Metrics, 0)
	if err == nil || !strings.Contains(err.Error(), "does not stop committing") {
		t.Errorf("got %v", err)
	}
}

func TestTheEndpointSpeaksTheLanguageOfTheRealClient(t *testing.T) {
	e, err := NewEndpoint()
	if err != nil {
		t.Fatal(err)
	}
	stop := background(e.Run)
	defer func() {
		if err := errors.Join(stop(), e.Close()); err != nil {
			t.Error(err)
		}
	}()
	m, err := openai.New(e.BaseURL(), openai.Options{Model: "bench", Tokenizer: llm.Estimate{}})
	if err != nil {
		t.Fatal(err)
	}
	pieces := 0
	answer, err := m.Complete(t.Context(), llm.Request{Messages: []llm.Message{{Role: "user", Text: "hello"}}},
		func(string) { pieces++ })
	if err != nil || answer.Text != Reply || pieces != len(strings.Fields(Reply)) || answer.Usage.Estimated ||
		answer.Usage.OutputTokens == 0 {
		t.Errorf("got %+v in %d pieces, %v", answer, pieces, err)
	}
	if e.Requests() != 1 || e.Spent() <= 0 {
		t.Errorf("%d requests took %v", e.Requests(), e.Spent())
	}
}

func TestTurnOptionsThatCannotBeMeasuredAreNamedAsFlags(t *testing.T) {
	if err := DefaultTurnOptions().Validate(); err != nil {
		t.Error(err)
	}
	for flag, change := range map[string]func(*TurnOptions){
		"--messages 0":  func(o *TurnOptions) { o.Messages = 0 },
		"--chats 10001": func(o *TurnOptions) { o.Chats = 10_001 },
		"--clients 201": func(o *TurnOptions) { o.Clients = 201 },
		"--single 0":    func(o *TurnOptions) { o.Single = 0 },
		"--rounds 0":    func(o *TurnOptions) { o.Rounds = 0 },
	} {
		o := DefaultTurnOptions()
		change(&o)
		_, err := Turn(t.Context(), Program{}, o)
		if err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%s: got %v", flag, err)
		}
	}
}
