package storage

import (
	"cmp"
	"context"
	"fmt"

	"github.com/corebot/corebot"
)

// DeadLetters keeps the messages that were given up. They are never dropped silently.
type DeadLetters struct{ db *DB }

// NewDeadLetters are the dead letters of a database.
func NewDeadLetters(db *DB) *DeadLetters { return &DeadLetters{db} }

const deadWhere = ` FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE m."end" = 'dead'
	AND ? IN (0, l.direction) AND ? IN ('', l.channel) AND ? IN ('', l.chat) AND ? IN ('', m.reason) AND (? = 0 OR m.ended_at < ?)
	ORDER BY m.ended_at DESC, m.id DESC LIMIT ? + 0`

var (
	listDead = &query{`SELECT m.id, l.direction, l.agent, l.channel, l.account, l.chat, l.thread, m.message_id, m.reason, m.attempts, m.last_error,
		m.published_at, m.ended_at` + deadWhere}
	deadIDs    = &query{`SELECT m.id` + deadWhere}
	selectDead = &query{`SELECT l.id, l.direction, l.agent, l.channel, l.account, l.chat, l.thread, l.next_seq, l.wake_at, m.run, m.kind, m.checksum, m.body
		FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE m.id = ? AND m."end" = 'dead'`}
	reviveLife = &query{`UPDATE message_life SET "end" = '', reason = '', ended_at = 0, attempts = 0, run = run + 1, body = NULL WHERE id = ?`}
	dropLife   = &query{`UPDATE message_life SET "end" = 'dropped', reason = ?, ended_at = ?, body = NULL WHERE id = ? AND "end" = 'dead'`}
	// Moving the steps to the next run is what "resuming the journal" means; a fresh start leaves them behind.
	moveSteps = &query{`UPDATE execution_steps SET run = run + 1 WHERE life_id = ? AND run = ?`}
)

// conditions are the parameters of deadWhere.
func conditions(f corebot.DeadLetterFilter) []any {
	limit := f.Limit
	if limit <= 0 {
		limit = -1 // SQLite: no limit
	}
	return []any{int64(f.Direction), f.Channel, f.Chat, f.Reason, f.Before, f.Before, limit}
}

// List gives dead letters, newest first.
func (l *DeadLetters) List(ctx context.Context, f corebot.DeadLetterFilter) ([]corebot.DeadLetter, error) {
	var out []corebot.DeadLetter
	err := l.db.reader.each(ctx, listDead, func(s scanner) error {
		var dl corebot.DeadLetter
		var direction int
		k := &dl.Key
		err := s.Scan(&dl.ID, &direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &dl.MessageID, &dl.Reason, &dl.Attempts,
			&dl.LastError, moment{&dl.CreatedAt}, moment{&dl.DeadAt})
		dl.Direction = corebot.Direction(direction)
		out = append(out, dl)
		return err
	}, conditions(f)...)
	return out, err
}

// letter is a dead letter as a change of it needs it.
type letter struct {
	lane           lane
	key            corebot.Key
	direction, run int
	kind           string
	checksum, body []byte
}

func letterTx(t *tx, id int64) (d letter, err error) {
	k := &d.key
	found, err := t.one(selectDead, []any{
		&d.lane.id, &d.direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread,
		&d.lane.nextSeq, &d.lane.wakeAt, &d.run, &d.kind, &d.checksum, &d.body,
	}, id)
	if err == nil && !found {
		err = fmt.Errorf("dead letter %d: %w", id, corebot.ErrNotFound)
	}
	return d, err
}

// Replay puts a dead letter back at the tail of its lane: the same id, its next run, with attempts reset. It resumes its
// journal unless fresh is set. Replaying twice, or at once from two places, delivers it once: the second gets
// [corebot.ErrNotFound].
func (l *DeadLetters) Replay(ctx context.Context, id int64, fresh bool) error {
	return l.db.write(ctx, "replay", func(t *tx) error {
		d, err := letterTx(t, id)
		if err != nil {
			return err
		}
		if _, err := t.exec(reviveLife, id); err != nil {
			return err
		}
		if !fresh {
			if _, err := t.exec(moveSteps, id, d.run); err != nil {
				return err
			}
		}
		return pushTx(t, corebot.Direction(d.direction), d.key, d.lane, id, d.body)
	})
}

// Edit replays a dead letter with another text: as a new message with an id of its own, caused by the old one, which ends as
// dropped. Its sender stays the same. An id that is taken is [corebot.ErrConflict].
func (l *DeadLetters) Edit(ctx context.Context, id int64, newID, text string) error {
	return l.db.write(ctx, "edit", func(t *tx) error {
		d, err := letterTx(t, id)
		if err != nil {
			return err
		}
		m, err := unpack(d.body, corebot.Direction(d.direction), d.key, corebot.Kind(d.kind), d.checksum)
		if err != nil {
			return err
		}
		m.ID, m.Parts = newID, corebot.TextPart(text)
		if err := m.Validate(0); err != nil {
			return err
		}
		p, err := pack([]corebot.Message{m})
		if err != nil {
			return err
		}
		p[0].cause = id
		if r, err := publishTx(t, &p[0], corebot.Limits{}); err != nil || r.Err != nil || r.Duplicate {
			return cmp.Or(err, r.Err, error(corebot.ErrConflict))
		}
		_, err = t.exec(dropLife, "edited", t.now, id)
		return err
	})
}

// Drop gives up a dead letter for good: its content goes, its life stays until retention takes it.
func (l *DeadLetters) Drop(ctx context.Context, id int64) error {
	return l.db.write(ctx, "drop", func(t *tx) error {
		n, err := t.exec(dropLife, "dropped", t.now, id)
		if err == nil && n == 0 {
			err = fmt.Errorf("dead letter %d: %w", id, corebot.ErrNotFound)
		}
		return err
	})
}

// Purge drops every dead letter that the filter means, in one transaction, and says how many there were. A dry run only
// counts them.
func (l *DeadLetters) Purge(ctx context.Context, f corebot.DeadLetterFilter, dryRun bool) (n int, err error) {
	err = l.db.write(ctx, "purge", func(t *tx) error {
		var ids []int64
		err := t.each(deadIDs, func(s scanner) error {
			var id int64
			err := s.Scan(&id)
			ids = append(ids, id)
			return err
		}, conditions(f)...)
		if n = len(ids); err != nil || dryRun {
			return err
		}
		for _, id := range ids {
			if _, err := t.exec(dropLife, "purged", t.now, id); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}
