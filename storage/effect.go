package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
)

// Apply makes a change of Corebot's own data and records the step that asked for it, with its audit event, in one commit.
// A crash leaves both or neither. A change that a rule of the data forbids is a [*corebot.Refused] error, and then nothing
// is written. A change that the caller may not make is a [*corebot.Denied] error: the step and the event say so, and are
// written. The event's principal makes the change.
func (l *Ledger) Apply(ctx context.Context, d corebot.Delivery, s corebot.Step, effect corebot.Effect, event corebot.AuditEvent) error {
	var denied *corebot.Denied
	err := l.db.write(ctx, "step."+string(s.Kind)+".applied", func(t *tx) (err error) {
		if err := holdsTx(t, d.Lease); err != nil {
			return err
		}
		step, asks := s, asking{d, s.Position, event}
		if denied, err = l.db.applyTx(t, &asks, effect); err != nil {
			return err
		}
		if denied != nil {
			result := denied.Result()
			step.Result = &result
		}
		row, err := encodeStep(step)
		if err != nil {
			return err
		}
		if err := recordStepTx(t, d.Life, d.Run, row); err != nil {
			return err
		}
		if err := madeTx(t, d, step); err != nil {
			return err
		}
		return auditTx(t, []corebot.AuditEvent{asks.event})
	})
	if err == nil && denied != nil {
		return denied
	}
	return err
}

// asking is the tool call that asks for an effect.
type asking struct {
	turn     corebot.Delivery   // zero: the call is made outside of a turn
	position int                // of the call's step
	event    corebot.AuditEvent // of the call's end; its principal makes the change
}

// applyTx makes the effect that a call asks for. A denial fails no transaction: it is how the call ended, and the call's
// event says so.
func (db *DB) applyTx(t *tx, asks *asking, effect corebot.Effect) (*corebot.Denied, error) {
	err := db.effectTx(t, asks, effect)
	if denied := (*corebot.Denied)(nil); errors.As(err, &denied) {
		asks.event.Outcome, asks.event.Rule = corebot.OutcomeDenied, denied.Rule
		return denied, nil
	}
	return nil, err
}

// errNoHandler marks an effect that no aggregate handles: TestEveryEffectHasAHandler fails before a turn can meet it.
var errNoHandler = errors.New("no aggregate of the database handles the effect")

// effectTx hands an effect to its aggregate. A handler checks its rules before it writes: on an error all is as it was. A
// [*corebot.Denied] is the exception: what its handler has written, such as the count of an attempt, is committed.
func (db *DB) effectTx(t *tx, asks *asking, effect corebot.Effect) error {
	switch e := effect.(type) {
	case corebot.ReplayDeadLetter:
		return NewDeadLetters(db).As(asks.event).replayEffectTx(t, e)
	case corebot.SendMessage:
		return db.sendTx(t, asks, e)
	case corebot.RegisterChat:
		return NewChats(db).As(asks.event).registerEffectTx(t, e)
	case corebot.GrantRole:
		return NewGrants(db).As(asks.event).grantEffectTx(t, e)
	case corebot.BecomeFirstAdmin:
		return db.firstAdminTx(t, asks, e)
	}
	return fmt.Errorf("%w %T", errNoHandler, effect)
}
