package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/corebot/corebot/internal/trace"
)

const (
	dialTime   = 10 * time.Second
	maxHops    = 5        // redirects within the origin
	maxHeaders = 64 << 10 // bytes of the headers of an answer
)

// errElsewhere refuses a request that would leave the origin of a server.
var errElsewhere = errors.New(
	"the server redirects to another origin, which is not followed: write the final address into the file")

// gate lets requests to one origin pass, with the headers that the entry gives them, and bounds what comes back. No
// header, and no argument of a tool, reaches another origin. Proxies of the environment are not used. Private and
// loopback addresses are allowed: the operator wrote them.
type gate struct {
	base    *http.Transport
	origin  string
	headers map[string]string
	max     int // bytes of one message

	mu        sync.Mutex
	listened  int // times that a stream for notifications was opened, lately
	countedAt time.Time
}

func newHTTPClient(s Spec, maxMessage int) (*http.Client, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, fmt.Errorf("read the address: %w", err)
	}
	g := &gate{
		base: &http.Transport{
			DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSHandshakeTimeout: dialTime,
			IdleConnTimeout:     time.Minute,
			MaxIdleConnsPerHost: 4, MaxResponseHeaderBytes: maxHeaders, ForceAttemptHTTP2: true,
		},
		origin: origin(u), headers: s.Headers, max: maxMessage,
	}
	return &http.Client{Transport: g, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxHops {
			return fmt.Errorf("the server redirects more than %d times", maxHops)
		}
		return nil
	}}, nil
}

// origin is scheme, host and port.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port)
}

// RoundTrip implements [http.RoundTripper].
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if origin(r.URL) != g.origin {
		return nil, errElsewhere
	}
	if r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "" && !g.mayListen(time.Now()) {
		return &http.Response{
			Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed,
			Body: http.NoBody, Header: http.Header{}, Request: r,
		}, nil
	}
	r = r.Clone(r.Context())
	trace.From(r.Context()).Propagate(trace.ToMCP, r.Header)
	for name, value := range g.headers {
		r.Header.Set(name, value)
	}
	resp, err := g.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
		resp.Body = newEvents(resp.Body, g.max, answersOne(r))
	} else {
		resp.Body = &limited{ReadCloser: resp.Body, left: g.max}
	}
	return resp, nil
}

// A stream for notifications that ends at once is opened again by the library every second. A server on which that goes
// on is not asked any more.
const (
	maxListens    = 20
	listensWindow = 10 * time.Minute
)

func (g *gate) mayListen(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.countedAt) > listensWindow {
		g.countedAt, g.listened = now, 0
	}
	g.listened++
	return g.listened <= maxListens
}

// answersOne says whether a stream is the answer to one request, or goes on with it.
func answersOne(r *http.Request) bool {
	return r.Method == http.MethodPost || r.Header.Get("Last-Event-ID") != ""
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (g *gate) CloseIdleConnections() { g.base.CloseIdleConnections() }

// limited is a body that is an error beyond its limit.
type limited struct {
	io.ReadCloser
	left int
}

func (l *limited) Read(b []byte) (int, error) {
	n, err := l.ReadCloser.Read(b[:min(len(b), l.left+1)])
	if l.left -= n; l.left < 0 {
		return 0, errors.New("the server's answer is too long")
	}
	return n, err
}

// streamable is the library's streamable HTTP, with two things that it lacks. Cancelling a call tells an older server
// so. Listening for notifications does not keep the connection from the newest version of the protocol.
type streamable struct {
	*transport.StreamableHTTP
	modern atomic.Bool
}

// eventStream is the library's older HTTP with server-sent events; calls that end early are cancelled there as well.
type eventStream struct{ *transport.SSE }

var (
	_ transport.HTTPConnection = (*streamable)(nil)
	_ transport.HTTPConnection = (*eventStream)(nil)
)

// newHTTPTransport makes a connection; what the library would log is left out, since it may have texts of the server in
// it.
func newHTTPTransport(s Spec, c *http.Client) (transport.Interface, error) {
	silent := slog.New(slog.DiscardHandler)
	if s.Transport == SSE {
		t, err := transport.NewSSE(s.URL, transport.WithHTTPClient(c), transport.WithSSELogger(silent),
			transport.WithResponseTimeout(24*time.Hour))
		if err != nil {
			return nil, fmt.Errorf("set up the connection: %w", err)
		}
		return &eventStream{t}, nil
	}
	//lint:ignore SA1019 servers of older protocols have no other way to say that their tools have changed
	listening := transport.WithContinuousListening()
	t, err := transport.NewStreamableHTTP(s.URL, transport.WithHTTPBasicClient(c), transport.WithHTTPLogger(silent),
		listening)
	if err != nil {
		return nil, fmt.Errorf("set up the connection: %w", err)
	}
	return &streamable{StreamableHTTP: t}, nil
}

// RequiresLegacyProtocol is no: the library listens for notifications by itself where the version of the protocol has a
// stream for them.
func (*streamable) RequiresLegacyProtocol() bool { return false }

// SetProtocolVersion notes which version was agreed on.
func (t *streamable) SetProtocolVersion(version string) {
	t.modern.Store(mcp.IsModernProtocol(version))
	t.StreamableHTTP.SetProtocolVersion(version)
}

// SendRequest sends a request. To older servers the end of a connection does not mean that the call is given up.
func (t *streamable) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := t.StreamableHTTP.SendRequest(ctx, r)
	tap(ctx, response)
	if err != nil && !t.modern.Load() {
		cancelled(ctx, t, r)
	}
	return response, err
}

func (t *eventStream) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := t.SSE.SendRequest(ctx, r)
	tap(ctx, response)
	if err != nil {
		cancelled(ctx, t, r)
	}
	return response, err
}

// cancelled tells the server that nobody waits for a call any more. It does not keep the caller waiting.
func cancelled(ctx context.Context, t transport.Interface, r transport.JSONRPCRequest) {
	if ctx.Err() == nil || r.Method != string(mcp.MethodToolsCall) {
		return
	}
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
		Method: string(mcp.MethodNotificationCancelled),
		Params: mcp.NotificationParams{AdditionalFields: map[string]any{
			"requestId": r.ID,
			"reason":    "the call was given up",
		}},
	}}
	go func() {
		late, stop := context.WithTimeout(context.WithoutCancel(ctx), dialTime)
		defer stop()
		_ = t.SendNotification(late, n) // the call is over either way
	}()
}

// answer is a server's answer to one request, as it came. The library's types know less than the protocol allows. One
// tool or one piece of content that they do not know would cost all the others.
type answer struct {
	result json.RawMessage
	err    *mcp.JSONRPCErrorDetails // the server refused
}

// given says whether the server said anything.
func (a *answer) given() bool { return a.err != nil || a.result != nil }

type tapKey struct{}

// withTap has the answer to the one request that is made with the context written to a. Through the library there is no
// other way.
func withTap(ctx context.Context, a *answer) context.Context {
	return context.WithValue(ctx, tapKey{}, a)
}

// tap notes the answer to a request.
func tap(ctx context.Context, r *transport.JSONRPCResponse) {
	if a, ok := ctx.Value(tapKey{}).(*answer); ok && r != nil {
		a.result, a.err = r.Result, r.Error
	}
}
