package storage

import (
	"fmt"

	"github.com/corebot/corebot"
)

var (
	// The door out of a claim. All four outcomes pass a statement that names the epoch; zero rows is a lost lease.
	popLane = &query{`UPDATE lanes SET leased = 0, depth = depth - 1, bytes = bytes - ?, wake_at = CASE WHEN depth > 1 THEN ? END,
		attempts = 0, lost = 0, lost_at = 0, waiting = '' WHERE id = ? AND epoch = ? AND leased = 1`}
	// A /stop that was accepted while the turn was failing must not wait for the backoff.
	retryLane = &query{`UPDATE lanes SET leased = 0, wake_at = CASE WHEN stop_seq >= ? THEN ? ELSE ? END,
		attempts = attempts + 1, lost = 0, lost_at = 0, waiting = 'backoff' WHERE id = ? AND epoch = ? AND leased = 1`}
	waitLane = &query{`UPDATE lanes SET leased = 0, wake_at = CASE WHEN stop_seq >= ? THEN ? ELSE ? END, lost = 0, lost_at = 0,
		waiting = COALESCE(NULLIF(?, ''), 'waiting') WHERE id = ? AND epoch = ? AND leased = 1`}

	endLife = &query{`UPDATE message_life SET "end" = ?, reason = ?, last_error = CASE WHEN ? <> '' THEN ? ELSE last_error END,
		claimed_at = ?, ended_at = ?, attempts = ?, input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, body = ? WHERE id = ?`}
	retryLife   = &query{`UPDATE message_life SET last_error = ?, claimed_at = ?, attempts = ?, attempt_log = ? WHERE id = ?`}
	selectLog   = &query{`SELECT attempt_log FROM message_life WHERE id = ?`}
	deleteBody  = &query{`DELETE FROM message_queue WHERE life_id = ?`}
	selectBody  = &query{`SELECT body FROM message_queue WHERE life_id = ?`}
	fencedLease = &query{`SELECT 1 FROM lanes WHERE id = ? AND epoch = ? AND leased = 1`}
)

func settleTx(t *tx, d *corebot.Delivery, o corebot.Outcome) error {
	return settleUsageTx(t, d, o, corebot.Usage{})
}

// settleUsageTx ends a claim, and with Done or Dead the message's life.
func settleUsageTx(t *tx, d *corebot.Delivery, o corebot.Outcome, u corebot.Usage) error {
	switch o.Verb {
	case corebot.Done:
		return endTx(t, d, o, u, nil)
	case corebot.Dead:
		var body []byte
		if _, err := t.one(selectBody, []any{&body}, d.Life); err != nil {
			return err
		}
		o.End = corebot.EndDead
		return endTx(t, d, o, u, body)
	case corebot.RetryAt:
		return retryTx(t, d, o)
	case corebot.Wait:
		if err := fenced(t.exec(waitLane, d.Seq, t.now, o.At, o.Reason, d.Lane, d.Epoch)); err != nil {
			return err
		}
		t.wake(corebot.PoolOf(d.Message.Direction, d.Message.Key), t.now.UnixMilli())
		return nil
	}
	return fmt.Errorf("settle message %s: no such outcome: %d", d.Message.ID, o.Verb)
}

// endTx takes the message out of its lane. The lane's next message is due now, behind every lane that waits already: that
// is the round robin over chats.
func endTx(t *tx, d *corebot.Delivery, o corebot.Outcome, u corebot.Usage, body []byte) error {
	if err := fenced(t.exec(popLane, d.Size, t.now, d.Lane, d.Epoch)); err != nil {
		return err
	}
	if _, err := t.exec(deleteBody, d.Life); err != nil {
		return err
	}
	var kept any
	if body != nil {
		kept = body
	}
	_, err := t.exec(endLife, string(o.End), o.Reason, o.Error, o.Error, d.ClaimedAt, t.now, d.Attempt, u.InputTokens, u.OutputTokens, kept, d.Life)
	t.total.depth[d.Message.Direction]--
	t.total.bytes -= int64(d.Size)
	t.wake(corebot.PoolOf(d.Message.Direction, d.Message.Key), t.now.UnixMilli())
	return err
}

func retryTx(t *tx, d *corebot.Delivery, o corebot.Outcome) error {
	if err := fenced(t.exec(retryLane, d.Seq, t.now, o.At, d.Lane, d.Epoch)); err != nil {
		return err
	}
	var log string
	if _, err := t.one(selectLog, []any{&log}, d.Life); err != nil {
		return err
	}
	log = appendAttempt(log, corebot.Attempt{Run: d.Run, At: t.now, What: "retry", Error: o.Error})
	_, err := t.exec(retryLife, o.Error, d.ClaimedAt, d.Attempt, log, d.Life)
	t.wake(corebot.PoolOf(d.Message.Direction, d.Message.Key), t.now.UnixMilli())
	return err
}

// fenced reads the result of a statement that names an epoch.
func fenced(rows int64, err error) error {
	if err == nil && rows == 0 {
		return corebot.ErrLeaseLost // a newer owner has it: everything in this transaction vanishes
	}
	return err
}

// holdsTx refuses to go on for a claim that is not the newest of its lane.
func holdsTx(t *tx, l corebot.Lease) error {
	var one int64
	held, err := t.one(fencedLease, []any{&one}, l.Lane, l.Epoch)
	if err == nil && !held {
		err = corebot.ErrLeaseLost
	}
	return err
}
