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
	selectHead = &query{
		`SELECT q.life_id, q.seq FROM lanes l JOIN message_queue q ON q.lane_id = l.id AND q.seq > l.past
			WHERE l.id = ? ORDER BY q.seq LIMIT 1`,
	}
	stopLane = &query{
		`UPDATE lanes SET stop_seq = ?, interrupted = ?, wake_at = CASE WHEN leased = 1 THEN wake_at ELSE MIN(wake_at,
			?) END WHERE id = ?`,
	}
	endNow = &query{`UPDATE message_life SET "end" = ?, claimed_at = ?, ended_at = ? WHERE id = ?`}
)

// Stop accepts a /stop. One commit marks the head of the chat's lane, whatever its state, and enqueues the notice. A
// running turn is cancelled by its worker. A head that does not run is claimed at once and ended. A deferred message
// ends here.
//
// Stop stops only the message with the life headLife. If the lane has gone on meanwhile, it stops nothing. A /stop that
// stops nothing counts for the rate of control messages: [corebot.ErrCommandRate]. by goes to the audit if its outcome
// is denied. by also ends the wait of the message's call for an approval. The same commit stops the questions to other
// agents that are still at the head of their conversations.
func (l *Ledger) Stop(ctx context.Context, m corebot.Message, headLife int64, by corebot.AuditEvent,
	notice func(found bool) corebot.Message, asked ...corebot.Head,
) (s corebot.Stopped, err error) {
	packed := pack([]corebot.Message{m, notice(false), notice(true)})
	err = l.db.write(ctx, "stop", func(t *tx) error {
		lane, seq, err := headTx(t, m.Key, headLife)
		if err != nil {
			return err
		}
		_, _, deferred, err := isDeferredTx(t, headLife)
		if err != nil {
			return err
		}
		questions, err := headsTx(t, asked)
		if err != nil {
			return err
		}
		own, err := findLaneTx(t, corebot.Inbound, m.Key)
		if err != nil {
			return err
		}
		detached := stopsDetached(own, asked)
		s = corebot.Stopped{Found: seq != 0 || deferred || len(questions) > 0 || detached}
		r, err := l.db.controlTx(t, &packed[0], s.Found)
		s.Life, s.Duplicate, s.Found = r.Life, r.Duplicate, s.Found && !r.Duplicate
		if err != nil || r.Duplicate {
			return err
		}
		if !s.Found {
			return cmp.Or(commandTx(t, by), noticeTx(t, &packed[1], r.Life))
		}
		if deferred {
			_, err = endDeferredTx(t, headLife, corebot.EndStopped, "stop")
		} else if seq != 0 {
			err = stopHeadTx(t, standing{lane, seq, headLife}, by)
		}
		for _, q := range questions {
			err = cmp.Or(err, stopHeadTx(t, q, by))
		}
		if detached && err == nil {
			_, err = giveUpDetachedTx(t, own.id, own.detached, stoppedBy(by))
		}
		return cmp.Or(err, noticeTx(t, &packed[2], r.Life))
	})
	return s, err
}

// standing is a message that stands at the head of its lane.
type standing struct{ lane, seq, life int64 }

// headsTx returns those of the messages that are still at the heads of their lanes.
func headsTx(t *tx, of []corebot.Head) (heads []standing, err error) {
	for _, h := range of {
		lane, seq, err := headTx(t, h.Key, h.Life)
		if err != nil {
			return nil, err
		}
		if seq != 0 {
			heads = append(heads, standing{lane, seq, h.Life})
		}
	}
	return heads, nil
}

func stopHeadTx(t *tx, h standing, by corebot.AuditEvent) error {
	if _, err := t.exec(stopLane, h.seq, false, t.now, h.lane); err != nil {
		return err
	}
	t.wake(corebot.InboundPool, t.now.UnixMilli())
	if err := giveUpTx(t, h.life, waitStopped, by); err != nil {
		return err
	}
	if err := stopJobsTx(t, h.life, by); err != nil {
		return err
	}
	if err := giveUpAskedTx(t, h.life, stoppedBy(by)); err != nil {
		return err
	}
	return denyAwaitedTx(t, h.life, by)
}

// Asked returns the questions that the turns of a chat, and the turns of these questions, have asked agents and that
// have not ended. A conversation that was never begun ends the search, and so does [corebot.MaxHops]. Questions of jobs
// in the background are not among them: such a job goes on while its chat is stopped. The message of the chat's
// detached request is among them.
func (l *Ledger) Asked(ctx context.Context, k corebot.Key, agents []string) (found []corebot.Head, err error) {
	if found, err = l.detached(ctx, k); err != nil {
		return nil, err
	}
	err = l.db.reader.view(ctx, func(c *prepared) error {
		from := []corebot.Key{k}
		for range corebot.MaxHops {
			var next []corebot.Key
			for _, asking := range from {
				for _, agent := range agents {
					to := corebot.AskedFrom(asking, agent)
					begun, err := askedOf(c, to, &found)
					if err != nil {
						return err
					}
					if begun {
						next = append(next, to)
					}
				}
			}
			from = next
		}
		return nil
	})
	return found, err
}

var begunLaneOf = &query{`SELECT depth > 0 FROM lanes
	WHERE direction = ? AND agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`}

// askedOf adds the head of a conversation between agents. begun says whether the conversation exists.
func askedOf(c *prepared, k corebot.Key, found *[]corebot.Head) (begun bool, err error) {
	place := []any{int64(corebot.Inbound), k.Agent, k.Channel, k.Account, k.Chat, k.Thread}
	waits := false
	err = c.each(begunLaneOf, func(s scanner) error {
		begun = true
		return s.Scan(&waits)
	}, place...)
	if err != nil || !waits {
		return begun, err
	}
	h := corebot.Head{Key: k}
	if err = c.each(headOf, func(s scanner) error {
		var sender string
		err := s.Scan(&h.Life, &sender)
		h.Sender = senderIn(k, sender)
		return err
	}, place...); err != nil || h.Life == 0 {
		return true, err
	}
	apart, err := inBackground(c, h.Life)
	if !apart {
		*found = append(*found, h)
	}
	return true, err
}

// causeOfWork is what has begun the work on a message, and whether that goes on in the background.
var causeOfWork = &query{`SELECT COALESCE(j.parent_id, m.cause_id, 0),
	COALESCE(j.background = 1 AND j.state = 'open', 0)
	FROM message_life m LEFT JOIN jobs j ON j.life_id = m.id WHERE m.id = ?`}

// inBackground says whether a message belongs to an open job in the background: it is one, or one has caused it.
func inBackground(c *prepared, life int64) (apart bool, err error) {
	for range corebot.MaxHops * (corebot.MaxJobDepth + 1) {
		next := int64(0)
		err := c.each(causeOfWork, func(s scanner) error { return s.Scan(&next, &apart) }, life)
		if err != nil || apart || next == 0 {
			return apart, err
		}
		life = next
	}
	return false, nil
}

// Answer accepts a control message that changes nothing, and enqueues its notice, in one commit. It counts for the rate
// of control messages: [corebot.ErrCommandRate].
func (l *Ledger) Answer(ctx context.Context, m corebot.Message, notice corebot.Message) (corebot.Receipt, error) {
	return l.Refuse(ctx, m, corebot.AuditEvent{}, notice)
}

// Refuse is [Ledger.Answer] for a denied command: by goes to the audit in the same commit, if its outcome is denied.
func (l *Ledger) Refuse(ctx context.Context, m corebot.Message, by corebot.AuditEvent,
	notice corebot.Message,
) (r corebot.Receipt, err error) {
	packed := pack([]corebot.Message{m, notice})
	err = l.db.write(ctx, "answer", func(t *tx) (err error) {
		if r, err = l.db.controlTx(t, &packed[0], false); err != nil || r.Duplicate {
			return err
		}
		return cmp.Or(commandTx(t, by), noticeTx(t, &packed[1], r.Life))
	})
	return r, err
}

// Steer accepts a /steer as the inbound prompt of its text. If the turn of headLife runs or will go on, that turn
// merges the text at its next step, unless it ends before. Otherwise the prompt waits its turn; it always does so if
// headLife is 0. Steer calls notice for the chat's notice, which can be nil. The notice is in the same commit. by goes
// to the audit if its outcome is denied. The limits of the queue hold, with the errors of [Queue.Publish].
func (l *Ledger) Steer(ctx context.Context, m corebot.Message, headLife int64, by corebot.AuditEvent,
	notice func(merges bool) *corebot.Message,
) (s corebot.Steered, err error) {
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
		if err := commandTx(t, by); err != nil {
			return err
		}
		if told[s.Merges] == nil {
			return nil
		}
		return noticeTx(t, told[s.Merges], s.Life)
	})
	return s, err
}

// commandTx writes the audit event of a command that has one.
func commandTx(t *tx, by corebot.AuditEvent) error {
	if by.Outcome == "" {
		return nil
	}
	return auditTx(t, []corebot.AuditEvent{by})
}

// noticeTx enqueues a notice about a message.
func noticeTx(t *tx, notice *parcel, cause int64) error {
	notice.cause = cause
	r, err := publishTx(t, notice, corebot.Limits{})
	return cmp.Or(err, r.Err)
}

// controlTx stores a control message as applied. It never waits, so it has no place in a queue. A message that was
// stored before is a duplicate. The same id with another body is [corebot.ErrConflict], also if a prompt of the chat
// has the id.
//
// A command without effect is refused if the sender exceeds the rate of such commands in the chat. Effective commands
// are bounded by what there is to stop or to retry, so a flood keeps nobody from stopping. The rate is kept in memory.
// A sender of commands cannot restart the process, and a restart gives each sender only one more burst.
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
	if r, taken, err := usedBesideTx(t, c, lane); taken || err != nil {
		return r, cmp.Or(err, r.Err)
	}
	if err := makeLaneTx(t, corebot.Control, c.Key, &lane); err != nil {
		return r, err
	}
	if r.Life, err = beginLifeTx(t, c, lane); err != nil {
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

// numbered is a chat command about something that waits under a number.
type numbered struct {
	name    string // of the writer's operation
	message corebot.Message
	id      int64              // 0: the command has no effect
	by      corebot.AuditEvent // written if its outcome is denied
	stands  func(t *tx) (bool, error)
	does    func(t *tx) error
	tells   func(error) bool // errors of does that the chat is told, beside [corebot.ErrNotFound]
	notice  func(error) corebot.Message
}

// command accepts a chat command about something that waits. One commit has its life, its effect and the notice. A
// duplicate changes nothing.
func (db *DB) command(ctx context.Context, c numbered) (r corebot.Receipt, err error) {
	control := &pack([]corebot.Message{c.message})[0]
	err = db.write(ctx, c.name, func(t *tx) (err error) {
		effective, err := c.stands(t)
		if err != nil {
			return err
		}
		if r, err = db.controlTx(t, control, effective); err != nil || r.Duplicate {
			return err
		}
		verdict := corebot.ErrNotFound
		switch {
		case c.by.Outcome == corebot.OutcomeDenied:
			err = auditTx(t, []corebot.AuditEvent{c.by})
		case c.id != 0:
			verdict = c.does(t)
			if verdict != nil && !errors.Is(verdict, corebot.ErrNotFound) && !c.tells(verdict) {
				err = verdict
			}
		}
		if err != nil {
			return err
		}
		return noticeTx(t, &pack([]corebot.Message{c.notice(verdict)})[0], r.Life)
	})
	return r, err
}

// headTx returns the lane of a chat and the place of its head; 0 if the head is not headLife.
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
	WHERE l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ?
	ORDER BY q.seq LIMIT 1`}

// Head returns the life and the sender of the message that a chat works on or waits for. In an empty lane that is the
// oldest deferred message. A life of 0 means that there is none.
func (l *Ledger) Head(ctx context.Context, k corebot.Key) (life int64, sender corebot.Principal, err error) {
	sender = corebot.Principal{Channel: k.Channel, Account: k.Account}
	for _, q := range []*query{headOf, oldestDeferred} {
		found, err := l.db.reader.one(ctx, q, []any{&life, &sender.ID}, int64(corebot.Inbound), k.Agent, k.Channel,
			k.Account, k.Chat, k.Thread)
		if err != nil || found {
			return life, senderIn(k, sender.ID), err
		}
	}
	return 0, sender, nil
}

var (
	// Without an id the asker means his newest dead letter. The partial index of the dead has the letters in order.
	newestDead = &query{`SELECT m.id, m.message_id, m.sender, m."end", m.reason FROM message_life m
		JOIN lanes l ON l.id = m.lane_id
		WHERE m."end" = 'dead' AND m.sender = ? AND l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ?
		AND l.chat = ? AND l.thread = ?
		ORDER BY m.ended_at DESC LIMIT 1`}
	lifeInChat = &query{`SELECT m.id, m.message_id, m.sender, m."end", m.reason FROM message_life m
		JOIN lanes l ON l.id = m.lane_id
		WHERE m.message_id = ? AND l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ?
		AND l.thread = ?`}
)

// Meant finds the message of a chat that a /retry names by its id, whatever its state. Without an id it is the newest
// dead letter of the asker. Only life, id, sender, end and reason are filled in. If there is none, the error is
// [corebot.ErrNotFound].
func (l *DeadLetters) Meant(ctx context.Context, k corebot.Key, messageID string,
	asker corebot.Principal,
) (corebot.Life, error) {
	q, what := lifeInChat, messageID
	if messageID == "" {
		q, what = newestDead, storedSender(k, asker)
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

// Retry accepts a /retry. One commit has its life row, the replay of the letter (id 0: none) and the notice. Retry
// calls notice once for each possible result: nil, [corebot.ErrNotFound] if the letter is not dead, and
// [corebot.ErrOverloaded] if there is no room. It enqueues the notice of the actual result. by goes to the audit, also
// when its outcome is denied. A duplicate changes nothing.
func (l *DeadLetters) Retry(ctx context.Context, m corebot.Message, id int64, by corebot.AuditEvent,
	notice func(error) corebot.Message,
) (r corebot.Receipt, err error) {
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

// retryTx replays a letter and returns the index of the result among the verdicts.
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
