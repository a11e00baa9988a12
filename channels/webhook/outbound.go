package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// outboundPage is the answer to a poll.
type outboundPage struct {
	ChatID   string    `json:"chatId"`
	Messages []message `json:"messages"`
	Cursor   string    `json:"cursor"` // where to go on: behind the last message, or where the caller was
}

func (h *handler) outbound(w http.ResponseWriter, r *http.Request) int {
	q, who, p := h.ask(r, "chatId", "after", "limit", "wait")
	if p != nil {
		return p.write(w, hasBody(r))
	}
	// before the read: what comes before the read is read, what comes after it wakes
	wake, stop := h.replies.Watch(q.key)
	defer stop()
	replies, err := h.page(r.Context(), q.key, q.after, q.limit)
	if err == nil && len(replies) == 0 && q.wait > 0 {
		replies, p, err = h.poll(r, who, q, wake)
	}
	if err != nil {
		p = h.refusalOf(err)
	}
	if p != nil {
		return p.write(w, false)
	}
	page := outboundPage{ChatID: q.key.Chat, Messages: make([]message, len(replies)), Cursor: q.cursor}
	if page.Cursor == "" {
		page.Cursor = cursorText(q.after)
	}
	for i, reply := range replies {
		page.Messages[i] = h.messageOf(r.Context(), q.key, reply)
		page.Cursor = page.Messages[i].Cursor
	}
	return answer(w, http.StatusOK, "application/json", page)
}

// poll waits for replies where there are none. It also ends without replies when the time is up, when the caller has
// gone, and when Corebot stops. In each case the caller asks again from the same cursor.
func (h *handler) poll(r *http.Request, who proof, q query, wake <-chan struct{}) ([]corebot.Posted, *problem, error) {
	ctx, end, p := h.wait(r, who, kindPoll)
	if p != nil {
		return nil, p, nil
	}
	defer end()
	timer := time.NewTimer(q.wait)
	defer timer.Stop()
	for {
		select {
		case <-wake:
			replies, err := h.page(context.WithoutCancel(ctx), q.key, q.after, q.limit)
			if err != nil || len(replies) > 0 {
				return replies, h.stillGood(who), err
			}
		case <-timer.C:
			return nil, nil, nil
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errRevoked) {
				return nil, h.stillGood(who), nil
			}
			return nil, nil, nil
		}
	}
}

const (
	maxLimit     = 500
	defaultLimit = 100
	maxWait      = 60 // seconds
)

// query is what a GET asks for.
type query struct {
	key    corebot.Key
	after  int64
	cursor string // after as it was sent; empty when it was not
	limit  int
	wait   time.Duration
}

// ask authenticates a GET and reads its query, which may have the given parameters.
func (h *handler) ask(r *http.Request, params ...string) (query, proof, *problem) {
	who, p := h.authenticate(r.Header, func() ([]byte, *problem) { return nil, nil })
	if p != nil {
		return query{}, who, p
	}
	if hasBody(r) { // a signature would not cover it
		return query{}, who, refuse(http.StatusBadRequest, "a %s has no body here", r.Method)
	}
	q, err := h.parseQuery(r.URL.RawQuery, params)
	if err != nil {
		return query{}, who, refuse(http.StatusBadRequest, "%v", err)
	}
	return q, who, nil
}

func (h *handler) parseQuery(raw string, params []string) (query, error) {
	values, err := parameters(raw, params)
	if err != nil {
		return query{}, err
	}
	q := query{key: h.key(values.Get("chatId"))}
	if err := q.key.Validate(); err != nil {
		return query{}, err
	}
	if values.Has("after") {
		beginning := "0" // is what an empty one means
		if q, err = q.from("after", cmp.Or(values.Get("after"), beginning)); err != nil {
			return query{}, err
		}
	}
	limit, err := number(values, "limit", 1, maxLimit, defaultLimit)
	if err != nil {
		return query{}, err
	}
	wait, err := number(values, "wait", 0, maxWait, 0)
	q.limit, q.wait = limit, time.Duration(wait)*time.Second
	return q, err
}

// parameters reads a query that may have each of the given parameters once. A parameter of another name is refused: its
// sender takes it for something that Corebot does.
func parameters(raw string, params []string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("the query is malformed: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case len(params) == 0:
			return nil, fmt.Errorf("this address takes no query parameters: leave out %.40q", name)
		case !slices.Contains(params, name):
			return nil, fmt.Errorf("there is no query parameter %.40q here, only %s", name, strings.Join(params, ", "))
		case len(values[name]) > 1:
			return nil, fmt.Errorf("%s stands there twice", name)
		}
	}
	return values, nil
}

// from sets the place to read from; name is where it was given.
func (q query) from(name, cursor string) (query, error) {
	n, err := strconv.ParseUint(cursor, 10, 63)
	if err != nil {
		return q, fmt.Errorf("%s is not a cursor: send what an earlier answer gave, or leave it out", name)
	}
	q.after, q.cursor = int64(n), cursor
	return q, nil
}

func number(values url.Values, name string, least, most, missing int) (int, error) {
	if !values.Has(name) {
		return missing, nil
	}
	n, err := strconv.Atoi(values.Get(name))
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s must be a whole number from %d to %d", name, least, most)
	}
	return n, nil
}
