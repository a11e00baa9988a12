package storage

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/storage/engine"
)

// reader is a pool of query-only connections. They are opened on demand, up to a number, and stay open.
type reader struct {
	path  string
	slots chan struct{} // one for each query that can run at once
	mu    sync.Mutex
	idle  []*prepared // the connection that was used last comes first: its cache has the pages
	over  bool
}

// openReader opens the first connection at once, so that an unreadable file is found at once.
func openReader(path string, conns int) (*reader, error) {
	r := &reader{path: path, slots: make(chan struct{}, conns)}
	c, err := r.open()
	if err != nil {
		return nil, classify(err)
	}
	r.idle = append(r.idle, c)
	return r, nil
}

var readPragmas = append(slices.Clone(pragmas), "query_only(on)", "cache_size(-2048)")

func (r *reader) open() (*prepared, error) {
	c, err := engine.Open(fileURI(r.path, nil), readPragmas)
	if err != nil {
		return nil, err
	}
	return newPrepared(c), nil
}

// each calls fn for every row. ctx counts until a connection is free; the reads here are short.
func (r *reader) each(ctx context.Context, q *query, fn func(scanner) error, args ...any) error {
	return r.use(ctx, func(c *prepared) error { return c.each(q, fn, args...) })
}

// whole is each for a read that takes long: the read ends when ctx ends.
func (r *reader) whole(ctx context.Context, q *query, fn func(scanner) error, args ...any) error {
	err := r.use(ctx, func(c *prepared) error {
		defer c.db.InterruptWhen(ctx)()
		return c.each(q, fn, args...)
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

var (
	beginRead = &query{`BEGIN`}
	endRead   = &query{`COMMIT`}
)

// view lets fn read the database as of one moment. One view costs less than several reads, because a separate read
// begins with an empty cache after any commit. The callback fn must only read, and must wait for nobody: the
// write-ahead log cannot be cut meanwhile.
func (r *reader) view(ctx context.Context, fn func(*prepared) error) error {
	return r.use(ctx, func(c *prepared) (err error) {
		if _, err := c.exec(beginRead); err != nil {
			return err
		}
		defer func() {
			if _, e := c.exec(endRead); err == nil {
				err = e
			}
		}()
		return fn(c)
	})
}

// use lends fn a connection.
func (r *reader) use(ctx context.Context, fn func(*prepared) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r.slots }()
	c, err := r.take()
	if err != nil {
		return classify(err)
	}
	if err = fn(c); isDamage(err) {
		_ = c.Close() // its cache can hold damaged pages; the next connection reads the file
		return classify(err)
	}
	r.put(c)
	return classify(err)
}

// one scans the first row; ok is false if there is none.
func (r *reader) one(ctx context.Context, q *query, dest []any, args ...any) (ok bool, err error) {
	err = r.each(ctx, q, func(s scanner) error {
		ok = true
		return s.Scan(dest...)
	}, args...)
	return ok, err
}

func (r *reader) take() (*prepared, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, corebot.ErrClosed
	}
	if n := len(r.idle); n > 0 {
		c := r.idle[n-1]
		r.idle = r.idle[:n-1]
		return c, nil
	}
	return r.open()
}

func (r *reader) put(c *prepared) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || c.db.InTransaction() { // a transaction that could not be ended would show the same moment for ever
		_ = c.Close() // the answer has been read
		return
	}
	r.idle = append(r.idle, c)
}

// Close closes the connections. A connection in use is closed when its query ends.
func (r *reader) Close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	var errs []error
	for _, c := range r.idle {
		errs = append(errs, c.Close())
	}
	r.idle = nil
	return errors.Join(errs...)
}

// cursor spells the place of a row in a list: the fields that the list is ordered by.
func cursor(list string, place ...any) string {
	raw, _ := json.Marshal(append([]any{list}, place...)) // of strings and numbers: cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

// behind reads the place that a cursor of a list spells. An empty cursor leaves the place as it is: the beginning. A
// cursor that the list never gave is [corebot.ErrInvalid].
func behind(after, list string, place ...any) error {
	if after == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(after)
	var fields []json.RawMessage
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	var of string
	into := append([]any{&of}, place...)
	if err != nil || len(fields) != len(into) {
		return badCursor(after)
	}
	for i, field := range fields {
		if json.Unmarshal(field, into[i]) != nil {
			return badCursor(after)
		}
	}
	if of != list {
		return badCursor(after)
	}
	return nil
}

func badCursor(after string) error {
	return fmt.Errorf("%w: %q is no cursor of this list: send what an earlier page gave, or leave it out",
		corebot.ErrInvalid, runes.Head(after, 100))
}

// nextPage is the cursor behind the last row of a page. A page that is not full has none: nothing is left.
func nextPage[T any](found []T, limit int, at func(T) string) string {
	if len(found) < limit || len(found) == 0 {
		return ""
	}
	return at(found[len(found)-1])
}
