package storage

import (
	"context"
	"encoding/json"
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
	row, err := encodeStep(s)
	if err != nil {
		return err
	}
	return l.db.write(ctx, "step."+string(s.Kind)+"."+string(s.State), func(t *tx) error {
		if err := holdsTx(t, d.Lease); err != nil {
			return err
		}
		if err := recordStepTx(t, d.Life, d.Run, row); err != nil {
			return err
		}
		return auditTx(t, events)
	})
}

// Commit ends a turn: outcome, history, replies and usage, all of it or nothing (guarantee G4). Replies whose ids were
// enqueued before collapse. Replies are not held to the limits of the queue: a turn that was paid for is not thrown away.
func (l *Ledger) Commit(ctx context.Context, d corebot.Delivery, r corebot.Result) error {
	replies, err := pack(r.Replies)
	if err != nil {
		return err
	}
	for i := range replies {
		replies[i].cause = d.Life
	}
	history, err := encodeHistory(r.History)
	if err != nil {
		return err
	}
	return l.db.write(ctx, "turn", func(t *tx) error {
		if err := settleUsageTx(t, &d, r.Outcome, r.Usage); err != nil {
			return err
		}
		if err := appendHistoryTx(t, d, history, r.NewSession); err != nil {
			return err
		}
		for i := range replies {
			receipt, err := publishTx(t, &replies[i], corebot.Limits{})
			if err != nil {
				return err
			}
			if receipt.Err != nil {
				return fmt.Errorf("reply %s: %w", replies[i].ID, receipt.Err)
			}
		}
		return nil
	})
}

// Stopped says what a /stop met.
type Stopped struct {
	Duplicate bool // this /stop was accepted before
	Found     bool // there was a message to stop
	MessageID string
}

var (
	selectHead = &query{`SELECT q.life_id, q.seq, m.message_id FROM message_queue q JOIN message_life m ON m.id = q.life_id
		WHERE q.lane_id = ? ORDER BY q.seq LIMIT 1`}
	stopLane = &query{`UPDATE lanes SET stop_seq = ?, wake_at = CASE WHEN leased = 1 THEN wake_at ELSE ? END WHERE id = ?`}
	endNow   = &query{`UPDATE message_life SET "end" = ?, claimed_at = ?, ended_at = ? WHERE id = ?`}
)

// Stop accepts a /stop: it marks the head of the chat's lane, wherever that is in its life, and enqueues the notices, all
// in one commit. A head that runs learns it from its worker's side; any other is claimed at once and ended.
// Only the message with the life headLife is stopped: if the lane went on meanwhile, nothing is.
func (l *Ledger) Stop(ctx context.Context, m corebot.Message, headLife int64, notice func(found bool) corebot.Message) (s Stopped, err error) {
	control, err := pack([]corebot.Message{m})
	if err != nil {
		return s, err
	}
	answers, err := pack([]corebot.Message{notice(false), notice(true)})
	if err != nil {
		return s, err
	}
	err = l.db.write(ctx, "stop", func(t *tx) error {
		s = Stopped{}
		lane, err := laneTx(t, corebot.Control, m.Key)
		if err != nil {
			return err
		}
		c := &control[0]
		life, err := t.insert(insertLife, lane.id, m.ID, string(m.Kind), c.checksum[:], m.Sender.ID, nil, t.now)
		if err != nil {
			return err
		}
		if life == 0 {
			r, _, err := duplicateTx(t, c, lane)
			s.Duplicate = true
			if err == nil {
				err = r.Err
			}
			return err
		}
		if _, err := t.exec(endNow, string(corebot.EndApplied), t.now, t.now, life); err != nil {
			return err
		}
		if s.Found, s.MessageID, err = stopHeadTx(t, m.Key, headLife); err != nil {
			return err
		}
		answer := &answers[0]
		if s.Found {
			answer = &answers[1]
		}
		answer.cause = life
		_, err = publishTx(t, answer, corebot.Limits{})
		return err
	})
	return s, err
}

func stopHeadTx(t *tx, k corebot.Key, headLife int64) (bool, string, error) {
	lane, err := laneTx(t, corebot.Inbound, k)
	if err != nil {
		return false, "", err
	}
	var life, seq int64
	var id string
	found, err := t.one(selectHead, []any{&life, &seq, &id}, lane.id)
	if err != nil || !found || life != headLife {
		return false, "", err
	}
	if _, err := t.exec(stopLane, seq, t.now, lane.id); err != nil {
		return false, "", err
	}
	t.wake(corebot.InboundPool, t.now.UnixMilli())
	return true, id, nil
}

var headOf = &query{`SELECT m.id, m.message_id, m.sender FROM lanes l
	JOIN message_queue q ON q.lane_id = l.id JOIN message_life m ON m.id = q.life_id
	WHERE l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ? ORDER BY q.seq LIMIT 1`}

// Head is the message that a chat works on or waits for: its life, id and sender. A life of 0 means that there is none.
func (l *Ledger) Head(ctx context.Context, k corebot.Key) (life int64, id string, sender corebot.Principal, err error) {
	sender = corebot.Principal{Channel: k.Channel, Account: k.Account}
	_, err = l.db.reader.one(ctx, headOf, []any{&life, &id, &sender.ID}, int64(corebot.Inbound), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return life, id, sender, err
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
	case corebot.StepModel:
		result = s.Answer
	case corebot.StepTool:
		request, result = s.Call, s.Result
	case corebot.StepPart:
	default:
		return row, fmt.Errorf("record a step: no such kind: %q", s.Kind)
	}
	if row.request, err = encode(request); err != nil {
		return row, err
	}
	row.result, err = encode(result)
	return row, err
}

// encode stores a value as JSON; a nil pointer is an empty string.
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
	recordStep = &query{`INSERT INTO execution_steps (life_id, run, position, kind, state, request, result, started_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (life_id, run, position) DO UPDATE SET state = excluded.state, result = excluded.result, ended_at = excluded.ended_at`}
	selectSteps = &query{`SELECT position, kind, state, request, result, started_at, ended_at FROM execution_steps
		WHERE life_id = ? AND run = ? ORDER BY position`}
)

func recordStepTx(t *tx, life int64, run int, s stepRow) error {
	_, err := t.exec(recordStep, life, run, s.Position, string(s.Kind), string(s.State), s.request, s.result, s.StartedAt, s.EndedAt)
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
	if err := s.Scan(&step.Position, &kind, &state, &request, &result, moment{&step.StartedAt}, moment{&step.EndedAt}); err != nil {
		return step, err
	}
	step.Kind, step.State = corebot.StepKind(kind), corebot.StepState(state)
	switch step.Kind {
	case corebot.StepModel:
		err = decode(result, &step.Answer)
	case corebot.StepTool:
		if err = decode(request, &step.Call); err == nil {
			err = decode(result, &step.Result)
		}
	}
	return step, err
}

// decode reads what encode wrote; an empty string leaves the pointer nil.
func decode[T any](s string, to **T) error {
	if s == "" {
		return nil
	}
	*to = new(T)
	if err := json.Unmarshal([]byte(s), *to); err != nil {
		return fmt.Errorf("a stored step is damaged: %w", err)
	}
	return nil
}
