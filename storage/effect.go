package storage

import (
	"context"
	"errors"

	"github.com/corebot/corebot"
)

// Apply makes a change of Corebot's own data and records the step that asked for it, with its audit event, in one commit: a crash
// leaves both or neither. A change that a rule forbids is a [*corebot.Refused] error, and then nothing is written. The event's
// principal is who makes the change.
func (l *Ledger) Apply(ctx context.Context, d corebot.Delivery, s corebot.Step, effect corebot.Effect, event corebot.AuditEvent) error {
	row, err := encodeStep(s)
	if err != nil {
		return err
	}
	return l.db.write(ctx, "step."+string(s.Kind)+".applied", func(t *tx) error {
		if err := holdsTx(t, d.Lease); err != nil {
			return err
		}
		if err := l.effectTx(t, effect, event); err != nil {
			return err
		}
		if err := recordStepTx(t, d.Life, d.Run, row); err != nil {
			return err
		}
		return auditTx(t, []corebot.AuditEvent{event})
	})
}

// effectTx carries an effect out. Its rules are checked before anything is written.
func (l *Ledger) effectTx(t *tx, effect corebot.Effect, event corebot.AuditEvent) error {
	if effect.Replay == 0 {
		return nil
	}
	err := NewDeadLetters(l.db).As(event).replayTx(t, effect.Replay, false)
	if errors.Is(err, corebot.ErrNotFound) || noRoom(err) {
		return &corebot.Refused{Err: err}
	}
	return err
}
