package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

var (
	selectHead = &query{`SELECT q.life_id, q.seq FROM lanes l JOIN message_queue q ON q.lane_id = l.id AND q.seq > l.past WHERE l.id = ? ORDER BY q.seq LIMIT 1`}
	stopLane   = &query{`UPDATE lanes SET stop_seq = ?, interrupted = ?, wake_at = CASE WHEN leased = 1 THEN wake_at ELSE MIN(wake_at, ?) END WHERE id = ?`}
	endNow     = &query{`UPDATE message_life SET "end" = ?, claimed_at = ?, ended_at = ? WHERE id = ?`}
)

// Stop accepts a /stop: it marks the head of the chat's lane, wherever that is in its life, and enqueues the notices, all
// in one commit. A head that runs learns it from its worker's side; any other is claimed at once and ended.
// Only the message with the life headLife is stopped: if the lane went on meanwhile, nothing is. One that is parked ends here. One that stops nothing is held to the
// rate of control messages: [corebot.ErrCommandRate]. by goes to the audit if it says denied, and ends the wait of the message's call for an approval.
func (l *Ledger) Stop(ctx context.Context, m corebot.Message, headLife int64, by corebot.AuditEvent, notice func(found bool) corebot.Message) (s corebot.Stopped, err error) {
	packed := pack([]corebot.Message{m, notice(false), notice(true)})
	err = l.db.write(ctx, "stop", func(t *tx) error {
		lane, seq, err := headTx(t, m.Key, headLife)
		if err != nil {
			return err
		}
		_, _, parked, err := isParkedTx(t, headLife)
		if err != nil {
			return err
		}
		s = corebot.Stopped{Found: seq != 0 || parked}
		r, err := l.db.controlTx(t, &packed[0], s.Found)
		s.Life, s.Duplicate, s.Found = r.Life, r.Duplicate, s.Found && !r.Duplicate
		if err != nil || r.Duplicate {
			return err
		}
		if !s.Found {
			return cmp.Or(deniedTx(t, by), noticeTx(t, &packed[1], r.Life))
		}
		if parked {
			_, err = endParkedTx(t, headLife, corebot.EndStopped, "stop")
		} else if _, err = t.exec(stopLane, seq, false, t.now, lane); err == nil {
			t.wake(corebot.InboundPool, t.now.UnixMilli())
			err = denyAwaitedTx(t, headLife, by)
		}
		return cmp.Or(err, noticeTx(t, &packed[2], r.Life))
	})
	return s, err
}

// Answer accepts a control message that changes nothing, and tells the chat what it asked for, in one commit. It is held to the rate of
// control messages: [corebot.ErrCommandRate].
func (l *Ledger) Answer(ctx context.Context, m corebot.Message, notice corebot.Message) (corebot.Receipt, error) {
	return l.Refuse(ctx, m, corebot.AuditEvent{}, notice)
}

// Refuse is [Ledger.Answer] to who may not give the command: by goes to the audit if it says denied, in the same commit.
func (l *Ledger) Refuse(ctx context.Context, m corebot.Message, by corebot.AuditEvent, notice corebot.Message) (r corebot.Receipt, err error) {
	packed := pack([]corebot.Message{m, notice})
	err = l.db.write(ctx, "answer", func(t *tx) (err error) {
		if r, err = l.db.controlTx(t, &packed[0], false); err != nil || r.Duplicate {
			return err
		}
		return cmp.Or(deniedTx(t, by), noticeTx(t, &packed[1], r.Life))
	})
	return r, err
}

// Steer accepts a /steer, as the inbound prompt that its text is. If headLife is the message whose turn runs, or will go on, that turn takes the
// text in at its next step, unless it ends before; otherwise, and always when headLife is 0, it waits its turn. notice, which may give nil, words
// what the chat is told in the same commit; by goes to the audit if it says denied. The limits of the queue hold; their errors are those of [Queue.Publish].
func (l *Ledger) Steer(ctx context.Context, m corebot.Message, headLife int64, by corebot.AuditEvent, notice func(merges bool) *corebot.Message) (s corebot.Steered, err error) {
	steer := &pack([]corebot.Message{m})[0]
	steer.steers = &headLife
	told := map[bool]*parcel{}
	for _, merges := range []bool{false, true} {
		if n := notice(merges); n != nil {
			told[merges] = &pack([]corebot.Message{*n})[0]
		}
	}
	err = l.db.write(ctx, "steer", func(t *tx) (err error) {
		if s.Receipt, err = publishTx(t, steer, l.db.limits); err != nil || s.Err != nil || s.Duplicate {
			return cmp.Or(err, s.Err)
		}
		if s.Merges, err = mergesTx(t, s.Life); err != nil {
			return err
		}
		if err := deniedTx(t, by); err != nil {
			return err
		}
		if told[s.Merges] == nil {
			return nil
		}
		return noticeTx(t, told[s.Merges], s.Life)
	})
	return s, err
}

// deniedTx leaves the audit event of a command that was denied.
func deniedTx(t *tx, by corebot.AuditEvent) error {
	if by.Outcome != corebot.OutcomeDenied {
		return nil
	}
	return auditTx(t, []corebot.AuditEvent{by})
}

// noticeTx enqueues what a chat is told of a message.
func noticeTx(t *tx, notice *parcel, cause int64) error {
	notice.cause = cause
	r, err := publishTx(t, notice, corebot.Limits{})
	return cmp.Or(err, r.Err)
}

// controlTx stores a control message as one that has been applied: it never waits, so it has no place in a queue. A message that was
// stored before is a duplicate; the same id with another body is [corebot.ErrConflict]. A command that has nothing to do is refused when its sender
// gives such commands faster than the rate in that chat. The others are bounded by what there is to stop or to retry: a flood keeps nobody from stopping.
// The rate is kept in memory: nobody who sends commands can restart the process, and a restart gives each sender one burst more.
func (db *DB) controlTx(t *tx, c *parcel, effective bool) (r corebot.Receipt, err error) {
	lane, err := findLaneTx(t, corebot.Control, c.Key)
	if err != nil {
		return r, err
	}
	who := speaker{c.Key, c.Sender.ID}
	if wait := t.flows.spoken.freeAt(who) - t.now.UnixMilli(); !effective && wait > 0 {
		r, known, err := duplicateTx(t, c, lane)
		if err == nil && !known {
			err = &corebot.TooSoon{After: time.Duration(wait) * time.Millisecond}
		}
		return r, cmp.Or(err, r.Err)
	}
	if err := makeLaneTx(t, corebot.Control, c.Key, &lane); err != nil {
		return r, err
	}
	if r.Life, err = bearTx(t, c, lane); err != nil {
		return r, err
	}
	if r.Life == 0 {
		r, _, err = duplicateTx(t, c, lane)
		return r, cmp.Or(err, r.Err)
	}
	if rate := db.limits.Control; rate.Every > 0 && !effective {
		t.flows.spoken.take(who, t.now, rate)
	}
	_, err = t.exec(endNow, string(corebot.EndApplied), t.now, t.now, r.Life)
	return r, err
}

// headTx gives the lane of a chat and the place of its head, or 0 if that is not the life meant.
func headTx(t *tx, k corebot.Key, headLife int64) (laneID, seq int64, err error) {
	if headLife == 0 {
		return 0, 0, nil
	}
	lane, err := findLaneTx(t, corebot.Inbound, k)
	if err != nil {
		return 0, 0, err
	}
	var life int64
	found, err := t.one(selectHead, []any{&life, &seq}, lane.id)
	if err != nil || !found || life != headLife {
		return 0, 0, err
	}
	return lane.id, seq, nil
}

var headOf = &query{`SELECT m.id, m.sender FROM lanes l
	JOIN message_queue q ON q.lane_id = l.id AND q.seq > l.past JOIN message_life m ON m.id = q.life_id
	WHERE l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ? ORDER BY q.seq LIMIT 1`}

// Head is the message that a chat works on or waits for: its life and its sender. Of an empty lane it is the oldest message that is parked. A
// life of 0 means that there is none.
func (l *Ledger) Head(ctx context.Context, k corebot.Key) (life int64, sender corebot.Principal, err error) {
	sender = corebot.Principal{Channel: k.Channel, Account: k.Account}
	for _, q := range []*query{headOf, oldestInLot} {
		found, err := l.db.reader.one(ctx, q, []any{&life, &sender.ID}, int64(corebot.Inbound), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
		if err != nil || found {
			return life, senderIn(k, sender.ID), err
		}
	}
	return 0, sender, nil
}

var (
	// Without an id the asker means the newest of his own; the partial index of the dead has them in order.
	newestDead = &query{`SELECT m.id, m.message_id, m.sender, m."end", m.reason FROM message_life m JOIN lanes l ON l.id = m.lane_id
		WHERE m."end" = 'dead' AND m.sender = ? AND l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ?
		ORDER BY m.ended_at DESC LIMIT 1`}
	lifeInChat = &query{`SELECT m.id, m.message_id, m.sender, m."end", m.reason FROM message_life m JOIN lanes l ON l.id = m.lane_id
		WHERE m.message_id = ? AND l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ?`}
)

// Meant finds the message of a chat that a /retry is about: the one with the id, whatever became of it, or, without an id, the
// newest dead letter of the asker. Only its life, id, sender, end and reason are filled in. None is [corebot.ErrNotFound].
func (l *DeadLetters) Meant(ctx context.Context, k corebot.Key, messageID string, asker corebot.Principal) (corebot.Life, error) {
	q, what := lifeInChat, messageID
	if messageID == "" {
		q, what = newestDead, asker.ID
	}
	life := corebot.Life{Key: k, Sender: corebot.Principal{Channel: k.Channel, Account: k.Account}}
	var end string
	found, err := l.db.reader.one(ctx, q, []any{&life.ID, &life.MessageID, &life.Sender.ID, &end, &life.Reason},
		what, int64(corebot.Inbound), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err == nil && !found {
		err = fmt.Errorf("message %q of this chat: %w", messageID, corebot.ErrNotFound)
	}
	life.End, life.Sender = corebot.End(end), senderIn(k, life.Sender.ID)
	return life, err
}

// Retry accepts a /retry: its life row, the replay of the letter (0: none may be had) and the notice to the chat are one commit.
// notice words what came of it: nil for replayed, [corebot.ErrNotFound] for a letter that is dead no longer, or none, and
// [corebot.ErrOverloaded] for no room. by goes to the audit, also when it says denied. A duplicate changes nothing.
func (l *DeadLetters) Retry(ctx context.Context, m corebot.Message, id int64, by corebot.AuditEvent, notice func(error) corebot.Message) (r corebot.Receipt, err error) {
	verdicts := []error{nil, corebot.ErrNotFound, corebot.ErrOverloaded}
	messages := []corebot.Message{m}
	for _, v := range verdicts {
		messages = append(messages, notice(v))
	}
	packed := pack(messages)
	letters := l.As(by)
	err = l.db.write(ctx, "retry", func(t *tx) (err error) {
		replays, err := letters.replaysTx(t, id)
		if err != nil {
			return err
		}
		if r, err = l.db.controlTx(t, &packed[0], replays); err != nil || r.Duplicate {
			return err
		}
		verdict, err := letters.retryTx(t, id)
		if err != nil {
			return err
		}
		return noticeTx(t, &packed[1+verdict], r.Life)
	})
	return r, err
}

// replaysTx says whether a letter can be replayed now.
func (l *DeadLetters) replaysTx(t *tx, id int64) (bool, error) {
	if id == 0 {
		return false, nil
	}
	d, err := letterTx(t, id)
	if errors.Is(err, corebot.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	lane, err := findLaneTx(t, d.direction, d.key)
	return err == nil && d.body != nil && l.roomTx(t, d, lane, d.body) == nil, err
}

// retryTx replays a letter and says which verdict that is.
func (l *DeadLetters) retryTx(t *tx, id int64) (verdict int, err error) {
	if id == 0 {
		if l.by.Outcome == corebot.OutcomeDenied {
			err = auditTx(t, []corebot.AuditEvent{l.by})
		}
		return 1, err
	}
	switch err := l.replayTx(t, id, false); {
	case errors.Is(err, corebot.ErrNotFound), errors.Is(err, errUnreadable):
		return 1, nil
	case noRoom(err):
		return 2, nil
	default:
		return 0, err
	}
}
