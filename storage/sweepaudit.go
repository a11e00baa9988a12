package storage

import (
	"context"
	"encoding/hex"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

var (
	oldestAudit = &query{`SELECT id, at, hash FROM audit_events ORDER BY id LIMIT ? + 0`}
	cutAudit    = &query{`DELETE FROM audit_events WHERE id <= ?`}
	movePast    = &query{`UPDATE audit_chain SET past = ?, hash = ? WHERE id = 1 AND past < ?`}
)

// sweepAudit cuts the trail at its old end: up to the last old event before the first young one. What is behind a young event waits for it, so that
// the chain has one beginning; what a wrong clock has dated into the future goes with what is around it.
func (r *Retention) sweepAudit(ctx context.Context, before time.Time) error {
	for more := true; more; {
		err := r.drop(ctx, "audit_events", func(t *tx) (int64, error) {
			past, rows, err := oldestTx(t, before)
			if err != nil || past.id == 0 {
				more = false
				return 0, err
			}
			more = rows == sweepRows
			if _, err := t.exec(movePast, past.id, past.hash, past.id); err != nil {
				return 0, err
			}
			return t.exec(cutAudit, past.id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tellHead logs the head of the trail when it has gone on: a log that is kept elsewhere is a witness.
func (r *Retention) tellHead(ctx context.Context) error {
	var head link
	_, err := r.db.reader.one(ctx, newestAudit, []any{&head.id, &head.hash})
	if err == nil && head.id > r.told && len(head.hash) > 0 {
		r.told = head.id
		r.opts.Log.Info().Stringer("head", corebot.AuditHead{Event: head.id, Hash: hex.EncodeToString(head.hash)}).Msg("the audit trail goes on")
	}
	return err
}

// oldestTx looks at the oldest events and finds the last that may go; rows is how many it saw.
func oldestTx(t *tx, before time.Time) (past link, rows int, err error) {
	young := false
	err = t.each(oldestAudit, func(s scanner) error {
		var l link
		var at time.Time
		if err := s.Scan(&l.id, moment{&at}, &l.hash); err != nil {
			return err
		}
		rows++
		young = young || !at.Before(before) && !at.After(t.now)
		if !young && at.Before(before) {
			past = link{l.id, slices.Clone(l.hash)}
		}
		return nil
	}, sweepRows)
	return past, rows, err
}
