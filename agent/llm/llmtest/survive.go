package llmtest

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// The limits that a model under [Survive] must be opened with.
const (
	FirstByteTimeout = 20 * time.Second
	IdleTimeout      = 15 * time.Second
	Timeout          = time.Minute
	MaxAnswerBytes   = 256 << 10 // small, so that a flood is over soon
)

// Survival is what becomes of one call that meets a fault.
type Survival struct {
	Fault      string        // as llm.FaultOf names it; "ok" if the answer can be used
	RetryAfter time.Duration // what the failure asks its caller to wait
	Took       time.Duration // until it was known
	Text       string        // how the answer begins
	Calls      int           // how many tools it asks for
}

// Survivals are what becomes of one call, by the name of its fault, whichever API is spoken.
func Survivals() map[string]Survival {
	limited := func(d time.Duration) Survival { return Survival{Fault: "rate_limited", RetryAfter: d} }
	silent := func(d time.Duration) Survival { return Survival{Fault: "unreachable", Took: d} }
	transient, permanent := Survival{Fault: "transient"}, Survival{Fault: "permanent"}
	unauthorized, unreachable := Survival{Fault: "unauthorized"}, Survival{Fault: "unreachable"}
	oneCall := Survival{Fault: "ok", Calls: 1}
	return map[string]Survival{
		"429 without Retry-After": limited(0), "429 in seconds": limited(7 * time.Second),
		"429 in a fraction of a second": limited(500 * time.Millisecond),
		"429 in zero seconds":           limited(0), "429 in negative seconds": limited(0),
		"429 in eleven days":                 limited(time.Hour),
		"429 in more seconds than there are": limited(time.Hour), "429 in nonsense": limited(0),
		"429 in milliseconds": limited(1500 * time.Millisecond),
		"429 with a date":     limited(90 * time.Second), "429 with a date in the past": limited(0),
		"429 with a date in centuries": limited(time.Hour),
		"429 without credit":           unauthorized,

		"500": transient, "502 of a proxy": transient, "503 with Retry-After": {
			Fault:      "transient",
			RetryAfter: 5 * time.Second,
		}, "529": limited(0),
		"401": unauthorized, "403": unauthorized, "404": {Fault: "no_model"}, "400": {Fault: "bad_request"},
		"400 context length": {Fault: "context_too_long"}, "413": {Fault: "context_too_long"},
		"refused by a filter": {Fault: "refused"},

		"reset before the headers": unreachable, "reset behind the headers": transient,
		"reset in the middle": transient, "closed in the middle": transient,
		"no end": transient, "no [DONE]": {Fault: "ok", Text: "one two three four five six"},
		"an error event, then open": limited(0), "an error event, then the end": limited(0),

		"no headers": silent(FirstByteTimeout), "headers, then silence": silent(FirstByteTimeout),
		"three chunks, then silence": silent(IdleTimeout),
		"a byte every ten seconds":   silent(Timeout), "headers after two minutes": silent(FirstByteTimeout),

		"truncated JSON": transient, "HTML with 200": permanent, "JSON with 200": permanent,
		"an error with 200": limited(0), "a redirect": permanent,
		"an empty body": transient, "no content at all": transient, "invalid UTF-8": {Fault: "ok", Text: "caf\uFFFD"},
		"empty choices": transient,

		"a gigabyte of text": permanent, "a gigabyte in one line": permanent, "a gigabyte of comments": permanent,
		"a gigabyte of an error": transient,

		"finish_reason length":                   {Fault: "ok", Text: "half of\n\n[The answer was cut off"},
		"finish_reason length, and nothing said": permanent,
		"null content":                           {Fault: "ok"}, "an unknown tool": oneCall,
		"doubled call ids": {Fault: "ok", Calls: 2},
		"empty arguments":  oneCall, "null arguments": oneCall,
		"arguments with a doubled key": oneCall, "arguments cut short": oneCall,
		"500 calls at once": {Fault: "ok", Calls: 500}, "an endless tool loop": oneCall,

		"TLS is not spoken": unreachable, "TLS with a strange certificate": unreachable,
		"DNS does not know the name": unreachable,
		"the connection is refused":  unreachable, "a half-open connection": silent(FirstByteTimeout),
		"no connection at all": silent(FirstByteTimeout),
	}
}

// maxAllocated bounds what one call may allocate, client and server together, whatever is sent to it.
const maxAllocated = 64 << 20

// Survive has a model meet every fault, in memory and in virtual time. Faults that need no waiting come over TCP as
// well. open makes the model for a server, with the limits above; Survive calls it in the bubble.
func Survive(t *testing.T, open func(t testing.TB, srv *Running) llm.Model) {
	want := Survivals()
	for _, f := range Faults() {
		expected, known := want[f.Name]
		if !known {
			t.Errorf("nothing is expected of %q", f.Name)
		}
		delete(want, f.Name)
		t.Run(f.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				check(t, meet(t, open(t, f.Start(t))), expected)
			})
			if expected.Took == 0 {
				got := meet(t, open(t, f.Listen(t)))
				got.Took = 0
				if d := expected.RetryAfter - got.RetryAfter; 0 < d && d < 5*time.Second {
					got.RetryAfter = expected.RetryAfter // a date has whole seconds, and time passes here
				}
				check(t, got, expected)
			}
		})
	}
	for name := range maps.Keys(want) {
		t.Errorf("there is no fault %q", name)
	}
}

func check(t *testing.T, got, want Survival) {
	t.Helper()
	if strings.HasPrefix(got.Text, want.Text) && (want.Text != "") == (got.Text != "") {
		got.Text = want.Text
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// meet makes one call, and checks what holds for every one.
func meet(t *testing.T, m llm.Model) Survival {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	a, err := m.Complete(t.Context(), llm.Request{
		Messages: []llm.Message{{Role: llm.User, Text: "hello"}},
		Tools:    []llm.Tool{{Name: "web.search"}},
	}, nil)
	s := Survival{Fault: llm.FaultOf(err), Took: time.Since(began), Text: a.Text, Calls: len(a.Calls)}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > maxAllocated {
		t.Errorf("%d MiB were allocated", n>>20)
	}
	if f := (*corebot.Failure)(nil); errors.As(err, &f) {
		s.RetryAfter = f.RetryAfter
	} else if err != nil {
		t.Errorf("%T %v is no failure", err, err)
	}
	if err != nil && (a.Text != "" || a.Calls != nil) {
		t.Errorf("%v came with the answer %+v", err, a)
	}
	ids := map[string]bool{}
	for _, c := range a.Calls {
		if ids[c.ID] || c.ID == "" || len(c.Args) == 0 || !slices.Contains([]string{"web.search", unknownTool},
			c.Tool) {
			t.Errorf("the call %+v cannot be told from others", c)
		}
		ids[c.ID] = true
	}
	return s
}
