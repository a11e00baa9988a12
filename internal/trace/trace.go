// Package trace records what a message's walk is made of, as spans of a distributed trace.
//
// Whoever traces nothing has a nil [Tracer], and all its spans are nil. A nil span takes everything and does nothing,
// without an allocation. So the packages of the walk need no other seam, and none of them knows where spans go.
//
// A span carries ids, names of the settings, and numbers: never content, arguments, or results. Its attributes are
// bounded in number and in length.
package trace

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
)

// Kind says on which side of a call a span is. The numbers are those of OTLP.
type Kind uint8

// The kinds of spans.
const (
	Internal Kind = 1
	Client   Kind = 3
	Producer Kind = 4
	Consumer Kind = 5
)

const (
	maxAttributes = 24
	maxText       = 256 // bytes of a name or a value
)

// Attribute is a property of a span: a text, or a number where Text is empty.
type Attribute struct {
	Key    string
	Text   string
	Number int64
}

// Options of a [Tracer].
type Options struct {
	// Sample says whether a trace is recorded. parent is zero for one that begins here.
	Sample func(parent corebot.Trace, id [16]byte) bool
	// Take gets each recorded span when it has ended, and owns it from then on. It must not wait.
	Take func(*Span)
	// Propagate names those whose requests carry their trace: [ToModels], [ToMCP]. Nil: nobody's do.
	Propagate []string
}

// Those who can be told the trace of a request.
const (
	ToModels = "models"
	ToMCP    = "mcp"
)

// Tracer begins spans. A nil Tracer begins none.
type Tracer struct{ opts Options }

// New makes a tracer.
func New(o Options) *Tracer { return &Tracer{o} }

// Span is one step. It is used by one goroutine at a time, and by nobody after its End.
type Span struct {
	tracer     *Tracer
	at         corebot.Trace
	Parent     [8]byte // zero: the span begins the trace
	Name       string
	Kind       Kind
	Began      time.Time
	Ended      time.Time
	Attributes []Attribute
	Failed     string // a class of errors; empty: it did not fail
}

// Begin begins a span under a parent, or a trace where parent is zero. The object of a span is what it is about: a
// name of the settings or of the code, of which there are few.
func (t *Tracer) Begin(parent corebot.Trace, k Kind, name, object string, at time.Time) *Span {
	if t == nil {
		return nil
	}
	s := &Span{tracer: t, Kind: k, Began: at}
	if s.at.ID = parent.ID; parent.IsZero() {
		parent = corebot.Trace{}
		binary.LittleEndian.PutUint64(s.at.ID[:8], rand.Uint64())
		binary.LittleEndian.PutUint64(s.at.ID[8:], rand.Uint64()|1<<63) // zero would be no id
	}
	binary.LittleEndian.PutUint64(s.at.Span[:], rand.Uint64()|1<<63)
	if s.at.Sampled = t.opts.Sample(parent, s.at.ID); s.at.Sampled {
		s.Parent, s.Name = parent.Span, bounded(name+" "+object)
		s.Attributes = make([]Attribute, 0, 8)
	}
	return s
}

type contextKey struct{}

// With has the spans of [Start] begin under a span.
func With(ctx context.Context, s *Span) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, s)
}

// From is the span in which something runs; nil: none.
func From(ctx context.Context) *Span {
	s, _ := ctx.Value(contextKey{}).(*Span)
	return s
}

// Start begins a span under that of the context; nil where the context has none.
func Start(ctx context.Context, k Kind, name, object string) (context.Context, *Span) {
	parent := From(ctx)
	if parent == nil {
		return ctx, nil
	}
	s := parent.tracer.Begin(parent.at, k, name, object, time.Now())
	return With(ctx, s), s
}

// At is the span as others name it; zero of a nil span.
func (s *Span) At() corebot.Trace {
	if s == nil {
		return corebot.Trace{}
	}
	return s.at
}

// Propagate names the span in the header of a request, if that is allowed.
func (s *Span) Propagate(to string, h http.Header) {
	if s != nil && slices.Contains(s.tracer.opts.Propagate, to) {
		h.Set("Traceparent", s.at.Traceparent())
	}
}

// Recorded says that the span will be seen by somebody.
func (s *Span) Recorded() bool { return s != nil && s.at.Sampled }

// Text adds a property. An empty one is left out.
func (s *Span) Text(key, value string) {
	if s.Recorded() && value != "" && len(s.Attributes) < maxAttributes {
		s.Attributes = append(s.Attributes, Attribute{Key: key, Text: bounded(value)})
	}
}

// Number adds a property.
func (s *Span) Number(key string, n int64) {
	if s.Recorded() && len(s.Attributes) < maxAttributes {
		s.Attributes = append(s.Attributes, Attribute{Key: key, Number: n})
	}
}

// Fail says that the step failed, by a class of errors. Texts of errors can have content, so they are no classes.
func (s *Span) Fail(class string) {
	if s.Recorded() {
		s.Failed = bounded(class)
		s.Text("error.type", class)
	}
}

// End ends the span and hands it over.
func (s *Span) End() { s.EndAt(time.Now()) }

// EndAt is End at an earlier moment.
func (s *Span) EndAt(at time.Time) {
	if s.Recorded() && s.Ended.IsZero() {
		s.Ended = at
		if at.Before(s.Began) { // of another process, or of a clock that was set
			s.Ended = s.Began
		}
		s.tracer.opts.Take(s)
	}
}

// bounded is a text that OTLP can carry, and not too much of it.
func bounded(text string) string {
	return strings.ToValidUTF8(runes.Head(strings.TrimSuffix(text, " "), maxText), "\ufffd")
}
