package webhook

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/corebot/corebot"
)

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

// ask authenticates a GET and reads its query.
func (h *handler) ask(r *http.Request) (query, proof, *problem) {
	who, p := h.authenticate(r.Header, func() ([]byte, *problem) { return nil, nil })
	if p != nil {
		return query{}, who, p
	}
	if hasBody(r) { // a signature would not cover it
		return query{}, who, refuse(http.StatusBadRequest, "a GET has no body here")
	}
	q, err := h.parseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, who, refuse(http.StatusBadRequest, "%v", err)
	}
	return q, who, nil
}

func (h *handler) parseQuery(raw string) (query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, fmt.Errorf("the query is malformed: %w", err)
	}
	for _, name := range []string{"chatId", "after", "limit", "wait"} {
		if len(values[name]) > 1 {
			return query{}, fmt.Errorf("%s stands there twice", name)
		}
	}
	q := query{key: h.key(values.Get("chatId"))}
	if err := q.key.Validate(); err != nil {
		return query{}, err
	}
	if values.Has("after") {
		if q, err = q.from("after", values.Get("after")); err != nil {
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
