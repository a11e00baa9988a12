package signedpost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Time is what one post has, from dialling to the end of the answer.
const Time = 15 * time.Second

const bodyRead = 64 << 10 // of an answer, so that its connection can be used again

// Target is an address of the operator's that takes signed posts.
type Target struct {
	what    string // for errors, such as "push the reply to the callback"
	address string // never shown: it may hold a secret
	sign    Sign
	client  *http.Client
}

// Sign puts into the header of a post what shows the receiver who has sent it. [Key.Sign] is one.
type Sign func(h http.Header, id string, now time.Time, body []byte)

// Bearer shows a token; an empty one shows nothing.
func Bearer(token string) Sign {
	return func(h http.Header, _ string, _ time.Time, _ []byte) {
		if token != "" {
			h.Set("Authorization", "Bearer "+token)
		}
	}
}

// NewTarget goes to an address and nowhere else: through no proxy, and after no redirect. what begins the errors of
// its posts. An address that is none is [corebot.ErrInvalid]; the error does not quote it.
func NewTarget(what, address string, sign Sign) (*Target, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%w: that is not an address of http or https", corebot.ErrInvalid)
	}
	return &Target{what: what, address: address, sign: sign, client: &http.Client{
		Transport: &http.Transport{
			Proxy: nil, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 16 << 10,
			DisableCompression: true,
			ForceAttemptHTTP2:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Post returns when the other side has taken a JSON body. It may get one twice, under one id. It has [Time].
// The error is a [*corebot.Failure] and never shows the address.
func (t *Target) Post(ctx context.Context, id string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, Time)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.address, bytes.NewReader(body))
	if err != nil {
		return &corebot.Failure{Class: corebot.Permanent, Err: fmt.Errorf("%s: %w", t.what, withoutAddress(err))}
	}
	now := time.Now()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "corebot")
	t.sign(r.Header, id, now, body)
	answer, err := t.client.Do(r)
	if err != nil {
		return &corebot.Failure{Class: corebot.Transient, Err: fmt.Errorf("%s: %w", t.what, withoutAddress(err))}
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	_, _ = io.CopyN(io.Discard, answer.Body, bodyRead)
	return t.verdict(answer, now)
}

// Dial has dial make all further connections: tests have a network in memory.
func (t *Target) Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	t.client.Transport.(*http.Transport).DialContext = dial
}

// Close closes the connections that no post uses.
func (t *Target) Close() { t.client.CloseIdleConnections() }

// verdict reads the answer to a post.
func (t *Target) verdict(answer *http.Response, now time.Time) error {
	status := answer.StatusCode
	if status/100 == 2 {
		return nil
	}
	f := &corebot.Failure{
		Class: corebot.Transient,
		Err:   fmt.Errorf("%s: it answered with status %d", t.what, status),
	}
	after := retryAfter(answer.Header.Get("Retry-After"), now)
	switch status {
	case http.StatusTooManyRequests:
		f.Class, f.RetryAfter = corebot.RateLimited, after
	case http.StatusServiceUnavailable:
		if after > 0 {
			f.Class, f.RetryAfter = corebot.RateLimited, after
		}
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly: // may be different next time
	default:
		if status/100 == 4 {
			f.Class = corebot.Permanent
		}
	}
	return f
}

// retryAfter reads a Retry-After, in seconds or as a date; zero is none that can be used. The caller bounds it.
func retryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// withoutAddress takes the address out of an error of net/http: it may hold a secret, and the error is stored and
// shown.
func withoutAddress(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}
