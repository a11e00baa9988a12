package llmtest

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// Call is a tool call that the model makes. Name is the provider's spelling (fs_read). An empty ID is filled in as
// call_1 and so on.
type Call struct {
	ID, Name, Args string
}

// Answer is what a request gets. Make one with [Text], [ToolCalls], [Fail], [Raw] or [Stream], and change it with its
// methods; each returns a changed copy.
type Answer struct {
	text   string
	think  string
	calls  []Call
	finish string
	usage  usage
	bare   bool // no usage at all

	status int // other than zero: body is sent as it is
	header map[string]string
	body   string

	events []string // other than nil: these data lines instead of text and calls

	piece     int
	delay     time.Duration
	pace      time.Duration
	keepAlive int
	cut       cut
	cutAfter  int
	last      func(Request) string // sent as it is where the stream is cut
	flood     flood
}

// flood is something sent again and again in place of a stream.
type flood struct {
	piece string
	bytes int64
}

// usage of an answer. Cached is the part of the input that the provider's cache gave.
type usage struct{ Input, Output, Cached int }

// cut is how a stream ends before its end.
type cut uint8

const (
	whole   cut = iota
	stalled     // silence until the client goes away
	broken      // the connection dies
	reset       // the same, by a RST packet where there are packets
	ended       // a clean end that says nothing of why
)

// Text is a plain answer. It is streamed in words.
func Text(text string) Answer {
	return Answer{text: text, finish: "stop", usage: usage{Input: 10, Output: max(1, len(strings.Fields(text)))}}
}

// ToolCalls is an answer that asks for tools. Arguments are streamed in pieces.
func ToolCalls(calls ...Call) Answer {
	return Answer{calls: calls, finish: "tool_calls", usage: usage{Input: 10, Output: 5 * len(calls)}}
}

// Fail is an HTTP error with a message in the JSON that providers use.
func Fail(status int, message string) Answer {
	a := Raw(status, "application/json", errorJSON(status, message))
	return a
}

// Raw is any HTTP answer at all, such as a page of HTML or an empty body.
func Raw(status int, contentType, body string) Answer {
	return Answer{status: status, body: body, header: map[string]string{"Content-Type": contentType}}
}

// Stream sends events as the data lines of a stream, as they are: for shapes that [Text] and [ToolCalls] do not make.
// The final [DONE] is added.
func Stream(events ...string) Answer {
	return Answer{events: append([]string{}, events...), bare: true}
}

// Flood is a stream of n bytes, or more by less than a piece, made of one piece again and again.
func Flood(piece string, n int64) Answer { return Answer{}.Flooding(piece, n) }

// Flooding goes on after the body, or in place of a stream, with one piece again and again until n bytes are sent.
func (a Answer) Flooding(piece string, n int64) Answer { a.flood = flood{piece, n}; return a }

// Header adds a header, such as Retry-After.
func (a Answer) Header(name, value string) Answer {
	a.header = maps.Clone(a.header)
	if a.header == nil {
		a.header = make(map[string]string)
	}
	a.header[http.CanonicalHeaderKey(name)] = value
	return a
}

// After waits before anything is sent, headers included.
func (a Answer) After(d time.Duration) Answer { a.delay = d; return a }

// Every waits before each event of the stream.
func (a Answer) Every(d time.Duration) Answer { a.pace = d; return a }

// Pieces streams text and arguments in pieces of n bytes.
func (a Answer) Pieces(n int) Answer { a.piece = n; return a }

// KeepAlive puts n comment lines before each event of the stream.
func (a Answer) KeepAlive(n int) Answer { a.keepAlive = n; return a }

// Finish replaces the finish_reason.
func (a Answer) Finish(reason string) Answer { a.finish = reason; return a }

// Thinking puts what the model thinks before its text and calls, in the place that the API has for it.
func (a Answer) Thinking(text string) Answer { a.think = text; return a }

// With adds text to an answer that asks for tools.
func (a Answer) With(text string) Answer { a.text = text; return a }

// Usage sets the token counts of the usage chunk.
func (a Answer) Usage(input, output int) Answer {
	a.usage = usage{Input: input, Output: output}
	return a
}

// NoUsage leaves the usage chunk out, also when the request asks for it.
func (a Answer) NoUsage() Answer { a.bare = true; return a }

// Stall goes silent after n events of the stream, until the client gives up. With n of -1 not even headers are sent.
func (a Answer) Stall(n int) Answer { a.cut, a.cutAfter = stalled, n; return a }

// Break kills the connection after n events of the stream. With n of -1 not even headers are sent.
func (a Answer) Break(n int) Answer { a.cut, a.cutAfter = broken, n; return a }

// Reset is [Answer.Break] with a RST packet, where the connection is a real one.
func (a Answer) Reset(n int) Answer { a.cut, a.cutAfter = reset, n; return a }

// SayLast sends something, as it is, right before the stream is cut.
func (a Answer) SayLast(say func(Request) string) Answer { a.last = say; return a }

// End ends the stream cleanly after n events: no finish_reason, no [DONE].
func (a Answer) End(n int) Answer { a.cut, a.cutAfter = ended, n; return a }

func errorJSON(status int, message string) string {
	return fmt.Sprintf(`{"error":{"message":%s,"type":"llmtest_error","code":%d}}`, quote(message), status)
}
