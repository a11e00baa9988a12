package storage

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
)

// reader is the pool of query-only connections.
type reader struct {
	db   *sql.DB
	stmt sync.Map // *query → *sql.Stmt
}

func openReader(path string, conns int) (*reader, error) {
	db, err := sql.Open("sqlite", dsn(path, pragmas+"&_pragma=query_only(on)&_pragma=cache_size(-2048)"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return &reader{db: db}, nil
}

// each calls fn for every row. The reads here are short, so ctx is looked at once, not given to the driver: a context that
// can be cancelled would double their cost.
func (r *reader) each(ctx context.Context, q *query, fn func(scanner) error, args ...any) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	s, err := r.prepare(q)
	if err != nil {
		return classify(err)
	}
	params := make([]any, len(args))
	for i, a := range args {
		v, err := value(a)
		if err != nil {
			return err
		}
		params[i] = v
	}
	rows, err := s.Query(params...)
	if err != nil {
		return classify(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err has the error
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return classify(rows.Err())
}

// one scans the first row; ok is false when there is none.
func (r *reader) one(ctx context.Context, q *query, dest []any, args ...any) (ok bool, err error) {
	err = r.each(ctx, q, func(s scanner) error {
		ok = true
		return s.Scan(dest...)
	}, args...)
	return ok, err
}

func (r *reader) prepare(q *query) (*sql.Stmt, error) {
	if s, ok := r.stmt.Load(q); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := r.db.Prepare(q.sql)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", q.sql, err)
	}
	if first, loaded := r.stmt.LoadOrStore(q, s); loaded {
		return first.(*sql.Stmt), s.Close()
	}
	return s, nil
}

// Close closes the connections and their statements.
func (r *reader) Close() error {
	if r == nil {
		return nil
	}
	return r.db.Close()
}
