package storage

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/corebot/corebot"
)

// A deferred message has left its lane until a time. The schema calls it parked.
//
// A deferred message takes no place in its lane. It counts for the limits of everything that waits. A lane can have as
// many deferred messages as waiting ones, so deferring is bounded like waiting. The message comes back at the tail of
// its lane, in a transaction that the writer's timer begins. When a new process begins, all that are over a budget come
// back at once, because their reason can be gone. A message with a time of its delivery waits for that time.

var (
	insertDeferred = &query{
		`INSERT INTO message_parked (life_id, lane_id, reason, parked_at, due_at, body) VALUES (?, ?, ?, ?, ?, ?)`,
	}
	deliverLater   = &query{`UPDATE message_life SET deliver_at = ? WHERE id = ?`}
	deleteDeferred = &query{`DELETE FROM message_parked WHERE life_id = ?`}
	countDeferred  = &query{`SELECT COUNT(*) FROM message_parked WHERE lane_id = ?`}
	dueDeferred    = &query{`SELECT p.life_id, p.reason, l.direction, l.agent, l.channel, l.account, l.chat, l.thread
		FROM message_parked p JOIN lanes l ON l.id = p.lane_id
		WHERE p.due_at <= ? ORDER BY p.due_at, p.life_id LIMIT ? + 0`}
	deferredBody  = &query{`SELECT body FROM message_parked WHERE life_id = ?`}
	nextDue       = &query{`SELECT MIN(due_at) FROM message_parked WHERE due_at > ?`}
	deferredTotal = &query{
		`SELECT COUNT(*), COALESCE(SUM(LENGTH(body)), 0), COALESCE(MIN(due_at), 0) FROM message_parked`,
	}
	dueNow   = &query{`UPDATE message_parked SET due_at = ? WHERE due_at > ? AND ` + forBudget}
	dueLater = &query{`SELECT life_id FROM message_parked WHERE due_at > ? AND ` + forBudget}
	// A life has one place in its lane for each of its runs. The place that it leaves counts as swept; see [Retention].
	giveUpPlace = &query{`UPDATE lanes SET swept = swept + 1 WHERE id = ?`}
)

// forBudget is true for a message that is deferred for a budget.
const forBudget = `reason NOT IN ('` + corebot.DeferredToTime + `', '` + corebot.DeferredToApproval + `')`

// deferTx defers the head of a lane until a time. It refuses a message whose run has begun, because its work would have
// to come back with it. It refuses a message beyond the limit of the lane with [corebot.ErrLaneFull]. A refusal writes
// nothing.
func deferTx(t *tx, d *corebot.Delivery, o corebot.Outcome) error {
	if err := holdsTx(t, d.Lease); err != nil {
		return err
	}
	if d.Message.Direction != corebot.Inbound || d.Attempt > 1 || d.Lost > 0 || len(d.Journal) > 0 {
		return fmt.Errorf("%w: defer message %s: only an inbound message whose run has not begun can be deferred",
			corebot.ErrInvalid, d.Message.ID)
	}
	var n int64
	if _, err := t.one(countDeferred, []any{&n}, d.Lane); err != nil {
		return err
	}
	if t.lanePlaces > 0 && n >= t.lanePlaces {
		return fmt.Errorf("%w: %d are deferred", corebot.ErrLaneFull, n)
	}
	var body []byte
	if _, err := t.one(selectBody, []any{&body}, d.Life); err != nil {
		return err
	}
	if err := popTx(t, d); err != nil {
		return err
	}
	t.total.depth[d.Message.Direction]++ // it still counts as waiting
	t.waiting.add(senderOf(d.Message.Key, storedSender(d.Message.Key, d.Message.Sender)), d.Life, 1, d.Size)
	t.total.bytes += int64(d.Size)
	t.backAt = min(t.backAt, o.At.UnixMilli())
	_, err := t.exec(insertDeferred, d.Life, d.Lane, o.Reason, t.now, o.At, body)
	return err
}

// isLater says that the message is to be delivered at a time that is still to come.
func (p *parcel) isLater(t *tx) bool {
	return p.Direction == corebot.Inbound && p.Kind != corebot.KindHeard && p.EditOf == "" && p.steers == nil &&
		p.Envelope.DeliverAt.After(t.now)
}

// deferNewTx defers a new message to the time of its delivery. The message takes a place in its lane and leaves it at
// once, as if it had been claimed.
func deferNewTx(t *tx, p *parcel, l lane, life int64) error {
	if _, err := t.exec(takeHeardPlace, l.id); err != nil {
		return err
	}
	due := p.Envelope.DeliverAt
	if _, err := t.exec(deliverLater, due, life); err != nil {
		return err
	}
	t.total.depth[p.Direction]++
	t.total.bytes += int64(len(p.body))
	t.backAt = min(t.backAt, due.UnixMilli())
	reason := corebot.DeferredToTime
	if p.Detached != nil {
		reason = corebot.DeferredToApproval
	}
	_, err := t.exec(insertDeferred, life, l.id, reason, t.now, due, p.body)
	return err
}

// allDueNow makes all messages due now that are deferred for a budget, in one statement. If a damaged message makes
// this statement fail, allDueNow updates the messages one by one. The damaged message then comes back at its own time,
// if it can.
func (db *DB) allDueNow(c *prepared, now time.Time) error {
	_, err := c.exec(dueNow, now, now)
	if err == nil || !ofSQLite(err) || !ofTheFile(err) {
		return err
	}
	var lives []int64
	err = c.each(dueLater, func(s scanner) error {
		var life int64
		err := s.Scan(&life)
		lives = append(lives, life)
		return err
	}, now)
	for _, life := range lives {
		if _, err := c.exec(releaseDeferred, now, life, now); err != nil {
			db.log.Error().Err(classify(err)).Int64("life",
				life).Msg("a deferred message cannot be read: it does not come back early")
		}
	}
	return err
}

// returnChunk bounds the messages that come back in one transaction.
const returnChunk = 32

// deferredPool stands for unreadable deferred messages among the pools. No claim uses it.
const deferredPool corebot.Pool = ""

// returning is a deferred message on its way back.
type returning struct {
	life      int64
	reason    string
	body      []byte
	direction corebot.Direction
	key       corebot.Key
}

// returnDeferredTx puts due deferred messages back into their lanes, and notes when the next one is due. An unreadable
// message stays deferred, and is tried again like the head of a lane that is set aside. Its errors are [*unserved].
func (w *waitingClaims) returnDeferredTx(t *tx, probe bool) error {
	if t.backAt > t.now.UnixMilli() || w.shut[deferredPool].After(t.now) {
		return nil
	}
	limit := returnChunk + w.aside.remembered(deferredPool)
	due, err := dueDeferredTx(t, limit)
	if err != nil {
		return &unserved{pool: deferredPool, err: err}
	}
	left := 0
	for _, r := range due {
		switch w.aside.stands(-r.life, t.now) {
		case asideNow:
			continue
		case asideDue:
			if left++; !probe {
				continue
			}
			t.readmitted = append(t.readmitted, -r.life)
		}
		returns := returnTx
		if r.reason == corebot.DeferredToApproval {
			returns = expireDetachedTx
		}
		if err := returns(t, r); err != nil {
			return &unserved{pool: deferredPool, lane: &claimed{lane: -r.life, key: r.key}, row: false, err: err}
		}
	}
	if len(due) == limit || left > 0 {
		return nil // the rest follows at once
	}
	if err := nextDueTx(t); err != nil {
		return &unserved{pool: deferredPool, err: err}
	}
	t.backAt = min(t.backAt, w.aside.next(deferredPool))
	return nil
}

func dueDeferredTx(t *tx, limit int) (due []returning, err error) {
	err = t.each(dueDeferred, func(s scanner) error {
		var r returning
		var direction int
		k := &r.key
		err := s.Scan(&r.life, &r.reason, &direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread)
		r.direction = corebot.Direction(direction)
		due = append(due, r)
		return err
	}, t.now, limit)
	return due, err
}

// returnTx puts one message back at the tail of its lane, as a prompt that waits its turn.
func returnTx(t *tx, r returning) error {
	if _, err := t.one(deferredBody, []any{&r.body}, r.life); err != nil {
		return err
	}
	l, err := findLaneTx(t, r.direction, r.key)
	if err != nil {
		return err
	}
	if err := deleteDeferredTx(t, r.life, r.direction, len(r.body)); err != nil {
		return err
	}
	if _, err := t.exec(giveUpPlace, l.id); err != nil {
		return err
	}
	return pushTx(t, r.direction, r.key, l, r.life, r.body)
}

// deleteDeferredTx deletes a message from the deferred ones.
func deleteDeferredTx(t *tx, life int64, d corebot.Direction, size int) error {
	t.total.depth[d]--
	t.total.bytes -= int64(size)
	_, err := t.exec(deleteDeferred, life)
	return err
}

// nextDueTx notes when the next deferred message becomes due.
func nextDueTx(t *tx) error {
	t.backAt = math.MaxInt64
	next := int64(0)
	if _, err := t.one(nextDue, []any{&next}, t.now); err != nil {
		return err
	}
	if next != 0 {
		t.backAt = next
	}
	return nil
}

var (
	deferredSize = &query{
		`SELECT LENGTH(p.body), l.direction FROM message_parked p JOIN lanes l ON l.id = p.lane_id WHERE p.life_id = ?`,
	}
	oldestDeferred = &query{`SELECT m.id, m.sender FROM message_parked p JOIN lanes l ON l.id = p.lane_id
		JOIN message_life m ON m.id = p.life_id
		WHERE l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ?
		AND p.` + forBudget + ` ORDER BY p.life_id LIMIT 1`}
	endDeferred = &query{`UPDATE message_life SET "end" = ?, reason = ?, ended_at = ? WHERE id = ?`}
)

// isDeferredTx says whether a message is deferred, and its size and direction.
func isDeferredTx(t *tx, life int64) (size int, d corebot.Direction, deferred bool, err error) {
	var direction int
	deferred, err = t.one(deferredSize, []any{&size, &direction}, life)
	return size, corebot.Direction(direction), deferred, err
}

// endDeferredTx ends the life of a deferred message with everything that waits for it, and says whether the message was
// deferred.
func endDeferredTx(t *tx, life int64, end corebot.End, reason string) (bool, error) {
	deferred, err := takeDeferredTx(t, life, end, reason)
	if err != nil || !deferred {
		return deferred, err
	}
	if err := endCallsTx(t, life); err != nil {
		return true, err
	}
	why := jobEnd{run: 1, state: corebot.JobStopped, why: "it was stopped before it began"}
	return true, endJobTx(t, life, 0, why)
}

// takeDeferredTx takes a message out of the deferred ones and ends its life.
func takeDeferredTx(t *tx, life int64, end corebot.End, reason string) (bool, error) {
	size, d, deferred, err := isDeferredTx(t, life)
	if err != nil || !deferred {
		return false, err
	}
	if err := deleteDeferredTx(t, life, d, size); err != nil {
		return true, err
	}
	if err := t.waiting.addLife(t, life, -1, size); err != nil {
		return true, err
	}
	_, err = t.exec(endDeferred, string(end), reason, t.now, life)
	return true, err
}

// Deferred gives an operator access to the deferred messages.
type Deferred struct{ db *DB }

// NewDeferred returns the deferred messages of a database.
func NewDeferred(db *DB) *Deferred { return &Deferred{db} }

var (
	listDeferred = &query{`SELECT p.life_id, m.message_id, l.agent, l.channel, l.account, l.chat, l.thread, m.sender,
		p.reason, p.parked_at, p.due_at
		FROM message_parked p JOIN lanes l ON l.id = p.lane_id JOIN message_life m ON m.id = p.life_id
		WHERE p.due_at >= ? AND (p.due_at > ? OR p.life_id > ?) ORDER BY p.due_at, p.life_id LIMIT ? + 0`}
	deliverNow      = &query{`UPDATE message_life SET deliver_at = ? WHERE id = ? AND deliver_at > ?`}
	releaseDeferred = &query{`UPDATE message_parked SET due_at = ? WHERE life_id = ? AND due_at > ?`}
)

// Page gives at most limit deferred messages behind a cursor, in the order in which they come back, and the next
// cursor.
func (l *Deferred) Page(ctx context.Context, after string, limit int) (out []corebot.Deferred, next string, err error) {
	var due, life int64
	if err := behind(after, "parked", &due, &life); err != nil {
		return nil, "", err
	}
	err = l.db.reader.each(ctx, listDeferred, func(s scanner) error {
		var p corebot.Deferred
		k := &p.Key
		err := s.Scan(&p.Life, &p.MessageID, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &p.Sender.ID,
			&p.Reason, moment{&p.DeferredAt}, moment{&p.DueAt})
		p.Sender = senderIn(*k, p.Sender.ID)
		out = append(out, p)
		return err
	}, due, due, life, limit)
	return out, nextPage(out, limit, func(p corebot.Deferred) string {
		return cursor("parked", p.DueAt.UnixMilli(),
			p.Life)
	}), err
}

// Release makes a deferred message come back now, before its time. The next claim checks the budget again. A message
// that is not deferred is [corebot.ErrNotFound].
func (l *Deferred) Release(ctx context.Context, life int64) error {
	return l.db.write(ctx, "release", func(t *tx) error {
		p, err := deferredTx(t, life)
		if err != nil {
			return err
		}
		if p.Reason == corebot.DeferredToApproval {
			return corebot.WithHint(fmt.Errorf("%w: deferred message %d waits for an approval", corebot.ErrInvalid,
				life), "`corebot approvals list` shows the request, and `corebot approvals approve` lets it run")
		}
		t.backAt = min(t.backAt, t.now.UnixMilli())
		if _, err := t.exec(deliverNow, t.now, life, t.now); err != nil {
			return err
		}
		_, err = t.exec(releaseDeferred, t.now, life, t.now)
		return err
	})
}

// Drop ends a deferred message for good, with an audit event, and tells its chat. A message that is not deferred is
// [corebot.ErrNotFound].
func (l *Deferred) Drop(ctx context.Context, life int64) error {
	return l.db.write(ctx, "drop", func(t *tx) error {
		p, err := deferredTx(t, life)
		if err != nil {
			return err
		}
		if _, err := endDeferredTx(t, life, corebot.EndDropped, "dropped"); err != nil {
			return err
		}
		dropped := corebot.AuditEvent{
			At: t.now, Event: "parked.drop", Key: p.Key, Entry: corebot.EntryOperator,
			Principal: byOperator().Principal,
			Outcome:   corebot.OutcomeSuccess, Args: fmt.Sprintf(`{"id":%d}`, life),
		}
		if err := auditTx(t, []corebot.AuditEvent{dropped}); err != nil {
			return err
		}
		return noticeTx(t, &pack([]corebot.Message{droppedNotice(p)})[0], life)
	})
}

func droppedNotice(p corebot.Deferred) corebot.Message {
	waited := "for the budget"
	switch p.Reason {
	case corebot.DeferredToTime:
		waited = "for the time of its delivery"
	case corebot.DeferredToApproval:
		return corebot.TextNotice(p.Key, p.MessageID+"/dropped", p.MessageID, "A request for an approval in this chat "+
			"was dropped by an operator. Its calls do not run.", corebot.Notice{Kind: corebot.NoticeDropped})
	}
	return corebot.TextNotice(p.Key, p.MessageID+"/dropped", p.MessageID, "This message waited "+waited+" and was "+
		"dropped by an operator. Please send it again if it still matters.",
		corebot.Notice{Kind: corebot.NoticeDropped})
}

var deferredByLife = &query{`SELECT m.message_id, l.agent, l.channel, l.account, l.chat, l.thread, p.reason
	FROM message_parked p JOIN lanes l ON l.id = p.lane_id JOIN message_life m ON m.id = p.life_id WHERE p.life_id = ?`}

func deferredTx(t *tx, life int64) (corebot.Deferred, error) {
	p := corebot.Deferred{Life: life}
	k := &p.Key
	found, err := t.one(deferredByLife, []any{
		&p.MessageID, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &p.Reason,
	}, life)
	if err == nil && !found {
		err = notDeferred(life, nil)
	}
	return p, err
}

func notDeferred(life int64, err error) error {
	if err == nil {
		err = fmt.Errorf("deferred message %d: %w", life, corebot.ErrNotFound)
	}
	return err
}
