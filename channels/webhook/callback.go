package webhook

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
	"github.com/corebot/corebot/channels"
)

const (
	pushTime     = 15 * time.Second // for one push, from dialling to the end of the answer
	pushBodyRead = 64 << 10         // of an answer, so that its connection can be used again
)

// callback pushes replies to an address of the operator's.
type callback struct {
	address string // never shown: it may hold a secret
	key     signingKey
	client  *http.Client
}

// newCallback is nil for no address.
func newCallback(address, secret string) (*callback, error) {
	if address == "" && secret == "" {
		return nil, nil
	}
	u, err := url.Parse(address)
	// err is not wrapped: it quotes the address
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		err := fmt.Errorf("%w: webhook.callback_url is not an address", corebot.ErrInvalid)
		return nil, corebot.WithHint(err,
			"webhook.callback_url must be an http or https address, and stands together with webhook.callback_secret")
	}
	key, err := parseSecret("webhook.callback_secret", secret)
	if err != nil {
		return nil, err
	}
	return &callback{address: address, key: key, client: newClient()}, nil
}

// newClient goes to the address it is given and nowhere else: through no proxy, and after no redirect.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: nil, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 16 << 10,
			DisableCompression: true,
			ForceAttemptHTTP2:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// pushed is the body of a push.
type pushed struct {
	ID        string       `json:"id"`
	ChatID    string       `json:"chatId"`
	InReplyTo string       `json:"inReplyTo"`
	Content   string       `json:"content"`
	CreatedAt string       `json:"createdAt"`
	Kind      corebot.Kind `json:"kind"`
	beside
}

// push returns when the other side has the reply. It may get one twice, under one webhook-id. The error is a
// [*corebot.Failure].
func (c *callback) push(ctx context.Context, m channels.Outbound) error {
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	body := encode(pushed{
		m.IdempotencyKey, m.Key.Chat, m.InReplyTo, m.Text(), timestamp(m.CreatedAt), m.Kind,
		besideText(m.Parts, m.Notice),
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address, bytes.NewReader(body))
	if err != nil {
		return &corebot.Failure{Class: corebot.Permanent, Err: fmt.Errorf("push the reply to the callback: %w",
			withoutAddress(err))}
	}
	now := time.Now()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "corebot")
	c.key.sign(r.Header, m.IdempotencyKey, now, body)
	answer, err := c.client.Do(r)
	if err != nil {
		return &corebot.Failure{Class: corebot.Transient, Err: fmt.Errorf("push the reply to the callback: %w",
			withoutAddress(err))}
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	_, _ = io.CopyN(io.Discard, answer.Body, pushBodyRead)
	return verdict(answer, now)
}

// verdict reads the answer to a push.
func verdict(answer *http.Response, now time.Time) error {
	status := answer.StatusCode
	if status/100 == 2 {
		return nil
	}
	f := &corebot.Failure{
		Class: corebot.Transient,
		Err:   fmt.Errorf("push the reply to the callback: it answered with status %d", status),
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

// retryAfter reads a Retry-After, in seconds or as a date; zero is none that can be used. The bus bounds it.
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
