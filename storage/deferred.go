package storage

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/corebot/corebot"
)

// A deferred message has left its lane until a time. The code calls it parked. A worker's waiting claim is something
// else; see [parking].
//
// A deferred message takes no place in its lane. It counts for the limits of everything that waits. A lane can have as
// many deferred messages as waiting ones, so deferring is bounded like waiting. The message comes back at the tail of
// its lane, in a transaction that the writer's timer begins. When a new process begins, all come back at once, because
// their reason can be gone.

var (
	insertParked = &query{
		`INSERT INTO message_parked (life_id, lane_id, reason, parked_at, due_at, body) VALUES (?, ?, ?, ?, ?, ?)`,
	}
	deleteParked = &query{`DELETE FROM message_parked WHERE life_id = ?`}
	countParked  = &query{`SELECT COUNT(*) FROM message_parked WHERE lane_id = ?`}
	duePark      = &query{`SELECT p.life_id, l.direction, l.agent, l.channel, l.account, l.chat, l.thread FROM message_parked p JOIN lanes l ON l.id = p.lane_id
		WHERE p.due_at <= ? ORDER BY p.due_at, p.life_id LIMIT ? + 0`}
	parkedBody  = &query{`SELECT body FROM message_parked WHERE life_id = ?`}
	nextDue     = &query{`SELECT MIN(due_at) FROM message_parked WHERE due_at > ?`}
	parkedTotal = &query{
		`SELECT COUNT(*), COALESCE(SUM(LENGTH(body)), 0), COALESCE(MIN(due_at), 0) FROM message_parked`,
	}
	dueNow   = &query{`UPDATE message_parked SET due_at = ? WHERE due_at > ?`}
	dueLater = &query{`SELECT life_id FROM message_parked WHERE due_at > ?`}
	// A life has one place in its lane for each of its runs. The place that it leaves counts as swept; see [Retention].
	giveUpPlace = &query{`UPDATE lanes SET swept = swept + 1 WHERE id = ?`}
)

// parkTx defers the head of a lane until a time. It refuses a message whose run has begun, because its work would have
// to come back with it. It refuses a message beyond the limit of the lane with [corebot.ErrLaneFull]. A refusal writes
// nothing.
func parkTx(t *tx, d *corebot.Delivery, o corebot.Outcome) error {
	if err := holdsTx(t, d.Lease); err != nil {
		return err
	}
	if d.Message.Direction != corebot.Inbound || d.Attempt > 1 || d.Lost > 0 || len(d.Journal) > 0 {
		return fmt.Errorf("%w: park message %s: only an inbound message whose run has not begun can be parked",
			corebot.ErrInvalid, d.Message.ID)
	}
	var n int64
	if _, err := t.one(countParked, []any{&n}, d.Lane); err != nil {
		return err
	}
	if t.lanePlaces > 0 && n >= t.lanePlaces {
		return fmt.Errorf("%w: %d are parked", corebot.ErrLaneFull, n)
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
	_, err := t.exec(insertParked, d.Life, d.Lane, o.Reason, t.now, o.At, body)
	return err
}

// parkedDue makes all deferred messages due now, in one statement. If a damaged message makes this statement fail,
// parkedDue updates the messages one by one. The damaged message then comes back at its own time, if it can.
func (db *DB) parkedDue(c *prepared, now time.Time) error {
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
		if _, err := c.exec(releaseParked, now, life, now); err != nil {
			db.log.Error().Err(classify(err)).Int64("life",
				life).Msg("a parked message cannot be read: it does not come back early")
		}
	}
	return err
}

// returnChunk bounds the messages that come back in one transaction.
const returnChunk = 32

// parkedPool stands for unreadable deferred messages among the pools. No claim uses it.
const parkedPool corebot.Pool = ""

// returning is a deferred message on its way back.
type returning struct {
	life      int64
	body      []byte
	direction corebot.Direction
	key       corebot.Key
}

// returnParkedTx puts due deferred messages back into their lanes, and notes when the next one is due. An unreadable
// message stays deferred, and is tried again like the head of a lane that is set aside. Its errors are [*unserved].
func (p *parking) returnParkedTx(t *tx, probe bool) error {
	if t.backAt > t.now.UnixMilli() || p.shut[parkedPool].After(t.now) {
		return nil
	}
	limit := returnChunk + p.aside.remembered(parkedPool)
	due, err := dueParkedTx(t, limit)
	if err != nil {
		return &unserved{pool: parkedPool, err: err}
	}
	left := 0
	for _, r := range due {
		switch p.aside.stands(-r.life, t.now) {
		case asideNow:
			continue
		case asideDue:
			if left++; !probe {
				continue
			}
			t.readmitted = append(t.readmitted, -r.life)
		}
		if err := returnTx(t, r); err != nil {
			return &unserved{pool: parkedPool, lane: &claimed{lane: -r.life, key: r.key}, row: false, err: err}
		}
	}
	if len(due) == limit || left > 0 {
		return nil // the rest follows at once
	}
	if err := nextDueTx(t); err != nil {
		return &unserved{pool: parkedPool, err: err}
	}
	t.backAt = min(t.backAt, p.aside.next(parkedPool))
	return nil
}

func dueParkedTx(t *tx, limit int) (due []returning, err error) {
	err = t.each(duePark, func(s scanner) error {
		var r returning
		var direction int
		k := &r.key
		err := s.Scan(&r.life, &direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread)
		r.direction = corebot.Direction(direction)
		due = append(due, r)
		return err
	}, t.now, limit)
	return due, err
}

// returnTx puts one message back at the tail of its lane, as a prompt that waits its turn.
func returnTx(t *tx, r returning) error {
	if _, err := t.one(parkedBody, []any{&r.body}, r.life); err != nil {
		return err
	}
	l, err := findLaneTx(t, r.direction, r.key)
	if err != nil {
		return err
	}
	if err := unparkTx(t, r.life, r.direction, len(r.body)); err != nil {
		return err
	}
	if _, err := t.exec(giveUpPlace, l.id); err != nil {
		return err
	}
	return pushTx(t, r.direction, r.key, l, r.life, r.body)
}

// unparkTx deletes a message from the deferred ones.
func unparkTx(t *tx, life int64, d corebot.Direction, size int) error {
	t.total.depth[d]--
	t.total.bytes -= int64(size)
	_, err := t.exec(deleteParked, life)
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
	parkedOne = &query{
		`SELECT LENGTH(p.body), l.direction FROM message_parked p JOIN lanes l ON l.id = p.lane_id WHERE p.life_id = ?`,
	}
	oldestInLot = &query{`SELECT m.id, m.sender FROM message_parked p JOIN lanes l ON l.id = p.lane_id JOIN message_life m ON m.id = p.life_id
		WHERE l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ? ORDER BY p.life_id LIMIT 1`}
	endParked = &query{`UPDATE message_life SET "end" = ?, reason = ?, ended_at = ? WHERE id = ?`}
)

// isParkedTx says whether a message is deferred, and its size and direction.
func isParkedTx(t *tx, life int64) (size int, d corebot.Direction, parked bool, err error) {
	var direction int
	parked, err = t.one(parkedOne, []any{&size, &direction}, life)
	return size, corebot.Direction(direction), parked, err
}

// endParkedTx ends the life of a deferred message, and says whether the message was deferred.
func endParkedTx(t *tx, life int64, end corebot.End, reason string) (bool, error) {
	size, d, parked, err := isParkedTx(t, life)
	if err != nil || !parked {
		return false, err
	}
	if err := unparkTx(t, life, d, size); err != nil {
		return true, err
	}
	if err := t.waiting.addLife(t, life, -1, size); err != nil {
		return true, err
	}
	_, err = t.exec(endParked, string(end), reason, t.now, life)
	return true, err
}

// Lot gives an operator access to the deferred messages.
type Lot struct{ db *DB }

// NewLot returns the lot of a database.
func NewLot(db *DB) *Lot { return &Lot{db} }

var (
	listParked = &query{`SELECT p.life_id, m.message_id, l.agent, l.channel, l.account, l.chat, l.thread, m.sender, p.reason, p.parked_at, p.due_at
		FROM message_parked p JOIN lanes l ON l.id = p.lane_id JOIN message_life m ON m.id = p.life_id
		WHERE p.due_at >= ? AND (p.due_at > ? OR p.life_id > ?) ORDER BY p.due_at, p.life_id LIMIT ? + 0`}
	releaseParked = &query{`UPDATE message_parked SET due_at = ? WHERE life_id = ? AND due_at > ?`}
)

// Page gives the parked messages behind a cursor, in the order in which they come back, at most limit of them, and the
// cursor behind them.
func (l *Lot) Page(ctx context.Context, after string, limit int) (out []corebot.Parked, next string, err error) {
	var due, life int64
	if err := behind(after, "parked", &due, &life); err != nil {
		return nil, "", err
	}
	err = l.db.reader.each(ctx, listParked, func(s scanner) error {
		var p corebot.Parked
		k := &p.Key
		err := s.Scan(&p.Life, &p.MessageID, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &p.Sender.ID,
			&p.Reason, moment{&p.ParkedAt}, moment{&p.DueAt})
		p.Sender = senderIn(*k, p.Sender.ID)
		out = append(out, p)
		return err
	}, due, due, life, limit)
	return out, nextPage(out, limit, func(p corebot.Parked) string {
		return cursor("parked", p.DueAt.UnixMilli(),
			p.Life)
	}), err
}

// Release makes a deferred message come back now, before its time. The next claim checks the budget again. A message
// that is not deferred is [corebot.ErrNotFound].
func (l *Lot) Release(ctx context.Context, life int64) error {
	return l.db.write(ctx, "release", func(t *tx) error {
		if _, _, parked, err := isParkedTx(t, life); err != nil || !parked {
			return notParked(life, err)
		}
		t.backAt = min(t.backAt, t.now.UnixMilli())
		_, err := t.exec(releaseParked, t.now, life, t.now)
		return err
	})
}

// Drop ends a deferred message for good, with an audit event, and tells its chat. A message that is not deferred is
// [corebot.ErrNotFound].
func (l *Lot) Drop(ctx context.Context, life int64) error {
	return l.db.write(ctx, "drop", func(t *tx) error {
		p, err := parkedTx(t, life)
		if err != nil {
			return err
		}
		if _, err := endParkedTx(t, life, corebot.EndDropped, "dropped"); err != nil {
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

func droppedNotice(p corebot.Parked) corebot.Message {
	return corebot.Message{
		ID: p.MessageID + "/dropped", Direction: corebot.Outbound, Key: p.Key, Kind: corebot.KindNotice,
		InReplyTo: p.MessageID,
		Parts: corebot.TextPart("This message waited for the budget and was dropped by an operator. Please send it " +
			"again if it still matters."),
	}
}

var parkedByLife = &query{`SELECT m.message_id, l.agent, l.channel, l.account, l.chat, l.thread FROM message_parked p
	JOIN lanes l ON l.id = p.lane_id JOIN message_life m ON m.id = p.life_id WHERE p.life_id = ?`}

func parkedTx(t *tx, life int64) (corebot.Parked, error) {
	p := corebot.Parked{Life: life}
	k := &p.Key
	found, err := t.one(parkedByLife, []any{&p.MessageID, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread}, life)
	if err == nil && !found {
		err = notParked(life, nil)
	}
	return p, err
}

func notParked(life int64, err error) error {
	if err == nil {
		err = fmt.Errorf("parked message %d: %w", life, corebot.ErrNotFound)
	}
	return err
}
