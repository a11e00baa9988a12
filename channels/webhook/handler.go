package webhook

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/fault"
	"github.com/corebot/corebot/internal/signedpost"
	"github.com/corebot/corebot/internal/trace"
)

const (
	pathPost     = "/webhook"
	pathOutbound = "/webhook/outbound"
	pathStream   = "/webhook/stream"
	pathResume   = "/webhook/resume/" // and the number of a wait
	pathFiles    = "/webhook/files/"  // and the hash of a file
	pathGuest    = "/mcp"
	pathOther    = "other" // in metrics
	pathHealth   = "/health"
)

// handler answers the requests of one [Webhook.Run].
type handler struct {
	*Webhook
	door     channels.Door
	stopping context.Context // ends long polls and streams; requests have contexts of their own
	places   []place
}

func newHandler(w *Webhook, door channels.Door, stopping context.Context) *handler {
	h := &handler{Webhook: w, door: door, stopping: stopping}
	h.places = h.placesOf()
	return h
}

// place is an address at which the webhook answers.
type place struct {
	path    string
	below   string // what stands behind path, as people are told of it; empty: nothing does
	counted string // its name in the metrics
	methods []string
	serve   func(http.ResponseWriter, *http.Request) int
}

// has says whether a path is that of the place.
func (p *place) has(path string) bool {
	return path == p.path || p.below != "" && strings.HasPrefix(path, p.path)
}

// placesOf are the addresses that the settings open. A HEAD is answered wherever a GET is.
func (h *handler) placesOf() []place {
	read, post := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}
	all := []place{
		{pathPost, "", pathPost, post, h.post},
		{pathOutbound, "", pathOutbound, read, h.outbound},
		{pathStream, "", pathStream, read, h.stream},
	}
	if h.opts.Words != nil {
		all = append(all, place{pathResume, "ID", pathResume, post, h.resume})
	}
	if h.opts.Files != nil {
		all = append(all, place{pathFiles, "HASH", pathOutbound, read, h.file})
	}
	if h.opts.Guest != nil {
		all = append(all, place{pathGuest, "", pathGuest, []string{http.MethodPost, http.MethodDelete}, h.guest})
	}
	return append(all, place{pathHealth, "", pathOther, read, nil}) // ServeHTTP answers it
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault.Point("webhook", "serve")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	serve, counted := h.unknown, pathOther
	if i := slices.IndexFunc(h.places, func(p place) bool { return p.has(r.URL.Path) }); i >= 0 {
		at := &h.places[i]
		serve, counted = at.serve, at.counted
		switch {
		case !slices.Contains(at.methods, r.Method):
			w.Header().Set("Allow", strings.Join(at.methods, ", "))
			serve = h.wrongMethod
		case at.path == pathHealth: // it is not counted: the watchdog asks it all the time
			_, _ = w.Write([]byte("ok\n")) // nobody else misses what a caller who has left does not read
			return
		}
	}
	if p := h.fromPage(r); p != nil {
		serve = func(w http.ResponseWriter, r *http.Request) int { return p.write(w, hasBody(r)) }
	}
	status := serve(w, r)
	h.metrics.count(counted, status)
}

// fromPage refuses what a web page has somebody's browser send.
func (h *handler) fromPage(r *http.Request) *problem {
	if status, why := h.pages.Refuse(r); status != 0 {
		return refuse(status, "%s", why)
	}
	return nil
}

func (h *handler) unknown(w http.ResponseWriter, r *http.Request) int {
	var there []string
	for _, p := range h.places {
		if p.path != pathHealth {
			there = append(there, p.path+p.below)
		}
	}
	p := refuse(http.StatusNotFound, "there are %s", strings.Join(there, ", "))
	if r.URL.Path == pathGuest {
		p = refuse(http.StatusNotFound, "MCP clients are not served here: mcp.serve.http is not set")
	}
	return p.write(w, hasBody(r))
}

func (h *handler) wrongMethod(w http.ResponseWriter, r *http.Request) int {
	return refuse(http.StatusMethodNotAllowed, "this address answers %s only", w.Header().Get("Allow")).write(w,
		hasBody(r))
}

func hasBody(r *http.Request) bool { return r.ContentLength != 0 }

// accepted is the answer to a message that is on disk.
type accepted struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

func (h *handler) post(w http.ResponseWriter, r *http.Request) int {
	began := time.Now()
	b := h.newBody(w, r)
	defer h.release(b)
	got, p := h.accept(r, b)
	defer func() { trace.Observe(h.metrics.accepted, time.Since(began).Seconds(), got.Trace) }()
	switch {
	case p != nil:
		return p.write(w, !b.whole)
	case got.Duplicate:
		return answer(w, http.StatusAccepted, "application/json", accepted{got.ID, "duplicate"})
	}
	return answer(w, http.StatusAccepted, "application/json", accepted{got.ID, "accepted"})
}

// accept hands a message to the door, once it is known who sends it and that it is one.
func (h *handler) accept(r *http.Request, b *body) (channels.Accepted, *problem) {
	who, p := h.authenticate(r.Header, b.bytes)
	if p != nil {
		return channels.Accepted{}, p
	}
	if _, err := parameters(r.URL.RawQuery, nil); err != nil {
		return channels.Accepted{}, refuse(http.StatusBadRequest, "%v", err)
	}
	if p := checkMedia(r.Header); p != nil {
		return channels.Accepted{}, p
	}
	raw, p := b.bytes()
	if p != nil {
		return channels.Accepted{}, p
	}
	if p := h.stillGood(who); p != nil {
		return channels.Accepted{}, p
	}
	in, p := decodeBody(r.Header, raw)
	if p != nil {
		return channels.Accepted{}, p
	}
	in.Channel, in.Interactive = Channel, h.opts.Interactive
	if value, one := signedpost.Only(r.Header, "Traceparent"); one && h.opts.Traced {
		in.Trace, _ = corebot.ParseTraceparent(value) // what is none is ignored, as W3C Trace Context wants it
	}
	// A caller that has sent its whole message may hang up, or half of its connection, and have it stored all the same.
	got, err := h.door.Accept(context.WithoutCancel(r.Context()), in)
	if err != nil {
		return channels.Accepted{}, h.refusalOf(err)
	}
	return got, nil
}

// decodeBody reads a body of either type.
func decodeBody(h http.Header, raw []byte) (channels.Incoming, *problem) {
	if boundary, form := isForm(h); form {
		return decodeForm(raw, boundary)
	}
	return decode(raw)
}

// refusalOf makes an error the caller's, and the log's if it is not for callers.
func (h *handler) refusalOf(err error) *problem {
	p, known := refusalOf(err)
	if !known {
		h.opts.Log.Error().Err(err).Str("channel", Channel).Msg("a request failed")
	}
	return p
}

func (w *Webhook) key(chat string) corebot.Key {
	return w.opts.Routing.Key(Channel, "", chat)
}
