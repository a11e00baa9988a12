package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
)

// Ledger keeps executions: the journal of a run while it goes on, and its end in one commit.
type Ledger struct{ db *DB }

// NewLedger is the ledger of a database.
func NewLedger(db *DB) *Ledger { return &Ledger{db} }

// Record writes one step of a run, and the audit events that belong to it, in one commit. Recording a position again
// advances it. A worker that lost its lease gets [corebot.ErrLeaseLost] and changes nothing.
func (l *Ledger) Record(ctx context.Context, d corebot.Delivery, s corebot.Step, events ...corebot.AuditEvent) error {
	return l.step(ctx, d, s, func(t *tx) error {
		if err := madeTx(t, d, s); err != nil {
			return err
		}
		return auditTx(t, events)
	})
}

// step writes one step of a run, what its answer cost, and what more adds, in one commit.
func (l *Ledger) step(ctx context.Context, d corebot.Delivery, s corebot.Step, more func(*tx) error) error {
	row, err := encodeStep(s)
	if err != nil {
		return err
	}
	return l.db.write(ctx, "step."+string(s.Kind)+"."+string(s.State), func(t *tx) error {
		if err := holdsTx(t, d.Lease); err != nil {
			return err
		}
		if err := l.bookStepTx(t, &d, s); err != nil {
			return err
		}
		if err := recordStepTx(t, d.Life, d.Run, row); err != nil {
			return err
		}
		return more(t)
	})
}

// Commit ends a turn: outcome, history, replies, a refusal's audit event and what it spent, all of it or nothing (guarantee G4). Replies whose ids were
// enqueued before collapse. Replies are not held to the limits of the queue: a turn that was paid for is not thrown away.
// Of the notices of parked messages only the first with an id is enqueued, whatever the others say. A lane that has no place for one more
// parked message is [corebot.ErrLaneFull], and nothing has changed.
func (l *Ledger) Commit(ctx context.Context, d corebot.Delivery, r corebot.Result) error {
	replies := pack(r.Replies)
	for i := range replies {
		replies[i].cause = d.Life
	}
	history, err := encodeHistory(r.History)
	if err != nil {
		return err
	}
	return l.db.write(ctx, "turn", func(t *tx) error {
		if err := l.settleTurnTx(t, &d, r); err != nil {
			return err
		}
		if err := appendHistoryTx(t, d, history, r); err != nil {
			return err
		}
		if err := deniedTx(t, r.Denied); err != nil {
			return err
		}
		for i := range replies {
			receipt, err := publishTx(t, &replies[i], corebot.Limits{})
			if err != nil {
				return err
			}
			if errors.Is(receipt.Err, corebot.ErrConflict) && r.Outcome.Verb == corebot.Park {
				continue // the chat was told in answer to an earlier message
			}
			if receipt.Err != nil {
				return fmt.Errorf("reply %s: %w", replies[i].ID, receipt.Err)
			}
		}
		return nil
	})
}
