package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
)

// Ledger stores executions: the journal of a run while it goes on, and its end in one commit.
type Ledger struct{ db *DB }

// NewLedger is the ledger of a database.
func NewLedger(db *DB) *Ledger { return &Ledger{db} }

// Record writes one step of a run and its audit events in one commit. Recording a position again advances the step. A
// worker that lost its lease gets [corebot.ErrLeaseLost] and changes nothing.
func (l *Ledger) Record(ctx context.Context, d corebot.Delivery, s corebot.Step, events ...corebot.AuditEvent) error {
	return l.step(ctx, d, s, func(t *tx) error {
		if err := madeTx(t, d, s); err != nil {
			return err
		}
		return auditTx(t, events)
	})
}

// step writes one step of a run, the usage of its answer, and the additions of more, in one commit.
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
		if err := noteProgressTx(t, d, s); err != nil {
			return err
		}
		return more(t)
	})
}

// Commit ends a turn: outcome, history, replies, the audit event of a refusal, and usage, all or nothing (guarantee
// G4). Replies of pulled conversations are in the mailbox then: see [MailClients]. A reply whose id was enqueued before
// is a duplicate. The limits of the queue do not hold for replies, because
// their turn has already been paid for.
//
// Of several notices about deferred messages with one id, only the first is enqueued, whatever their texts say. If a
// lane has no room for another deferred message, the error is [corebot.ErrLaneFull], and nothing has changed.
func (l *Ledger) Commit(ctx context.Context, d corebot.Delivery, r corebot.Result) error {
	_, err := l.CommitAndClaim(ctx, d, r, corebot.Claim{})
	return err
}

// CommitAndClaim is Commit, and claims the lanes that are ready then in the same commit, behind the claims that wait.
// It waits for no lane. With an error nothing is claimed.
func (l *Ledger) CommitAndClaim(ctx context.Context, d corebot.Delivery, r corebot.Result,
	next corebot.Claim,
) ([]corebot.Delivery, error) {
	replies := pack(r.Replies)
	for i := range replies {
		replies[i].cause = d.Life
	}
	history, err := encodeHistory(r.History)
	if err != nil {
		return nil, err
	}
	return l.db.writeAndClaim(ctx, "turn", next, func(t *tx) error {
		if err := l.settleTurnTx(t, &d, r); err != nil {
			return err
		}
		if err := appendHistoryTx(t, d, history, r); err != nil {
			return err
		}
		if err := commandTx(t, r.Command); err != nil {
			return err
		}
		for i := range replies {
			if grouped, err := groupDeadTx(t, r, &replies[i]); err != nil || grouped {
				if err != nil {
					return err
				}
				continue
			}
			lim := corebot.Limits{}
			// to an agent: it counts as any message that waits, and is never refused
			if replies[i].Direction == corebot.Inbound {
				lim, replies[i].owed = l.db.limits, true
			}
			receipt, err := publishTx(t, &replies[i], lim)
			if err != nil {
				return err
			}
			if errors.Is(receipt.Err, corebot.ErrConflict) && r.Outcome.Verb == corebot.Defer {
				continue // the chat was told in answer to an earlier message
			}
			if receipt.Err != nil {
				return fmt.Errorf("reply %s: %w", replies[i].ID, receipt.Err)
			}
		}
		if r.Detached != 0 {
			return stillOpenTx(t, d, r.Detached)
		}
		return nil
	})
}

// stepRow is a step as it is stored: one request and one result, whatever its kind.
type stepRow struct {
	corebot.Step
	request, result string
}

func encodeStep(s corebot.Step) (row stepRow, err error) {
	row.Step = s
	var request, result any
	switch s.Kind {
	case corebot.StepModel, corebot.StepSummary, corebot.StepFacts, corebot.StepTranscript:
		result = s.Answer
	case corebot.StepTool:
		request, result = s.Call, s.Result
	case corebot.StepMerge:
		request = s.Merged
	case corebot.StepPart:
		request = s.Sent
	default:
		return row, fmt.Errorf("record a step: no such kind: %q", s.Kind)
	}
	if row.request, err = encode(request); err != nil {
		return row, err
	}
	row.result, err = encode(result)
	return row, err
}

// encode writes a value as JSON; a nil pointer becomes an empty string.
func encode[T any](v T) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	if string(b) == "null" {
		return "", nil
	}
	return string(b), nil
}

var (
	recordStep = &query{`INSERT INTO execution_steps (life_id, run, position, kind, state, request, result, started_at,
		ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (life_id, run, position) DO UPDATE
		SET state = excluded.state, result = excluded.result, ended_at = excluded.ended_at
		WHERE kind = excluded.kind AND request = excluded.request`}
	selectSteps = &query{`SELECT position, kind, state, request, result, started_at, ended_at FROM execution_steps
		WHERE life_id = ? AND run = ? ORDER BY position`}
)

// recordStepTx writes a step, or advances the step at its position. If another step stands there, the error is
// [corebot.ErrDiverged]: the resumed turn does not follow its journal, and one of the two steps would be lost.
func recordStepTx(t *tx, life int64, run int, s stepRow) error {
	n, err := t.exec(recordStep, life, run, s.Position, string(s.Kind), string(s.State), s.request, s.result,
		s.StartedAt, s.EndedAt)
	if err == nil && n == 0 {
		err = fmt.Errorf("record step %d (%s): %w", s.Position, s.Kind, corebot.ErrDiverged)
	}
	return err
}

func stepsTx(t *tx, life int64, run int) ([]corebot.Step, error) {
	var steps []corebot.Step
	err := t.each(selectSteps, func(s scanner) error {
		step, err := scanStep(s)
		steps = append(steps, step)
		return err
	}, life, run)
	return steps, err
}

func scanStep(s scanner) (step corebot.Step, err error) {
	var kind, state, request, result string
	if err := s.Scan(&step.Position, &kind, &state, &request, &result, moment{&step.StartedAt},
		moment{&step.EndedAt}); err != nil {
		return step, err
	}
	step.Kind, step.State = corebot.StepKind(kind), corebot.StepState(state)
	switch step.Kind {
	case corebot.StepModel, corebot.StepSummary, corebot.StepFacts, corebot.StepTranscript:
		err = decode(result, &step.Answer)
	case corebot.StepTool:
		if err = decode(request, &step.Call); err == nil {
			err = decode(result, &step.Result)
		}
	case corebot.StepMerge:
		err = decode(request, &step.Merged)
	case corebot.StepPart:
		err = decode(request, &step.Sent)
	}
	return step, err
}

// errStepDamaged says that a journal cannot be read. Its message can only become a dead letter, and must not hold up
// others.
var errStepDamaged = errors.New("a stored step is damaged")

// decode reads what encode wrote; an empty string leaves the pointer nil.
func decode[T any](s string, to **T) error {
	if s == "" {
		return nil
	}
	*to = new(T)
	if err := json.Unmarshal([]byte(s), *to); err != nil {
		return fmt.Errorf("%w: %v", errStepDamaged, err)
	}
	return nil
}

// Apply applies an effect on Corebot's own data and records the step that asked for it, with its audit event, in one
// commit. A crash leaves both or neither. If a rule of the data forbids the effect, the error is [*corebot.Refused],
// and nothing is written. If the caller may not have the effect, the error is [*corebot.Denied], and the denied step
// and its event are written. The event's principal makes the change.
func (l *Ledger) Apply(ctx context.Context, d corebot.Delivery, s corebot.Step, effect corebot.Effect,
	event corebot.AuditEvent,
) error {
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

// applyTx applies the effect of a call. A denial does not fail the transaction: it is how the call ended, and the
// call's event says so.
func (db *DB) applyTx(t *tx, asks *asking, effect corebot.Effect) (*corebot.Denied, error) {
	err := db.effectTx(t, asks, effect)
	if denied := (*corebot.Denied)(nil); errors.As(err, &denied) {
		asks.event.Outcome, asks.event.Rule = corebot.OutcomeDenied, denied.Rule
		return denied, nil
	}
	return nil, err
}

// errNoHandler marks an effect without a handler. TestEveryEffectHasAHandler fails before a turn can meet it.
var errNoHandler = errors.New("no aggregate of the database handles the effect")

// effectTx hands an effect to its aggregate. A handler checks its rules before it writes, so an error leaves everything
// unchanged. The exception is [*corebot.Denied]: what the handler has written, such as the count of an attempt, is
// committed.
func (db *DB) effectTx(t *tx, asks *asking, effect corebot.Effect) error {
	switch e := effect.(type) {
	case corebot.ReplayDeadLetter:
		return NewDeadLetters(db).As(asks.event).replayEffectTx(t, e)
	case corebot.SendMessage:
		return db.sendTx(t, asks, e)
	case corebot.AskAgent:
		return db.askAgentTx(t, asks, e)
	case corebot.RegisterChat:
		return NewChats(db).As(asks.event).registerEffectTx(t, e)
	case corebot.ChooseSkill:
		return NewChats(db).As(asks.event).chooseSkillTx(t, e)
	case corebot.GrantRole:
		return NewGrants(db).As(asks.event).grantEffectTx(t, e)
	case corebot.BecomeFirstAdmin:
		return db.firstAdminTx(t, asks, e)
	case corebot.ScheduleTask:
		return NewTasks(db).As(asks.event).scheduleEffectTx(t, e)
	case corebot.ChangeTask:
		return NewTasks(db).As(asks.event).changeEffectTx(t, e)
	case corebot.ForgetFacts:
		return forgetFactsTx(t, asks.event, e)
	}
	return fmt.Errorf("%w %T", errNoHandler, effect)
}
