package storage

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
)

// DeadLetters keeps the messages that were given up. They are never dropped silently.
type DeadLetters struct{ db *DB }

// NewDeadLetters are the dead letters of a database.
func NewDeadLetters(db *DB) *DeadLetters { return &DeadLetters{db} }

var (
	listDead = &query{`SELECT m.id, l.direction, l.agent, l.channel, l.account, l.chat, l.thread, m.message_id, m.reason, m.attempts, m.last_error,
		m.published_at, m.ended_at
		FROM message_life m JOIN lanes l ON l.id = m.lane_id
		WHERE m."end" = 'dead' AND (? = 0 OR l.direction = ?) ORDER BY m.ended_at DESC, m.id DESC LIMIT ? + 0`}
	selectDead = &query{`SELECT l.id, l.direction, l.agent, l.channel, l.account, l.chat, l.thread, l.next_seq, l.wake_at, m.run, m.body
		FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE m.id = ? AND m."end" = 'dead'`}
	reviveLife = &query{`UPDATE message_life SET "end" = '', reason = '', ended_at = 0, attempts = 0, run = run + 1, body = NULL WHERE id = ?`}
	// Moving the steps to the next run is what "resuming the journal" means; a fresh start leaves them behind.
	moveSteps = &query{`UPDATE execution_steps SET run = run + 1 WHERE life_id = ? AND run = ?`}
)

// List gives dead letters, newest first; a zero direction means all.
func (l *DeadLetters) List(ctx context.Context, d corebot.Direction, limit int) ([]corebot.DeadLetter, error) {
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
	}, int64(d), int64(d), limit)
	return out, err
}

// Replay puts a dead letter back at the tail of its lane: the same id, its next run, with attempts reset. It resumes its
// journal unless fresh is set. Replaying twice, or at once from two places, delivers it once: the second gets
// [corebot.ErrNotFound].
func (l *DeadLetters) Replay(ctx context.Context, id int64, fresh bool) error {
	return l.db.write(ctx, "replay", func(t *tx) error {
		var ln lane
		var k corebot.Key
		var direction, run int
		var body []byte
		found, err := t.one(selectDead, []any{&ln.id, &direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &ln.nextSeq, &ln.wakeAt, &run, &body}, id)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("dead letter %d: %w", id, corebot.ErrNotFound)
		}
		if _, err := t.exec(reviveLife, id); err != nil {
			return err
		}
		if !fresh {
			if _, err := t.exec(moveSteps, id, run); err != nil {
				return err
			}
		}
		return pushTx(t, corebot.Direction(direction), k, ln, id, body)
	})
}
