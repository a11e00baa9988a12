package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxConnections = 256              // at once: below the webhook's own cap, which would turn the rest away
	requestTime    = 30 * time.Second // of one request, its wait included
	retryPause     = 25 * time.Millisecond
	maxRetryAfter  = time.Minute // a longer wait that a service names is cut to this
	maxAnswer      = 16 << 20    // bytes of one answer
)

// Client talks to one webhook. It tries again after a refused or broken connection, a 429 or a 5xx, under the same id
// until the context ends, as a caller should. Every other answer that is not the documented one is an error at once.
// After a 429 it waits as long as the Retry-After says. A service that is down is asked again at once, because these
// callers look for the moment at which the service is back.
type Client struct{ wire *wire }

// NewClient makes a client of the webhook at base, such as http://127.0.0.1:8788.
func NewClient(base, token string) *Client {
	return &Client{newWire(strings.TrimPrefix(base, "http://"), token)}
}

// Close ends the connections that are kept for later.
func (c *Client) Close() { c.wire.Close() }

// Message is the body of a post.
type Message struct {
	ID      string `json:"id"`
	ChatID  string `json:"chatId"`
	Sender  string `json:"senderId"`
	Content string `json:"content"`
}

// Receipt is what the webhook said of a post.
type Receipt struct {
	Duplicate bool // it had the message already
	Tries     int  // from 1; with more than one, an earlier try may be the one that was accepted
}

// Post publishes a message.
func (c *Client) Post(ctx context.Context, m Message) (Receipt, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return Receipt{}, fmt.Errorf("post %s: %w", m.ID, err)
	}
	var got struct{ ID, Status string }
	tries, err := c.do(ctx, request{http.MethodPost, "/webhook", body, http.StatusAccepted}, &got)
	if err != nil {
		return Receipt{}, fmt.Errorf("post %s: %w", m.ID, err)
	}
	if got.ID != m.ID || got.Status != "accepted" && got.Status != "duplicate" {
		return Receipt{}, fmt.Errorf("post %s: the answer is %+v", m.ID, got)
	}
	return Receipt{got.Status == "duplicate", tries}, nil
}

// Reply is one message of a chat's outbound page.
type Reply struct {
	ID        string `json:"id"`
	InReplyTo string `json:"inReplyTo"`
	Content   string `json:"content"`
	CreatedAt string `json:"createdAt"`
	Cursor    string `json:"cursor"`
}

// Replies reads a page of a chat's replies behind a cursor (empty: from the first), and waits whole seconds for one if
// there is none. It returns the cursor to go on from.
func (c *Client) Replies(ctx context.Context, chat, after string, wait time.Duration) ([]Reply, string, error) {
	query := url.Values{"chatId": {chat}, "wait": {strconv.Itoa(int(wait / time.Second))}}
	if after != "" {
		query.Set("after", after)
	}
	var page struct {
		Messages []Reply
		Cursor   string
	}
	if _, err := c.do(ctx, request{http.MethodGet, "/webhook/outbound?" + query.Encode(), nil, http.StatusOK},
		&page); err != nil {
		return nil, after, fmt.Errorf("replies of %s: %w", chat, err)
	}
	return page.Messages, page.Cursor, nil
}

// request is what is asked, and the status of the answer that is wanted.
type request struct {
	method, path string
	body         []byte
	want         int
}

// do makes a request until its answer is the one that is wanted, and returns how many tries that took.
func (c *Client) do(ctx context.Context, r request, into any) (int, error) {
	for tries := 1; ; tries++ {
		err := c.try(ctx, r, into)
		refused, wait := (*refusedError)(nil), retryPause
		if err == nil || errors.As(err, &refused) && !refused.passing() {
			return tries, err
		}
		if refused != nil && refused.status == http.StatusTooManyRequests {
			wait = max(wait, refused.wait)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return tries, fmt.Errorf("gave up after %d tries (%w): %w", tries, context.Cause(ctx), err)
		}
	}
}

func (c *Client) try(ctx context.Context, r request, into any) error {
	got, err := c.wire.exchange(ctx, r.method, r.path, r.body)
	if err != nil {
		return err
	}
	if got.status != r.want || json.Unmarshal(got.body, into) != nil {
		return &refusedError{got}
	}
	return nil
}

// refusedError is an answer that is not the wanted one.
type refusedError struct{ answer }

func (e *refusedError) Error() string { return fmt.Sprintf("answered %d: %s", e.status, e.body) }

// passing: the webhook says that it will be over.
func (e *refusedError) passing() bool {
	return e.status == http.StatusTooManyRequests || e.status >= http.StatusInternalServerError
}
