package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

var (
	// The only ways to end a claim. Every outcome passes a statement that names the epoch; zero changed rows mean a
	// lost lease.
	popLane = &query{`UPDATE lanes SET leased = 0, depth = depth - 1, bytes = bytes - ?,
		wake_at = CASE WHEN depth > 1 THEN MAX(?, free_at, quiet_at) END,
		attempts = 0, limited = 0, limited_at = 0, lost = 0, lost_at = 0,
		waiting = CASE WHEN depth = 1 OR MAX(free_at, quiet_at) <= ? THEN ''
		WHEN quiet_at > free_at THEN '` + corebot.Collecting + `' ELSE '` + corebot.Throttled + `' END
		WHERE id = ? AND epoch = ? AND leased = 1`}
	// A /stop that was accepted while the turn was failing must not wait for the backoff.
	retryLane = &query{`UPDATE lanes SET leased = 0, wake_at = CASE WHEN stop_seq >= ? THEN ? ELSE ? END,
		attempts = attempts + 1, lost = 0, lost_at = 0, waiting = 'backoff' WHERE id = ? AND epoch = ? AND leased = 1`}
	// As retryLane, for a rate limit that is not counted as an attempt. Rate limits have their own count and the time
	// of the first one.
	limitLane = &query{`UPDATE lanes SET leased = 0, wake_at = CASE WHEN stop_seq >= ? THEN ? ELSE ? END,
		limited_at = CASE WHEN limited = 0 THEN ? ELSE limited_at END, limited = limited + 1,
		lost = 0, lost_at = 0, waiting = 'backoff' WHERE id = ? AND epoch = ? AND leased = 1`}
	waitLane = &query{`UPDATE lanes SET leased = 0, wake_at = CASE WHEN stop_seq >= ? THEN ? ELSE ? END, lost = 0,
		lost_at = 0,
		waiting = COALESCE(NULLIF(?, ''), 'waiting') WHERE id = ? AND epoch = ? AND leased = 1`}

	endLife = &query{
		`UPDATE message_life SET "end" = ?, reason = ?, claimed_at = ?, ended_at = ?, attempts = ? WHERE id = ?`,
	}
	// As endLife, for an end that has tokens, an error or a body to keep. Most ends have none of these.
	endLifeWith = &query{`UPDATE message_life SET "end" = ?, reason = ?, claimed_at = ?, ended_at = ?, attempts = ?,
		last_error = COALESCE(NULLIF(?, ''), last_error), input_tokens = input_tokens + ?,
		output_tokens = output_tokens + ?,
		cost = cost + ?, unpriced = unpriced + ?, estimated = estimated + ?, model = ?, body = ? WHERE id = ?`}
	waitLife    = &query{`UPDATE message_life SET last_error = ?1 WHERE id = ?2 AND last_error <> ?1`}
	retryLife   = &query{`UPDATE message_life SET last_error = ?, claimed_at = ?, attempts = ? WHERE id = ?`}
	selectLog   = &query{`SELECT attempt_log FROM message_life WHERE id = ?`}
	deleteBody  = &query{`DELETE FROM message_queue WHERE life_id = ?`}
	selectBody  = &query{`SELECT body FROM message_queue WHERE life_id = ?`}
	selectSum   = &query{`SELECT checksum FROM message_life WHERE id = ?`}
	leaveHead   = &query{`UPDATE lanes SET past = ? WHERE id = ?`}
	fencedLease = &query{`SELECT 1 FROM lanes WHERE id = ? AND epoch = ? AND leased = 1`}
)

func settleTx(t *tx, d *corebot.Delivery, o corebot.Outcome) error {
	return settleUseTx(t, d, o, used{})
}

// used is the usage of a claim and the model that gave the last answer; empty: none did.
type used struct {
	corebot.UsageTotals
	model string
}

// settleUseTx ends a claim, and with Done or Dead also the message's life. It adds the usage of the claim to that life.
func settleUseTx(t *tx, d *corebot.Delivery, o corebot.Outcome, u used) error {
	err := endClaimTx(t, d, o, u)
	if err == nil {
		countSettledTx(t, d, o)
	}
	return err
}

func endClaimTx(t *tx, d *corebot.Delivery, o corebot.Outcome, u used) error {
	switch o.Verb {
	case corebot.Done:
		if err := endTx(t, d, o, u, nil); err != nil {
			return err
		}
		if err := endRunTx(t, d, o); err != nil {
			return err
		}
		if err := endWaitingTx(t, d); err != nil {
			return err
		}
		return endClaimedJobTx(t, d, o)
	case corebot.Dead:
		body, whole, err := lastBodyTx(t, d)
		if err != nil {
			return err
		}
		o.End = corebot.EndDead
		if !whole {
			err = leaveTx(t, d, o, u)
		} else {
			err = endTx(t, d, o, u, body)
		}
		if err != nil {
			return err
		}
		death := corebot.Attempt{What: attemptDead, Class: o.Class, Plain: o.Plain, Error: cause(o.Reason, o.Error)}
		if err := logAttemptTx(t, d, death); err != nil {
			return err
		}
		if err := endRunTx(t, d, o); err != nil {
			return err
		}
		if err := endWaitingTx(t, d); err != nil {
			return err
		}
		return endClaimedJobTx(t, d, o)
	case corebot.RetryAt:
		if err := retryTx(t, d, o); err != nil {
			return err
		}
		return bookLifeTx(t, d.Life, u.UsageTotals)
	case corebot.Wait:
		var err error
		if o.At, err = waitsUntilTx(t, d.Life, o); err != nil {
			return err
		}
		if err := fencedTx(t, d.Lease, waitLane, d.Seq, t.now, o.At, o.Reason); err != nil {
			return err
		}
		if o.Error != "" {
			if _, err := t.exec(waitLife, o.Error, d.Life); err != nil {
				return err
			}
		}
		t.flows.release(d.Lane)
		t.wake(corebot.PoolOf(d.Message.Direction, d.Message.Key), t.now.UnixMilli())
		return bookLifeTx(t, d.Life, u.UsageTotals)
	case corebot.Defer:
		return deferTx(t, d, o)
	}
	return fmt.Errorf("settle message %s: no such outcome: %d", d.Message.ID, o.Verb)
}

// waitsUntilTx says until when a head waits. If what it waits for came before the claim ended, the wait is over.
func waitsUntilTx(t *tx, life int64, o corebot.Outcome) (time.Time, error) {
	switch o.Reason {
	case corebot.AwaitingApproval:
		return standsTx(t, life, o.At)
	case corebot.AwaitingTime, corebot.AwaitingWord, corebot.AwaitingJob:
		waits, err := stillWaitsTx(t, life)
		if !waits {
			return t.now, err
		}
	}
	return o.At, nil
}

// popTx takes the head out of its lane. The lane's next message is due now, behind every lane that waits already. This
// is the round robin over chats.
func popTx(t *tx, d *corebot.Delivery) error {
	if err := passTx(t, d); err != nil {
		return err
	}
	_, err := t.exec(deleteBody, d.Life)
	return err
}

// passTx makes the lane go on without its head.
func passTx(t *tx, d *corebot.Delivery) error {
	if err := fencedTx(t, d.Lease, popLane, d.Size, t.now, t.now); err != nil {
		return err
	}
	t.flows.release(d.Lane)
	if d.Message.Direction == corebot.Inbound && d.Damaged == nil {
		t.waiting.add(senderOf(d.Message.Key, storedSender(d.Message.Key, d.Message.Sender)), d.Life, -1, d.Size)
	} else if d.Message.Direction == corebot.Inbound { // the body does not tell the sender
		if err := t.waiting.addLife(t, d.Life, -1, d.Size); err != nil {
			return err
		}
	}
	t.total.depth[d.Message.Direction]--
	t.total.bytes -= int64(d.Size)
	t.wake(corebot.PoolOf(d.Message.Direction, d.Message.Key), t.now.UnixMilli())
	return nil
}

// inPage is how many bytes of a body are surely in the row's own page. The row says in which other pages the rest of a
// longer body is.
const inPage = 3000

// lastBodyTx reads the body of a dying message. whole is false if the body is not what was published and lies in more
// than its own page. The row can then name pages that belong to others.
func lastBodyTx(t *tx, d *corebot.Delivery) (body []byte, whole bool, err error) {
	if _, err := t.one(selectBody, []any{&body}, d.Life); err != nil {
		return nil, false, err
	}
	if d.Damaged == nil || d.Size <= inPage {
		return body, true, nil
	}
	var sum []byte
	if _, err := t.one(selectSum, []any{&sum}, d.Life); err != nil {
		return nil, false, err
	}
	return body, corebot.DecodeBody(body, sum, new(corebot.Message)) == nil, nil
}

// leaveTx ends the message and leaves its row in place: see [DeadLetters.GiveUp].
func leaveTx(t *tx, d *corebot.Delivery, o corebot.Outcome, u used) error {
	if err := passTx(t, d); err != nil {
		return err
	}
	if _, err := t.exec(leaveHead, d.Seq, d.Lane); err != nil {
		return err
	}
	return endLifeTx(t, d, o, u, nil)
}

// endTx takes the message out of its lane and ends its life.
func endTx(t *tx, d *corebot.Delivery, o corebot.Outcome, u used, body []byte) error {
	if err := popTx(t, d); err != nil {
		return err
	}
	return endLifeTx(t, d, o, u, body)
}

func endLifeTx(t *tx, d *corebot.Delivery, o corebot.Outcome, u used, body []byte) error {
	if o.Error == "" && u == (used{}) && body == nil {
		_, err := t.exec(endLife, string(o.End), o.Reason, d.ClaimedAt, t.now, d.Attempt, d.Life)
		return err
	}
	_, err := t.exec(endLifeWith, string(o.End), o.Reason, d.ClaimedAt, t.now, d.Attempt, o.Error,
		u.InputTokens, u.OutputTokens, int64(u.Cost), u.UnpricedTokens, u.EstimatedTokens, u.model, body, d.Life)
	return err
}

func retryTx(t *tx, d *corebot.Delivery, o corebot.Outcome) error {
	what, counted := attemptRetry, d.Attempt
	rows, err := int64(0), error(nil)
	if o.Uncounted {
		what, counted = attemptLimited, d.Attempt-1
		rows, err = t.exec(limitLane, d.Seq, t.now, o.At, t.now, d.Lane, d.Epoch)
	} else {
		rows, err = t.exec(retryLane, d.Seq, t.now, o.At, d.Lane, d.Epoch)
	}
	if err == nil && rows == 0 {
		err = staleTx(t, d.Lease)
	}
	if err != nil {
		return err
	}
	t.flows.release(d.Lane)
	t.wake(corebot.PoolOf(d.Message.Direction, d.Message.Key), t.now.UnixMilli())
	if _, err := t.exec(retryLife, o.Error, d.ClaimedAt, counted, d.Life); err != nil {
		return err
	}
	return logAttemptTx(t, d, corebot.Attempt{What: what, Class: o.Class, Plain: o.Plain, Error: o.Error})
}

// How an attempt ended that did not answer its message. The values are stored; they never change.
const (
	attemptRetry    = "retry"
	attemptLimited  = "limited" // a retry that is not counted
	attemptLost     = "lease_lost"
	attemptDead     = "dead"
	attemptReplayed = "replayed" // no attempt: marks the begin of another run
	attemptEdit     = "edit"     // no attempt: the message edits another
)

// logAttemptTx adds the end of a claim to the attempts of its message.
func logAttemptTx(t *tx, d *corebot.Delivery, a corebot.Attempt) error {
	var log string
	if _, err := t.one(selectLog, []any{&log}, d.Life); err != nil {
		return err
	}
	a.Run, a.At = d.Run, t.now
	_, err := t.exec(logLife, appendAttempt(log, a), d.Life)
	return err
}

// cause is why a message died, in one line for operators.
func cause(reason, failed string) string {
	if failed == "" {
		return reason
	}
	return reason + ": " + failed
}

// fencedTx runs a statement whose last two parameters are the lane and epoch of a lease. If it changes nothing, the
// lease is stale, and the error of [staleTx] undoes the whole transaction.
func fencedTx(t *tx, l corebot.Lease, q *query, args ...any) error {
	rows, err := t.exec(q, append(args, l.Lane, l.Epoch)...)
	if err == nil && rows == 0 {
		err = staleTx(t, l)
	}
	return err
}

var settledClaim = &query{`SELECT 1 FROM lanes WHERE id = ? AND lost_epoch < ?`}

// staleTx says why a lease is no longer the newest of its lane. If its own holder has ended the claim, the error is
// [corebot.ErrSettled]. If another claim has the lane, or the lane is unknown, the error is [corebot.ErrLeaseLost].
func staleTx(t *tx, l corebot.Lease) error {
	var one int64
	settled, err := t.one(settledClaim, []any{&one}, l.Lane, l.Epoch)
	switch {
	case err != nil:
		return err
	case settled:
		return corebot.ErrSettled
	}
	return corebot.ErrLeaseLost
}

// holdsTx returns an error for a claim that is no longer the newest of its lane.
func holdsTx(t *tx, l corebot.Lease) error {
	var one int64
	held, err := t.one(fencedLease, []any{&one}, l.Lane, l.Epoch)
	if err == nil && !held {
		err = staleTx(t, l)
	}
	return err
}

var floodWaits = &query{`SELECT account, chat, MAX(wake_at) FROM lanes
	WHERE pool = ? AND wake_at > ? AND limited > 0 AND leased = 0 GROUP BY account, chat`}

// FloodWaits are the chats of a pool whose next message waits because the platform has refused it for its rate.
func (l *Ledger) FloodWaits(ctx context.Context, pool corebot.Pool) (all []corebot.FloodWait, err error) {
	err = l.db.reader.each(ctx, floodWaits, func(s scanner) error {
		var w corebot.FloodWait
		err := s.Scan(&w.Account, &w.Chat, moment{&w.Until})
		all = append(all, w)
		return err
	}, string(pool), time.Now())
	if err != nil {
		return nil, fmt.Errorf("read which chats of %s wait for their rate: %w", pool, err)
	}
	return all, nil
}
