package storage

import (
	"context"
	"errors"

	"github.com/corebot/corebot"
)

// Apply makes a change of Corebot's own data and records the step that asked for it, with its audit event, in one commit: a crash
// leaves both or neither. A change that a rule of the data forbids is a [*corebot.Refused] error, and then nothing is written. One that the
// caller may not make is a [*corebot.Denied] error: then the step and the event say so, and are written. The event's principal is who makes
// the change.
func (l *Ledger) Apply(ctx context.Context, d corebot.Delivery, s corebot.Step, effect corebot.Effect, event corebot.AuditEvent) error {
	var denied *corebot.Denied
	err := l.db.write(ctx, "step."+string(s.Kind)+".applied", func(t *tx) (err error) {
		if err := holdsTx(t, d.Lease); err != nil {
			return err
		}
		step, event := s, event
		if denied, err = l.effectTx(t, d, s.Position, effect, &event); err != nil {
			return err
		}
		if denied != nil {
			result := denied.Result()
			step.Result, event.Outcome, event.Rule = &result, result.Outcome, denied.Rule
		}
		row, err := encodeStep(step)
		if err != nil {
			return err
		}
		if err := recordStepTx(t, d.Life, d.Run, row); err != nil {
			return err
		}
		return auditTx(t, []corebot.AuditEvent{event})
	})
	if err == nil && denied != nil {
		return denied
	}
	return err
}

// effectTx carries an effect out, on behalf of the event's principal. Its rules are checked before anything is written but the count of an
// attempt.
func (l *Ledger) effectTx(t *tx, d corebot.Delivery, position int, effect corebot.Effect, event *corebot.AuditEvent) (*corebot.Denied, error) {
	if effect.Bootstrap != (corebot.KeyHash{}) {
		decision, err := l.bootstrapTx(t, effect.Bootstrap, *event)
		if err != nil {
			return nil, err
		}
		if !decision.Allow {
			return &corebot.Denied{Rule: decision.Rule, Reason: decision.Reason}, nil
		}
		event.Rule = decision.Rule
	}
	if effect.Grant != (corebot.Grant{}) {
		if err := NewGrants(l.db).As(*event).grantTx(t, effect.Grant); err != nil {
			return denial(err)
		}
	}
	if effect.Register != (corebot.Key{}) {
		if err := NewChats(l.db).As(*event).registerTx(t, effect.Register, true, ""); err != nil {
			return nil, err
		}
	}
	if effect.Post != (corebot.Post{}) {
		if err := l.postTx(t, d, position, effect.Post); err != nil {
			return nil, err
		}
	}
	if effect.Replay != 0 {
		err := NewDeadLetters(l.db).As(*event).replayTx(t, effect.Replay, false)
		if errors.Is(err, corebot.ErrNotFound) || noRoom(err) {
			err = &corebot.Refused{Err: err}
		}
		return nil, err
	}
	return nil, nil
}

// denial makes a rule about roles that an effect broke the end of its call, and anything else that is wrong with a grant a refusal.
func denial(err error) (*corebot.Denied, error) {
	switch {
	case errors.Is(err, ErrLastAdmin):
		return &corebot.Denied{Rule: "last-admin", Reason: "this is the last admin"}, nil
	case errors.Is(err, ErrOutranked):
		return &corebot.Denied{Rule: "outranked", Reason: "only an admin everywhere may change the role of another"}, nil
	case errors.Is(err, corebot.ErrInvalid):
		return nil, &corebot.Refused{Err: err}
	}
	return nil, err
}
