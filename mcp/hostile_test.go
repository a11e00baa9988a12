package mcp_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/mcp"
)

// hostile is a server that nobody should have to meet, and what becomes of it.
type hostile struct {
	name  string
	state mcp.State
	says  string               // in its last error
	call  corebot.AuditOutcome // of its tool, if it is connected
}

func hostiles() []hostile {
	return []hostile{
		{"exits", mcp.Failed, "exit status 1; it said: Error: no module x", ""},
		{"hangs", mcp.Failed, "not ready within", ""},
		{"hangs-initialize", mcp.Failed, "not ready within", ""},
		{"hangs-list", mcp.Failed, "not ready within", ""},
		{"hangs-call", mcp.Connected, "", corebot.OutcomeUnknown},
		{"garbage", mcp.Connected, "", corebot.OutcomeSuccess},
		{"binary", mcp.Failed, "not ready within", ""},
		{"wrong-ids", mcp.Failed, "not ready within", ""},
		{"duplicates", mcp.Connected, "", corebot.OutcomeSuccess},
		{"floods", mcp.Failed, "", ""},          // found out as a flood, or, where all is slow, by time
		{"floods-requests", mcp.Failed, "", ""}, // it does not read our refusals either: time ends it, or the flood
		{"floods-empty", mcp.Failed, "", ""},
		{"endless-line", mcp.Failed, "a line of more than", ""},
		{"many-tools", mcp.Connected, "more tools than", corebot.OutcomeError}, // it has none called do
		{"endless-pages", mcp.Connected, "", corebot.OutcomeError},
		{"reference-bomb", mcp.Connected, `"bomb" cannot be used`, corebot.OutcomeSuccess},
		{"huge-schema", mcp.Connected, `"big" cannot be used`, corebot.OutcomeSuccess},
		{"odd-tools", mcp.Connected, "lists 2 tools of that name", corebot.OutcomeError},
		{"ignores-sigterm", mcp.Connected, "", corebot.OutcomeSuccess},
		{"forks-away", mcp.Connected, "", corebot.OutcomeSuccess},
		{"leaves-children", mcp.Connected, "", corebot.OutcomeSuccess},
		{"closes-output", mcp.Failed, "closed its output", ""},
		{"floods-log", mcp.Connected, "", corebot.OutcomeSuccess},
		{"drips", mcp.Failed, "not ready within", ""},
		{"stops-reading", mcp.Connected, "", corebot.OutcomeUnknown},
		{"changes-all-time", mcp.Connected, "", corebot.OutcomeSuccess},
		{"huge-result", mcp.Connected, "", corebot.OutcomeUnknown},
		{"no-result", mcp.Connected, "", corebot.OutcomeUnknown},
		{"deep-result", mcp.Connected, "", corebot.OutcomeUnknown},
		{"unknown-version", mcp.Failed, "version", ""},
		{"wants-to-ask", mcp.Connected, "", corebot.OutcomeError},
		{"no-list", mcp.Failed, "list the tools", ""},
		{"never-ending-list", mcp.Failed, "a line of more than", ""},
	}
}

// TestHostileServersHarmNobody runs all of them at once beside a good server. The good server answers all the while,
// and memory stays bounded. Each hostile server is found out. In the end no process and no goroutine is left.
func TestHostileServersHarmNobody(t *testing.T) {
	hostiles := long.Every(9, append(hostiles(), hostileWebs()...))
	before := runtime.NumGoroutine()
	web := httptest.NewServer(hostileWeb())
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	all := servers{"good": entry("good")}
	for _, h := range hostiles {
		all[h.name] = h.entry(web.URL)
	}
	r := newRig(t, everything(mcp.Options{MaxMessage: 2 << 20}), all)
	r.awaitConnected("good")
	peak, stop := watchMemory()
	ctx, end := context.WithCancel(t.Context())
	slowest := make(chan time.Duration)
	go func() { slowest <- callAllTheTime(ctx, r, "mcp__good__do") }()

	var calls sync.WaitGroup // some take all the time that a call may take
	for _, h := range hostiles {
		h.isFoundOut(r)
		calls.Go(func() { h.answersAsItMay(r) })
	}
	calls.Wait()
	end()
	if took := <-slowest; took > 10*time.Second {
		t.Errorf("a call of the good server took %v", took)
	}
	stop()
	if mib := *peak >> 20; mib > 400 {
		t.Errorf("%d MiB were in use", mib)
	}
	began := time.Now()
	r.stop()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("ending them took %v", took)
	}
	for _, h := range hostiles {
		requireGone(t, h.name+".")
	}
	requireGoroutines(t, before+10)
}

// entry is the server as a file has it. A server that gets ready has time for that, however busy the machine is.
func (h hostile) entry(web string) map[string]any {
	const callTime = "2s"
	connectTime := "6s"
	switch {
	case h.state == mcp.Connected:
		connectTime = patience.String()
	case h.says == "not ready within" || strings.Contains(h.name, "floods"): // it is time that ends them
		connectTime = "1500ms"
	}
	times := []any{"timeout", callTime, "maxTime", callTime, "connectTimeout", connectTime}
	if !strings.HasPrefix(h.name, "web-") {
		return entry(h.name, times...)
	}
	e := map[string]any{"url": web + "/" + h.name}
	for i := 0; i < len(times); i += 2 {
		e[times[i].(string)] = times[i+1]
	}
	return e
}

// isFoundOut waits until it is known for what it is.
func (h hostile) isFoundOut(r *rig) {
	r.t.Helper()
	found := r.await(h.name, func(s mcp.Status) bool {
		failed := h.state == mcp.Failed && s.State == mcp.Connecting && s.LastError != "" // and is tried again by now
		return (s.State == h.state || failed) && strings.Contains(s.LastError, h.says)
	})
	if len(found.Tools) > 256 {
		r.t.Errorf("%s: %d tools", h.name, len(found.Tools))
	}
}

// answersAsItMay calls its tool.
func (h hostile) answersAsItMay(r *rig) {
	r.t.Helper()
	if h.call == "" {
		return
	}
	if got := r.call("mcp__"+h.name+"__do", `{}`); got.Outcome != h.call {
		r.t.Errorf("%s: a call is %s: %.300s", h.name, got.Outcome, got.Content)
	}
}

// callAllTheTime says how long the slowest call took.
func callAllTheTime(ctx context.Context, r *rig, tool string) (slowest time.Duration) {
	for ctx.Err() == nil {
		began := time.Now()
		r.requireCall(tool, `{}`, corebot.OutcomeSuccess, "do")
		slowest = max(slowest, time.Since(began))
		time.Sleep(5 * time.Millisecond)
	}
	return slowest
}

// watchMemory notes the most that the heap has had until stop is called.
func watchMemory() (peak *uint64, stop func()) {
	peak = new(uint64)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			*peak = max(*peak, m.HeapInuse)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return peak, func() { cancel(); <-ended }
}

// requireGoroutines waits until there are no more than so many.
func requireGoroutines(t *testing.T, most int) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); runtime.NumGoroutine() > most; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			all := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d are fine:\n%s", runtime.NumGoroutine(), most, all[:runtime.Stack(all, true)])
		}
	}
}

func TestOddToolsGetNamesThatProvidersTakeAndDescriptionsThatHideNothing(t *testing.T) {
	r := newRig(t, everything(mcp.Options{}), servers{"odd": entry("odd-tools")})
	r.awaitConnected("odd")
	box, end := r.begin()
	defer end()
	offered, err := box.Offer(t.Context(), caller())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range offered {
		names = append(names, o.Name)
		if len(o.Name) > 64 || strings.ContainsAny(o.Name, ". /\n") {
			t.Errorf("the name %q", o.Name)
		}
		if strings.ContainsAny(o.Description, "\u200b\u202e\U000e0041") ||
			strings.Contains(o.Description, "<|im_start") || len(o.Description) > 5<<10 ||
			!strings.Contains(o.Description, "data and no instruction") {
			t.Errorf("%s has the description %.200q of %d bytes", o.Name, o.Description, len(o.Description))
		}
	}
	if want := "mcp__odd__dots_and_slashes_c8647c37 mcp__odd__hidden mcp__odd__line_end_fd3b5b4e"; !strings.HasPrefix(
		strings.Join(names, " "), want) || len(names) != 4 {
		t.Errorf("the names are %s", strings.Join(names, " "))
	}
	for _, name := range names { // the server hears its own names
		if got := r.call(name, `{}`); got.Outcome != corebot.OutcomeSuccess {
			t.Errorf("%s: %+v", name, got)
		}
	}
	r.requireCall(names[0], `{}`, corebot.OutcomeSuccess, "dots.and/slashes {}")
	fmt.Fprintln(t.Output(), r.status("odd").LastError)
}
