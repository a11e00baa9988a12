package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/prometheus/client_golang/prometheus"
)

// WebOptions of a [Handler]. Zero means the default.
type WebOptions struct {
	// at once; 256. The one that was idle the longest makes room for another, and if none is idle, nobody does
	MaxSessions int
	SessionIdle time.Duration // a session that was not used for longer has ended; 30 min
	Metrics     prometheus.Registerer
}

// Handler answers over streamable HTTP. It stands behind somebody who authenticates requests, bounds bodies and
// connections, and gives writes their deadlines, such as the webhook.
//
// Clients of protocol versions up to 2025-11-25 have sessions; later ones have none. There is no stream for GET: there
// is nothing that it could bring.
type Handler struct {
	inner     http.Handler
	sessions  *sessions
	beginning sync.Mutex // held by the request that begins a session, so that there is room for it
}

// Web makes the server answer over HTTP.
func (s *Server) Web(o WebOptions) (*Handler, error) {
	h := &Handler{}
	h.sessions = newSessions(cmp.Or(o.MaxSessions, 256), cmp.Or(o.SessionIdle, 30*time.Minute), h.forget)
	h.inner = server.NewStreamableHTTPServer(s.mcp, server.WithSessionIdManager(h.sessions),
		server.WithDisableStreaming(true),
		server.WithDisableLocalhostProtection(true), // who stands in front knows more names of the listener
		server.WithStreamableHTTPLogger(slog.New(slog.NewTextHandler(s.opts.Log,
			&slog.HandlerOptions{Level: slog.LevelError}))))
	if o.Metrics == nil {
		return h, nil
	}
	return h, o.Metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "corebot_mcp_serve_sessions", Help: "Sessions of MCP clients over HTTP.",
	}, func() float64 { return float64(h.sessions.count()) }))
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	head, _ := headOf(body)
	if head.strange() {
		refuseMessage(w, strangeText)
		return
	}
	if head.Method == string(mcp.MethodInitialize) {
		h.beginning.Lock()
		defer h.beginning.Unlock()
		if !h.sessions.room() {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many sessions are in use", http.StatusServiceUnavailable)
			return
		}
	}
	defer h.sessions.use(r.Header.Get(server.HeaderKeySessionID))()
	h.inner.ServeHTTP(w, r)
}

// refuseMessage answers what is no request as the library does.
func refuseMessage(w http.ResponseWriter, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	// an answer that cannot be delivered is nobody's loss
	_ = json.NewEncoder(w).Encode(refusal(nil, mcp.INVALID_REQUEST, why))
}

// EndSessions ends all sessions: the credential that they were begun with is gone. Clients begin new ones.
func (h *Handler) EndSessions() { h.sessions.endAll() }

// forget has the library forget a session, as a client would.
func (h *Handler) forget(id string) {
	h.inner.ServeHTTP(nowhere{http.Header{}}, &http.Request{
		Method: http.MethodDelete, URL: &url.URL{Path: "/"}, Header: http.Header{server.HeaderKeySessionID: {id}},
		Body: http.NoBody,
	})
}

// nowhere is where an answer goes that nobody waits for.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header       { return n.header }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}

// head is what is looked at of a message before the library reads it.
type head struct {
	ID     any    `json:"id"`
	Method string `json:"method"`
}

// headOf gives false for what is no message, of which the library says so.
func headOf(message []byte) (h head, ok bool) {
	ok = json.Unmarshal(message, &h) == nil
	return h, ok
}

// exact is the least number that two ids of other spellings could be read as: the library keeps numbers as float64.
const exact = 1 << 53

// strange holds for an id that is neither a text nor a number, nor missing, or a number that would come back as
// another. The library would take any JSON for one, and no client could make out such an answer.
func (h head) strange() bool {
	switch id := h.ID.(type) {
	case nil, string:
		return false
	case float64:
		return math.Abs(id) >= exact
	}
	return true
}

// strangeText is what the sender of such an id hears.
const strangeText = "the id of a request is a text, or a number below 2 to the power of 53"
