package webhook

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot/internal/live"
)

// keepAlive is how often a quiet stream says that it is there: proxies close what is silent for long.
const keepAlive = 15 * time.Second

func (h *handler) stream(w http.ResponseWriter, r *http.Request) int {
	q, who, p := h.ask(r, "chatId", "after")
	if p != nil {
		return p.write(w, hasBody(r))
	}
	// A browser that reconnects repeats its address, and says here how far it came.
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		var err error
		if q, err = q.from("Last-Event-ID", id); err != nil {
			return refuse(http.StatusBadRequest, "%v", err).write(w, false)
		}
	}
	ctx, end, p := h.wait(r, who, kindStream)
	if p != nil {
		return p.write(w, false)
	}
	defer end()
	f := &follower{handler: h, query: q}
	var stop func()
	f.wake, stop = h.replies.Watch(q.key)
	defer stop()
	f.events, stop = h.opts.Live.Watch(q.key)
	defer stop()
	if q.cursor == "" {
		var err error
		if f.after, err = h.replies.Last(r.Context(), q.key); err != nil {
			return h.refusalOf(err).write(w, false)
		}
	}
	f.out = newStream(ctx, w)
	defer f.out.close()
	if r.Method == http.MethodHead { // the stream of a GET would never end
		return http.StatusOK
	}
	f.follow(ctx)
	return http.StatusOK
}

// follower sends one caller what happens in one conversation.
type follower struct {
	*handler
	query
	out    *stream
	wake   <-chan struct{}
	events <-chan live.Event
}

// follow returns when ctx ends, or when the caller does not read. It can go on from the last event that it got.
func (f *follower) follow(ctx context.Context) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	f.out.begin(f.after)
	for ok := f.replies(ctx); ok; ok = f.out.flush() {
		select {
		case <-f.wake:
			f.waiting() // deltas that came before the reply go before it
			if !f.replies(ctx) {
				return
			}
		case e := <-f.events:
			f.out.live(e)
			f.waiting()
		case <-tick.C:
			f.out.keepAlive()
		case <-ctx.Done():
			return
		}
	}
}

// waiting sends the events that are there already, so that many cost one write.
func (f *follower) waiting() {
	for range len(f.events) {
		f.out.live(<-f.events)
	}
}

// replies sends everything behind the cursor, page by page.
func (f *follower) replies(ctx context.Context) bool {
	for {
		page, err := f.page(ctx, f.key, f.after, defaultLimit)
		if err != nil {
			if ctx.Err() == nil {
				f.opts.Log.Error().Err(err).Str("channel", Channel).Str("chat",
					f.key.String()).Msg("read the mailbox for a stream")
			}
			return false
		}
		for _, p := range page {
			f.out.message(f.messageOf(ctx, f.key, p))
			f.after = p.Cursor
		}
		if !f.out.flush() {
			return false
		}
		if len(page) == 0 {
			return true
		}
	}
}

// hurryTime is how long a write may still take when its stream must end. It is short enough for a revoked credential,
// and long enough for an active reader to see the end of the stream.
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

func (s *stream) message(m message) {
	s.buf.WriteString("id: " + m.Cursor + "\n")
	s.event("message", m)
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

// live sends what callers may see of a running turn. The arguments of tools are not among it: they may hold what the
// reply would not say.
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

// Why a wait ended, when its caller did not end it.
var (
	errRevoked  = errors.New("the credential has been replaced")
	errStopping = errors.New("the webhook stops")
)

// waits are the long polls and streams that are open, so many and no more.
type waits struct {
	max   int
	gauge *prometheus.GaugeVec

	mu   sync.Mutex
	open map[*wait]struct{}
}

// wait is one of them.
type wait struct {
	who proof
	end context.CancelCauseFunc
}

// wait opens a long poll or stream. Its context ends with the request, when the webhook stops, and when the credential
// it came with is replaced. end closes it.
func (h *handler) wait(r *http.Request, who proof, kind string) (ctx context.Context, end func(), p *problem) {
	ctx, cancel := context.WithCancelCause(r.Context())
	entry := &wait{who: who, end: cancel}
	if !h.waits.add(entry) {
		cancel(nil)
		return nil, nil, later(http.StatusServiceUnavailable, 5*time.Second, "too many long polls and streams are open")
	}
	unlink := context.AfterFunc(h.stopping, func() { cancel(errStopping) })
	open := h.waits.gauge.WithLabelValues(kind)
	open.Inc()
	end = func() {
		open.Dec()
		unlink()
		h.waits.remove(entry)
		cancel(nil)
	}
	// Looked at after add: credentials that are replaced before this line are seen here, later ones find the entry.
	if p := h.stillGood(who); p != nil {
		end()
		return nil, nil, p
	}
	return ctx, end, nil
}

func (ws *waits) add(w *wait) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.open) >= ws.max {
		return false
	}
	if ws.open == nil {
		ws.open = make(map[*wait]struct{})
	}
	ws.open[w] = struct{}{}
	return true
}

func (ws *waits) remove(w *wait) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.open, w)
}

// revoke ends every wait whose credential is not among c.
func (ws *waits) revoke(c *credentials) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.open {
		if !c.hold(w.who) {
			w.end(errRevoked)
		}
	}
}
