// Package egress fetches from addresses that somebody outside chose: a model, a page, a redirect. It is the only way to
// such addresses.
//
// Guarantees of [Client.Get]:
//
//   - No connection goes to an address that is not a public address of the internet, whatever its name, its spelling,
//     or the redirect that led there. Every connection is checked when it is dialled, after the last look-up. Prefixes
//     that [Targets] opens are the only exception.
//   - A public address is also refused if it is this machine's own, or of a network that this machine is on: services
//     there often trust their neighbours. Every connection reads interfaces and routes anew, unless they were read
//     within the last second.
//   - Every hop of a redirect is held to the same schemes, names and ports as the first request. None leads from https
//     to http.
//   - It uses no proxy, sends no credentials and no cookies, and tells no hop where it came from.
//   - It ends: the whole exchange has a deadline, and headers, body and decompressed body have limits.
//
// Limits: some private places look like any other public address. These are an operator's own NAT64 prefix, a public
// address that a router forwards inwards, and the addresses of the host inside a container.
package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/corebot/corebot"
)

// Defaults of [Options].
const (
	DefaultTimeout = 20 * time.Second
	DefaultMaxBody = 4 << 20 // bytes
)

const (
	maxHeader = 64 << 10 // bytes of the headers of one answer
	dialTime  = 10 * time.Second
	userAgent = "Mozilla/5.0 (compatible; Corebot; +https://github.com/corebot/corebot)"
)

// ErrRefused is in the error of a request that was not made, or not followed, because of where it led.
var ErrRefused = errors.New("refused")

var errDeadline = errors.New("it took too long")

// Options of a [Client]. Zero means the default.
type Options struct {
	Timeout time.Duration // of one call of Get, from the look-up of the name to the last byte, redirects included
	// bytes of an answer, as they come and as they are after decompression; the rest is not read
	MaxBody   int64
	Redirects int            // hops that are followed after the first request; zero means none
	Resolver  *net.Resolver  // nil: the system's
	RootCAs   *x509.CertPool // whom https trusts; nil: the system's
	// Dial makes the connections in the place of [Client.Dial]: whoever keeps that, keeps the promise about addresses.
	// Nil: the client itself.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client fetches. It is safe for use by several goroutines, and keeps no connections.
type Client struct {
	targets targets
	opts    Options
	dialer  *net.Dialer
	http    *http.Client
}

// New makes a client that goes to t and nowhere else.
func New(t Targets, o Options) (*Client, error) {
	checked, err := t.parse()
	if err != nil {
		return nil, err
	}
	if o.Timeout < 0 || o.MaxBody < 0 || o.Redirects < 0 {
		return nil, fmt.Errorf("%w: limits of a client that are negative", corebot.ErrInvalid)
	}
	o.Timeout, o.MaxBody = cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.MaxBody, DefaultMaxBody)
	c := &Client{targets: checked, opts: o}
	c.dialer = &net.Dialer{Timeout: dialTime, Resolver: o.Resolver, ControlContext: checked.guard}
	if o.Dial == nil {
		o.Dial = c.dialer.DialContext // what it asks for has passed the checks of names
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy: nil, DialContext: o.Dial, TLSClientConfig: &tls.Config{
				RootCAs:    o.RootCAs,
				MinVersion: tls.VersionTLS12,
			},
			TLSHandshakeTimeout: dialTime, MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true,
			DisableCompression: true, // it is undone in this package, where it has a limit
			DisableKeepAlives:  true, // every request is a connection that was checked, and none is left behind
		},
		CheckRedirect: c.follow,
	}
	return c, nil
}

// Dial connects to a host and port for somebody who speaks HTTP himself, by the rules for names, ports and addresses
// that hold for Get. The error is [ErrRefused] if one of them forbids it.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		host, err = normalHost(host)
	}
	if err != nil || !c.targets.allows(host) {
		return nil, fmt.Errorf("%w: %.200q is not among the allowed domains", ErrRefused, address)
	}
	conn, err := c.dialer.DialContext(ctx, network, address)
	return conn, withoutURL(err)
}

// Request is what [Client.Get] asks for.
type Request struct {
	URL    string
	Header http.Header                 // beside those that the client sends itself; they go to the first address only
	Wants  func(mediaType string) bool // whether a body of that type is worth reading; nil: every one is
}

// Response is an answer, whatever its status.
type Response struct {
	URL         *url.URL // the address that answered: the last one of the redirects
	Status      int
	Header      http.Header
	MediaType   string // such as text/html, in lower case; what the body looks like if the answer does not say
	ContentType string // the header: the media type with its parameters
	Body        []byte // decompressed; nil if it was not wanted
	Cut         bool   // the body is longer than the limit
}

// Check says whether an address may be asked, as far as that can be known without a look-up. The error is [ErrRefused].
func (c *Client) Check(address string) error {
	_, err := c.targets.parseURL(address)
	return err
}

// Get fetches an address. The error is [ErrRefused] if the address may not be asked, the cause of ctx if it ended, and
// else says what failed.
func (c *Client) Get(ctx context.Context, r Request) (Response, error) {
	u, err := c.targets.parseURL(r.URL)
	if err != nil {
		return Response{}, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, c.opts.Timeout, errDeadline)
	defer stop()
	response, err := c.get(ctx, u, r)
	switch {
	case err == nil:
		return response, nil
	case errors.Is(context.Cause(ctx), errDeadline):
		return Response{}, fmt.Errorf("get %s: %w (the limit is %v)", u.Redacted(), errDeadline, c.opts.Timeout)
	case ctx.Err() != nil:
		return Response{}, context.Cause(ctx)
	}
	return Response{}, fmt.Errorf("get %s: %w", u.Redacted(), err)
}

func (c *Client) get(ctx context.Context, u *url.URL, r Request) (Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Response{}, err
	}
	for name, values := range r.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Accept-Encoding", acceptEncoding)
	answer, err := c.http.Do(request)
	if err != nil {
		return Response{}, withoutURL(err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	return c.read(answer, r.Wants)
}

// ownHeaders are what a redirected request still has; whatever else a caller set was meant for the address that he
// named.
var ownHeaders = [...]string{"User-Agent", "Accept-Encoding", "Accept", "Accept-Language"}

// follow decides about one hop. net/http has made the request, with headers of the one before and a Referer.
func (c *Client) follow(next *http.Request, via []*http.Request) error {
	last := via[len(via)-1].URL
	switch {
	case c.opts.Redirects == 0:
		return http.ErrUseLastResponse
	case len(via) > c.opts.Redirects:
		return fmt.Errorf("%w: more than %d redirects", ErrRefused, c.opts.Redirects)
	case last.Scheme == "https" && next.URL.Scheme == "http":
		return fmt.Errorf("%w: a redirect from https to http", ErrRefused)
	}
	if err := c.targets.check(next.URL); err != nil {
		return fmt.Errorf("a redirect: %w", err)
	}
	kept := http.Header{}
	for _, name := range ownHeaders {
		if values, has := next.Header[name]; has {
			kept[name] = values
		}
	}
	next.Header, next.Host = kept, next.URL.Host
	return nil
}

// withoutURL removes the address from an error of net/http, since the text has it already. It also removes the address
// from an error of net if it was refused: nobody outside may learn the inner address of a name.
func withoutURL(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if op := (*net.OpError)(nil); errors.Is(err, ErrRefused) && errors.As(err, &op) {
		return op.Err
	}
	return err
}
