package webhook

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

// hurryTime is how long a write may still take when its stream is to end: short enough for a credential that is gone, long enough for
// a reader that reads to see the end of the stream.
const hurryTime = time.Second

// stream writes server-sent events (the WHATWG HTML standard, section 9.2). Events gather in a buffer until flush.
type stream struct {
	ctx     context.Context // ends writes that are under way, too
	w       http.ResponseWriter
	control *http.ResponseController
	buf     bytes.Buffer
	release func() bool
}

// newStream begins the answer. When ctx ends, what is being written gets a last short deadline.
func newStream(ctx context.Context, w http.ResponseWriter) *stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy of this kind would gather events
	h.Set("Connection", "close")
	w.WriteHeader(http.StatusOK)
	s := &stream{ctx: ctx, w: w, control: http.NewResponseController(w)}
	s.release = context.AfterFunc(ctx, s.hurry)
	return s
}

func (s *stream) hurry() { _ = s.control.SetWriteDeadline(time.Now().Add(hurryTime)) }

// close must be called before the handler returns.
func (s *stream) close() {
	s.release()
	s.hurry()
}

// begin tells the caller how soon to reconnect, and from where if no reply comes before that.
func (s *stream) begin(cursor int64) {
	s.buf.WriteString("retry: 1000\nid: " + cursorText(cursor) + "\n\n")
}

func (s *stream) keepAlive() { s.buf.WriteString(": keep-alive\n\n") }

func (s *stream) event(name string, data any) {
	s.buf.WriteString("event: " + name + "\ndata: ")
	s.buf.Write(encode(data)) // JSON has no raw line breaks
	s.buf.WriteString("\n\n")
}

func (s *stream) message(p corebot.Posted) {
	s.buf.WriteString("id: " + cursorText(p.Cursor) + "\n")
	s.event("message", messageOf(p))
}

type deltaEvent struct {
	InReplyTo string `json:"inReplyTo"`
	Text      string `json:"text"`
}

type resetEvent struct {
	InReplyTo string `json:"inReplyTo"`
}

type toolEvent struct {
	InReplyTo string `json:"inReplyTo"`
	Tool      string `json:"tool"`
	State     string `json:"state"`             // started or ended
	Outcome   string `json:"outcome,omitempty"` // of one that ended
}

// live sends what callers may see of a running turn. The arguments of tools are not among it: they may hold what the reply would not say.
func (s *stream) live(e live.Event) {
	switch e.Kind {
	case live.Text:
		s.event("delta", deltaEvent{e.MessageID, e.Text})
	case live.TextReset:
		s.event("reset", resetEvent{e.MessageID})
	case live.ToolStarted:
		s.event("tool", toolEvent{InReplyTo: e.MessageID, Tool: e.Tool, State: "started"})
	case live.ToolEnded:
		s.event("tool", toolEvent{InReplyTo: e.MessageID, Tool: e.Tool, State: "ended", Outcome: e.Text})
	}
}

// flush sends what has gathered, and says whether the caller took it.
func (s *stream) flush() bool {
	defer s.buf.Reset()
	return writePieces(s.ctx, s.w, s.buf.Bytes()) == nil && s.control.Flush() == nil
}
