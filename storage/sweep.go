package storage

import (
	"context"
	"time"
)

// aged is a table whose ids are in the order of its times, but for a clock that was set back.
type aged struct {
	name string
	// page gives the rows behind an id, in the order of ids: the id, when the row was made, and whether it is over since before a moment.
	page *query // (before, after id, limit)
	drop *query // (first id, last id, before): what is over between two ids
}

var mailboxTable = aged{
	name: "mailbox",
	page: &query{`SELECT cursor, created_at, created_at < ? FROM mailbox WHERE cursor > ? ORDER BY cursor LIMIT ? + 0`},
	drop: &query{`DELETE FROM mailbox WHERE cursor BETWEEN ? AND ? AND created_at < ?`},
}

// sweepAged sweeps a table whose rows nothing refers to.
func (r *Retention) sweepAged(a aged) func(context.Context, time.Time) error {
	return func(ctx context.Context, before time.Time) error {
		return r.walk(ctx, a, before, func(p page) error {
			return r.drop(ctx, a.name, func(t *tx) (int64, error) { return t.exec(a.drop, p.first, p.last, before) })
		})
	}
}

// page is what a walk sees at once.
type page struct {
	rows        int
	first, last int64 // ids of the rows that are over, or of the last row at all
	over        int   // rows that are over
	young       bool  // some were made after the moment in question
	old         bool  // some were made before it
}

// walk goes along a table from its oldest row on and hands over each page that has something to take away. It ends at the first page where
// everything is young. Rows of the future say nothing: they were made under a wrong clock.
func (r *Retention) walk(ctx context.Context, a aged, before time.Time, each func(page) error) error {
	for cursor := int64(0); ; {
		p, next, err := r.look(ctx, a, before, cursor)
		if err != nil {
			return err
		}
		if p.over > 0 {
			if err := each(p); err != nil {
				return err
			}
		}
		if p.rows < sweepRows || p.young && !p.old {
			return nil
		}
		cursor = next
	}
}

// look reads the page behind an id.
func (r *Retention) look(ctx context.Context, a aged, before time.Time, after int64) (p page, last int64, err error) {
	now := r.db.clock.now()
	err = r.db.reader.each(ctx, a.page, func(s scanner) error {
		var id int64
		var at time.Time
		var over bool
		if err := s.Scan(&id, moment{&at}, &over); err != nil {
			return err
		}
		p.rows, last = p.rows+1, id
		p.old = p.old || at.Before(before)
		p.young = p.young || !at.Before(before) && !at.After(now)
		if over {
			if p.over++; p.over == 1 {
				p.first = id
			}
			p.last = id
		}
		return nil
	}, before, after, sweepRows)
	return p, last, err
}
