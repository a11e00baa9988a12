package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	proxyConns = 64 // of one program, at once
	maxVisits  = 32 // hosts that a [Visits] names
)

// patience is how long a proxy waits.
type patience struct {
	ask    time.Duration // for the headers of a request
	answer time.Duration // for the headers of an answer
	idle   time.Duration // on a connection on which nothing moves
}

var proxyPatience = patience{ask: dialTime, answer: 60 * time.Second, idle: 2 * time.Minute}

// Proxy is an HTTP proxy for programs that have no other way out. It is safe for use by several goroutines.
//
// Guarantees of [Proxy.Serve]:
//
//   - A connection goes to a name of [Targets] on one of its ports. An address in the place of a name must be listed
//     itself: "*" means every name.
//   - The proxy alone looks names up, and checks each address as it connects to it, as a [Client] does. A name of no
//     target is not even looked up.
//   - It follows no redirect: the program's next connection is judged anew.
//   - It adds nothing to a request and keeps nothing of an answer. It has limits on connections, headers and idle time.
//
// Limit: it does not look into what is encrypted. The server of a listed name sees what the program sends there, and
// a server of many names can hand it on.
type Proxy struct {
	client   *Client
	plain    *http.Transport
	patience patience
}

// NewProxy makes a proxy that goes to t and nowhere else. Of the options it takes the resolver.
func NewProxy(t Targets, o Options) (*Proxy, error) { return newProxy(t, o, proxyPatience) }

func newProxy(t Targets, o Options, waits patience) (*Proxy, error) {
	c, err := New(t, o)
	if err != nil {
		return nil, err
	}
	p := &Proxy{client: c, patience: waits}
	p.plain = &http.Transport{
		Proxy: nil, DialContext: p.dial, DisableCompression: true, DisableKeepAlives: true,
		MaxResponseHeaderBytes: maxHeader, ResponseHeaderTimeout: waits.answer,
	}
	return p, nil
}

// dial connects by the rules, to the one spelling of a host.
func (p *Proxy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		host, err = normalHost(host)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %.200q is no host and port", ErrRefused, address)
	}
	if isAddress(host) && !slices.Contains(p.client.targets.exact, host) {
		return nil, fmt.Errorf("%w: the address %s in the place of a name", ErrRefused, host)
	}
	return p.client.Dial(ctx, network, net.JoinHostPort(host, port))
}

// Visits are the hosts to which a program went through a proxy, and those that it was refused.
type Visits struct {
	mu   sync.Mutex
	seen map[string]string // why it was refused or failed, by host; empty: it was reached
	more int
}

func (v *Visits) note(host string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen == nil {
		v.seen = map[string]string{}
	}
	if _, known := v.seen[host]; !known && len(v.seen) >= maxVisits {
		v.more++
		return
	}
	why := ""
	if err != nil {
		why = err.Error()
	}
	v.seen[host] = why
}

// String names the hosts in one line; empty: there were none.
func (v *Visits) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var parts []string
	for _, host := range slices.Sorted(maps.Keys(v.seen)) {
		if why := v.seen[host]; why != "" {
			host += " (" + why + ")"
		}
		parts = append(parts, host)
	}
	if v.more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", v.more))
	}
	return strings.Join(parts, ", ")
}

// Serve answers the programs behind a listener until it is closed, and notes where they went.
func (p *Proxy) Serve(l net.Listener, v *Visits) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop() // which ends the tunnels
	server := &http.Server{
		Handler: proxied{p, v}, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: p.patience.ask, IdleTimeout: p.patience.idle, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	_ = server.Serve(&crowd{l, make(chan struct{}, proxyConns)}) // it says that the listener was closed
	_ = server.Close()
}

// proxied is the proxy of one program.
type proxied struct {
	*Proxy
	visits *Visits
}

func (p proxied) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		p.tunnel(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "" && r.URL.User == nil:
		p.forward(w, r)
	default:
		http.Error(w, "Corebot's proxy takes CONNECT, and http:// addresses", http.StatusBadRequest)
	}
}

// shown is a host as it is noted: of at most so many bytes, and without what a terminal would obey.
func shown(host string) string { return strings.Trim(fmt.Sprintf("%.100q", host), `"`) }

// fail answers a request that goes nowhere, and notes it.
func (p proxied) fail(w http.ResponseWriter, host string, err error) {
	status := http.StatusBadGateway
	if errors.Is(err, ErrRefused) {
		status = http.StatusForbidden
	} else {
		err = errors.New("no connection")
	}
	p.visits.note(shown(host), err)
	http.Error(w, "Corebot's proxy: "+err.Error(), status)
}

// forward passes a plain request on.
func (p proxied) forward(w http.ResponseWriter, r *http.Request) {
	host := r.URL.Host
	pass := httputil.ReverseProxy{
		Rewrite:   func(*httputil.ProxyRequest) {}, // the address names the host, whatever the header said
		Transport: p.plain, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		ModifyResponse: func(*http.Response) error { p.visits.note(shown(host), nil); return nil },
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, err error) { p.fail(w, host, withoutURL(err)) },
	}
	pass.ServeHTTP(w, r)
}

// tunnel connects the program with a host, and passes bytes in both directions.
func (p proxied) tunnel(w http.ResponseWriter, r *http.Request) {
	there, err := p.dial(r.Context(), "tcp", r.RequestURI)
	if err != nil {
		p.fail(w, r.RequestURI, err)
		return
	}
	defer there.Close() //nolint:errcheck // nothing is lost with it
	p.visits.note(shown(r.RequestURI), nil)
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close() //nolint:errcheck // nothing is lost with it
	defer context.AfterFunc(r.Context(), func() { _, _ = here.Close(), there.Close() })()
	if _, err := io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	touch := func() {
		until := time.Now().Add(p.patience.idle)
		_, _ = here.SetDeadline(until), there.SetDeadline(until)
	}
	touch()
	var back sync.WaitGroup
	back.Go(func() { pour(here, there, touch) })
	pour(there, buffered, touch)
	back.Wait()
}

// pour copies until the end of one side, and tells the other side of it.
func pour(to net.Conn, from io.Reader, moved func()) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			moved()
			if _, failed := to.Write(buf[:n]); failed != nil {
				err = failed
			}
		}
		if err == nil {
			continue
		}
		half, ok := to.(interface{ CloseWrite() error })
		if !errors.Is(err, io.EOF) || !ok || half.CloseWrite() != nil {
			_ = to.Close()
			if c, ok := from.(net.Conn); ok {
				_ = c.Close()
			}
		}
		return
	}
}

// crowd is a listener with a limit on connections: the next one waits until another has ended.
type crowd struct {
	net.Listener
	places chan struct{}
}

func (c *crowd) Accept() (net.Conn, error) {
	c.places <- struct{}{}
	conn, err := c.Listener.Accept()
	tcp, ok := conn.(*net.TCPConn)
	if err == nil && !ok {
		err = errors.Join(fmt.Errorf("a connection of the kind %T", conn), conn.Close())
	}
	if err != nil {
		<-c.places
		return nil, err
	}
	return &guestConn{TCPConn: tcp, leave: sync.OnceFunc(func() { <-c.places })}, nil
}

// guestConn gives its place free when it is closed.
type guestConn struct {
	*net.TCPConn
	leave func()
}

func (c *guestConn) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}
