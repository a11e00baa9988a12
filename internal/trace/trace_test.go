package trace_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/trace"
)

func always(corebot.Trace, [16]byte) bool { return true }

// TestTracingThatIsOffAllocatesNothing plays the walk of a message through a tracer that is not there.
func TestTracingThatIsOffAllocatesNothing(t *testing.T) {
	var off *trace.Tracer
	m := corebot.Message{ID: "m", Direction: corebot.Inbound}
	d := corebot.Delivery{Message: m}
	ctx, model, latency := context.Background(), "model", prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x"})
	if n := testing.AllocsPerRun(100, func() {
		off.Publish(&m).End()
		off.Claim(&d)
		turn := off.Work(trace.Consumer, "process", d)
		inTurn := trace.With(ctx, turn)
		_, call := trace.Start(inTurn, trace.Client, "chat", model)
		call.Text("gen_ai.request.model", model)
		call.Number("n", 1)
		call.Fail("transient")
		call.Propagate(trace.ToModels, nil)
		call.End()
		trace.Observe(latency, 1, turn.At())
		turn.End()
	}); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
	if !m.Trace.IsZero() || !d.Message.Trace.IsZero() {
		t.Error("it has given a message a trace")
	}
}

func TestSpansBeginUnderTheirParentsAndAMessageWithoutATraceBeginsOne(t *testing.T) {
	var ended []*trace.Span
	tr := trace.New(trace.Options{Sample: always, Take: func(s *trace.Span) { ended = append(ended, s) }})
	m := corebot.Message{ID: "m", Direction: corebot.Inbound}
	tr.Publish(&m).End()
	d := corebot.Delivery{Message: m, PublishedAt: time.Unix(10, 0), ClaimedAt: time.Unix(12, 0), Attempt: 1}
	tr.Claim(&d)
	turn := tr.Work(trace.Consumer, "process", d)
	_, call := trace.Start(trace.With(t.Context(), turn), trace.Client, "chat", "model")
	call.End()
	call.End() // a second end is none
	turn.End()
	alone := corebot.Delivery{Message: corebot.Message{ID: "task", Direction: corebot.Inbound}}
	tr.Claim(&alone)
	tr.Work(trace.Consumer, "process", alone).End()
	if len(ended) != 6 {
		t.Fatalf("%d spans ended", len(ended))
	}
	publish, claim, chat, process := ended[0], ended[1], ended[2], ended[3]
	if publish.Parent != [8]byte{} || claim.Parent != publish.At().Span || process.Parent != publish.At().Span ||
		chat.Parent != process.At().Span || chat.At().ID != publish.At().ID {
		t.Errorf("%+v\n%+v\n%+v\n%+v", publish, claim, process, chat)
	}
	if claim.Ended.Sub(claim.Began) != 2*time.Second || chat.Name != "chat model" {
		t.Errorf("the claim took %v, the call is %q", claim.Ended.Sub(claim.Began), chat.Name)
	}
	if ended[5].Parent != ended[4].At().Span || ended[4].At().ID == publish.At().ID {
		t.Error("the turn of a task is not under its claim, or in the trace of another message")
	}
}

func TestASpanIsBoundedAndKeepsOnlyValidText(t *testing.T) {
	tr := trace.New(trace.Options{Sample: always, Take: func(*trace.Span) {}})
	s := tr.Begin(corebot.Trace{}, trace.Internal, strings.Repeat("ü", 200), "\xff", time.Now())
	for range 100 {
		s.Text("key", strings.Repeat("x", 1000)+"\xff")
		s.Number("n", 1)
	}
	s.Fail("\xff" + strings.Repeat("y", 1000))
	if len(s.Name) > 256 || len(s.Attributes) > 24 || len(s.Failed) > 260 || !utf8.ValidString(s.Failed) ||
		!utf8.ValidString(s.Name) {
		t.Errorf("%d bytes of name, %d attributes, %d bytes of failure", len(s.Name), len(s.Attributes), len(s.Failed))
	}
	for _, a := range s.Attributes {
		if len(a.Text) > 256 || !utf8.ValidString(a.Text) {
			t.Errorf("%d bytes of text", len(a.Text))
		}
	}
}

func TestATraceThatIsNotSampledIsPassedOnAndNotRecorded(t *testing.T) {
	tr := trace.New(trace.Options{
		Sample: func(corebot.Trace, [16]byte) bool { return false }, Propagate: []string{trace.ToMCP},
		Take: func(*trace.Span) { t.Error("a span was recorded") },
	})
	m := corebot.Message{ID: "m", Direction: corebot.Inbound}
	s := tr.Publish(&m)
	s.End()
	models, servers := http.Header{}, http.Header{}
	s.Propagate(trace.ToModels, models)
	s.Propagate(trace.ToMCP, servers)
	if m.Trace.IsZero() || m.Trace.Sampled || len(models) != 0 || servers.Get("Traceparent") != m.Trace.Traceparent() {
		t.Errorf("%+v, models are told %v, MCP servers %v", m.Trace, models, servers)
	}
}
