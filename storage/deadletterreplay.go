package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

var (
	reviveLife = &query{`UPDATE message_life SET "end" = '', reason = '', ended_at = 0, attempts = 0, run = run + 1, attempt_log = ?, body = NULL
		WHERE id = ?`}
	// Moving the steps to the next run is what "resuming the journal" means; a fresh start leaves them behind, but for what people said.
	moveSteps = &query{`UPDATE execution_steps SET run = run + 1 WHERE life_id = ? AND run = ?`}
)

// Replay puts a dead letter back at the tail of its lane: the same id, its next run, with attempts reset. It resumes its
// journal unless fresh is set. Replaying twice, or at once from two places, delivers it once: the second gets
// [corebot.ErrNotFound]. An inbound letter is held to [Options.Limits] like a new message, and stays dead when there is no
// room ([corebot.ErrLaneFull], [corebot.ErrOverloaded], [corebot.ErrDiskFull]); a reply was paid for, and always passes.
func (l *DeadLetters) Replay(ctx context.Context, id int64, fresh bool) error {
	return l.db.write(ctx, "replay", func(t *tx) error { return l.replayTx(t, id, fresh) })
}

// ReplayAll replays every dead letter that the filter means, in the order of their publishing, so that those of a chat keep theirs.
// What the queue has no room for stays dead and is counted. They go in small commits: an error leaves those that went before
// replayed. A letter that died after ReplayAll was called, such as one that failed again, stays.
func (l *DeadLetters) ReplayAll(ctx context.Context, f corebot.DeadLetterFilter, fresh bool) (r corebot.Replayed, err error) {
	began := time.Now()
	ids, err := l.ids(ctx, f)
	if err != nil {
		return r, err
	}
	slices.Sort(ids)
	for chunk := range slices.Chunk(ids, changeChunk) {
		var part corebot.Replayed
		err := l.db.write(ctx, "replay", func(t *tx) (err error) {
			part, err = l.replayChunkTx(t, chunk, began, fresh)
			return err
		})
		if err != nil {
			return r, fmt.Errorf("%d replayed, then: %w", r.Done, err)
		}
		r.Done, r.Left, r.Why = r.Done+part.Done, r.Left+part.Left, cmp.Or(r.Why, part.Why)
	}
	return r, nil
}

func (l *DeadLetters) replayChunkTx(t *tx, ids []int64, began time.Time, fresh bool) (r corebot.Replayed, err error) {
	for _, id := range ids {
		d, found, err := stillDeadTx(t, id, began)
		if err != nil {
			return r, err
		}
		if !found {
			continue
		}
		switch err := l.reviveTx(t, d, fresh); {
		case err == nil:
			r.Done++
		case noRoom(err):
			r.Left++
			r.Why = cmp.Or(r.Why, err)
		case errors.Is(err, errUnreadable): // it was given up where it lies
		default:
			return r, err
		}
	}
	return r, nil
}

// stillDeadTx reads a letter that was dead at a moment; found is false when it no longer is, or died anew since.
func stillDeadTx(t *tx, id int64, at time.Time) (d letter, found bool, err error) {
	d, err = letterTx(t, id)
	if errors.Is(err, corebot.ErrNotFound) {
		return d, false, nil
	}
	return d, err == nil && !d.diedAt.After(at), err
}

// noRoom says whether an error is a refusal for want of room. Nothing was written then.
func noRoom(err error) bool {
	return errors.Is(err, corebot.ErrLaneFull) || errors.Is(err, corebot.ErrOverloaded) || errors.Is(err, corebot.ErrDiskFull)
}

// replayTx checks its rules before it writes: an error of one of them leaves the transaction as it was.
func (l *DeadLetters) replayTx(t *tx, id int64, fresh bool) error {
	d, err := letterTx(t, id)
	if err != nil {
		return err
	}
	return l.reviveTx(t, d, fresh)
}

// replayEffectTx handles [corebot.ReplayDeadLetter].
func (l *DeadLetters) replayEffectTx(t *tx, e corebot.ReplayDeadLetter) error {
	d, err := letterTx(t, e.ID)
	if err == nil && e.Agent != "" && d.key.Agent != e.Agent {
		err = fmt.Errorf("dead letter %d: %w", e.ID, corebot.ErrNotFound)
	}
	if err == nil {
		err = l.reviveTx(t, d, false)
	}
	if errors.Is(err, corebot.ErrNotFound) || noRoom(err) {
		err = &corebot.Refused{Err: err}
	}
	return err
}

func (l *DeadLetters) reviveTx(t *tx, d letter, fresh bool) error {
	if d.body == nil {
		return fmt.Errorf("dead letter %d: %w", d.id, errUnreadable)
	}
	lane, err := findLaneTx(t, d.direction, d.key)
	if err != nil {
		return err
	}
	if err := l.roomTx(t, d, lane, d.body); err != nil {
		return fmt.Errorf("dead letter %d: %w", d.id, err)
	}
	log := d.attemptLog
	if !endsDead(log, d.run) { // a letter of a build that did not log its death
		log = appendAttempt(log, corebot.Attempt{Run: d.run, At: d.diedAt, What: attemptDead, Error: cause(d.reason, d.failed)})
	}
	log = appendAttempt(log, corebot.Attempt{Run: d.run + 1, At: t.now, What: attemptReplayed})
	if _, err := t.exec(reviveLife, log, d.id); err != nil {
		return err
	}
	if fresh {
		if _, err := t.exec(carryMerges, d.id, d.run); err != nil {
			return err
		}
	} else {
		if _, err := t.exec(moveSteps, d.id, d.run); err != nil {
			return err
		}
	}
	if err := l.auditTx(t, d, "replay", map[string]any{"run": d.run + 1, "fresh": fresh}); err != nil {
		return err
	}
	if d.direction == corebot.Inbound {
		if err := t.waiting.addLife(t, d.id, 1, len(d.body)); err != nil {
			return err
		}
	}
	return pushTx(t, d.direction, d.key, lane, d.id, d.body)
}

// roomTx holds what comes back to the limits of what comes in, but for those of a sender: it is an operator who brings it back, or an admin.
func (l *DeadLetters) roomTx(t *tx, d letter, lane lane, body []byte) error {
	if d.direction != corebot.Inbound {
		return nil
	}
	limits := l.db.limits
	limits.SenderDepth, limits.SenderBytes = 0, 0
	return overLimit(t, &parcel{Message: corebot.Message{Direction: d.direction, Key: d.key}, body: body}, lane, limits)
}

// Edit replays a dead letter with another text: as a new message with an id of its own, caused by the old one, which ends as
// dropped. Its sender stays the same. An id that is taken is [corebot.ErrConflict]; the limits are those of [DeadLetters.Replay].
func (l *DeadLetters) Edit(ctx context.Context, id int64, newID, text string) error {
	return l.db.write(ctx, "edit", func(t *tx) error {
		d, err := letterTx(t, id)
		if err != nil {
			return err
		}
		p, was, err := d.rewritten(newID, text)
		if err != nil {
			return err
		}
		limits := l.db.limits
		if d.direction != corebot.Inbound {
			limits = corebot.Limits{}
		}
		if r, err := publishTx(t, &p, limits); err != nil || r.Err != nil || r.Duplicate {
			return cmp.Or(err, r.Err, error(corebot.ErrConflict))
		}
		return l.dropTx(t, d, dropping{"edit", "edited"}, map[string]any{"newId": newID, "bytes": len(was), "newBytes": len(text)})
	})
}

// rewritten is the letter as a new message with another text; was is the text that it had.
func (d letter) rewritten(newID, text string) (p parcel, was string, err error) {
	m, err := unpack(d.body, d.direction, d.key, d.kind, d.checksum)
	if err != nil {
		return p, "", corebot.WithHint(err, "what was sent cannot be read any more: have it sent again, and drop this one")
	}
	was = m.Text()
	m.ID, m.Parts = newID, corebot.TextPart(text)
	if err := cmp.Or(m.Validate(0), corebot.CheckID(newID)); err != nil {
		return p, was, err
	}
	packed := pack([]corebot.Message{m})
	packed[0].cause = d.id
	return packed[0], was, nil
}
