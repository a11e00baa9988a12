package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/load"
	"github.com/corebot/corebot/internal/long"
)

var (
	soakTime   = long.Duration("soak.time", 2*time.Second, 4*time.Second, "how long messages come in the soak")
	soakRate   = flag.Int("soak.rate", 10, "messages a second, tasks and dead letters beside them")
	soakReport = flag.String("soak.report", "", "a file that the figures are written to while the soak goes on")
)

const (
	soakChats  = 100
	soakServer = "clock" // the MCP server that comes and goes

	// A sender may give a command in a chat every 30 seconds (bus.control_every). The reminders come every 2 seconds,
	// so with this many chats each comes round every 40 seconds.
	soakCommanders = 20
)

// Limits of a soak. The history is kept, so the database grows with the messages.
const (
	soakMemory    = 1 << 20   // for each 10,000 turns after the first third
	soakNoise     = 6 << 20   // how far two medians of the memory lie apart without a leak
	soakMost      = 150 << 20 // of memory at any time
	soakLog       = 64 << 20  // of the write-ahead log at any time
	soakDatabase  = 16 << 10  // for each turn: what was said, the journal of two calls of a tool, the audit
	soakLeftovers = 5         // descriptors, goroutines: more than an idle program had before

	soakJudged = 2 * time.Minute  // a shorter soak still warms up: what it takes is only printed
	soakRest   = 95 * time.Second // Corebot keeps connections to a model for a minute and a half
)

// TestASoakOfEverythingAtOnceLeavesNothingBehind runs the released program under mixed traffic and faults, and looks at
// what grows. Every third message calls a tool, of Corebot or of an MCP server that comes and goes. Tasks are due, the
// model breaks off and is away for moments, messages are dead-lettered and replayed.
func TestASoakOfEverythingAtOnceLeavesNothingBehind(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	s := newSoak(t)
	s.begin()
	s.await("the MCP server is connected", func() bool {
		return strings.Contains(s.output("mcp", "list"), "connected")
	})
	time.Sleep(min(soakTime()/4, 10*time.Second))
	before := s.sample()
	report := s.traffic()
	s.await("everything is answered and sent", func() bool { return strings.Contains(s.ask("/status"), `"queue":{}`) })
	s.callers.Close()
	if soakTime() >= soakJudged {
		time.Sleep(soakRest)
	}
	s.judge(report, before, s.sample())
	s.terminate()
	s.output("db", "check")
}

// soak is a program under traffic, with a model and an MCP server that fail at times.
type soak struct {
	*siege
	modelAway, serverAway atomic.Bool
	spare                 atomic.Bool // messages that are to be dead letters are answered
	letters, tasks        atomic.Int64
	callers               *load.Client
	began                 time.Time
	mu                    sync.Mutex
	samples               []sample
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	k := &soak{siege: &siege{service: &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: freeAddr(t),
	}, what: "soak"}}
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		llmtest.New(k.model).ServeHTTP(w, r) // a new one each time: it would keep every request
	}))
	t.Cleanup(model.Close)
	inner := server.NewStreamableHTTPServer(tellsTheTime())
	clocks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if k.serverAway.Load() {
			panic(http.ErrAbortHandler)
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		clocks.CloseClientConnections()
		clocks.Close()
	})
	observability := freeAddr(t)
	k.url = "http://" + observability
	k.env = []string{
		"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + model.URL + "/v1", "OPENAI_MODEL=scripted",
		"OPENAI_API_KEY=none", "COREBOT_OBSERVABILITY_ADDR=" + observability, "COREBOT_BUS_BACKOFF_BASE=100ms",
		"COREBOT_BUS_BACKOFF_MAX=2s", "COREBOT_BUS_MAX_ATTEMPTS=50", "COREBOT_APPROVALS_MODE=never",
		"COREBOT_MCP_PING_EVERY=2s", "COREBOT_TOOLS_GRANTS=mcp__*=normal",
	}
	t.Cleanup(k.kill)
	k.output("init", "--webhook")
	k.callers = k.client()
	k.writeHome(".mcp.json", `{"mcpServers": {"`+soakServer+`": {"url": "`+clocks.URL+`"}}}`)
	return k
}

func (s *service) writeHome(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.home, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func tellsTheTime() *server.MCPServer {
	s := server.NewMCPServer("clock", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("now", mcp.WithDescription("Tells the time.")),
		func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(time.Now().String()), nil
		})
	return s
}

// model answers by what a message says: a text, a note, the time. It breaks off one answer in fifty.
func (k *soak) model(r llmtest.Request) llmtest.Answer {
	text := lastUser(r)
	switch {
	case k.modelAway.Load():
		return llmtest.Fail(http.StatusServiceUnavailable, "overloaded")
	case rand.IntN(50) == 0:
		return llmtest.Text("an answer that is cut off").Break(2)
	case strings.HasPrefix(text, "refuse ") && !k.spare.Load() && rand.IntN(2) == 0:
		return llmtest.Fail(http.StatusBadRequest, "I do not like this message")
	case toolResults(r) > 0:
		return llmtest.Text("done")
	case strings.HasPrefix(text, "note "):
		args := mustJSON(map[string]string{"scope": "chat", "content": text, "mode": "replace"})
		return llmtest.ToolCalls(llmtest.Call{ID: "note", Name: "memory_write", Args: args})
	case strings.HasPrefix(text, "time "):
		return llmtest.ToolCalls(llmtest.Call{ID: "time", Name: "mcp__" + soakServer + "__now", Args: "{}"})
	}
	return llmtest.Text("You said: " + text)
}

// says is what the message with an id says: every sixth takes a note, every sixth asks for the time, and every
// fiftieth begins a new conversation.
func says(id string) string {
	switch n := rand.IntN(300); {
	case n < 6:
		return "/new " + id
	case n < 56:
		return "note " + id
	case n < 106:
		return "time " + id
	}
	return "say " + id
}

// traffic lets everything happen at once until the time is over, and then waits for the last answers.
func (k *soak) traffic() load.Report {
	k.t.Helper()
	ctx, stop := context.WithTimeout(k.t.Context(), soakTime())
	defer stop()
	k.began = time.Now()
	moment := soakTime() / 60
	var beside sync.WaitGroup
	for _, run := range []struct {
		every time.Duration
		do    func()
	}{
		{min(moment, 15*time.Second), k.measure},
		{time.Second, k.offend},
		{2 * time.Second, k.remind},
		{min(4*moment, 30*time.Second), k.replay},
		{min(8*moment, time.Minute), func() { k.away(&k.modelAway, ctx) }},
		{min(6*moment, 45*time.Second), func() { k.away(&k.serverAway, ctx) }},
	} {
		beside.Go(func() {
			for tick := time.NewTicker(run.every); ; {
				select {
				case <-tick.C:
					run.do()
				case <-ctx.Done():
					tick.Stop()
					return
				}
			}
		})
	}
	all, cancel := context.WithTimeout(k.t.Context(), soakTime()*3/2+siegePatience)
	defer cancel()
	pause := soakChats * time.Second / time.Duration(*soakRate)
	report, err := load.Run(all, k.callers, load.Options{
		Messages: max(int(soakTime().Seconds()*float64(*soakRate)), soakChats), Chats: soakChats, Copies: 1,
		Content: says,
		Pause:   pause, Accepted: func(n int) {
			if n <= soakChats { // the chats begin one after the other, and keep their distance
				time.Sleep(rand.N(pause))
			}
		},
	})
	if err != nil {
		k.t.Errorf("%+v: %v", report, err)
	}
	stop()
	beside.Wait()
	for len(k.samples) < leastSamples { // on a busy machine each sample takes long
		k.measure()
	}
	k.spare.Store(true)
	k.replay()
	return report
}

// away lets a server fail for a moment.
func (k *soak) away(what *atomic.Bool, ctx context.Context) {
	what.Store(true)
	select {
	case <-time.After(min(soakTime()/100, 3*time.Second)):
	case <-ctx.Done():
	}
	what.Store(false)
}

// offend posts a message that the model may refuse for good.
func (k *soak) offend() { k.post("refuse", k.letters.Add(1), 5, "refuse this") }

// remind posts a command that makes a task, which is due soon.
func (k *soak) remind() { k.post("tasks", k.tasks.Add(1), soakCommanders, "/remind 2s look") }

func (k *soak) post(kind string, n, chats int64, text string) {
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	chat := fmt.Sprint(kind, n%chats)
	id := fmt.Sprint(kind, "-", n)
	_, err := k.callers.Post(ctx, load.Message{ID: id, ChatID: chat, Sender: chat, Content: text})
	if err != nil {
		k.t.Errorf("post %s: %v", id, err)
	}
}

// replay tries every dead letter again, as an operator does.
func (k *soak) replay() {
	cmd := k.command(k.t.Context(), "dlq", "replay", "--all")
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "no dead letters") {
		k.t.Errorf("replay: %v\n%s", err, out)
	}
}
