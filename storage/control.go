package storage

import (
	"cmp"
	"context"

	"github.com/corebot/corebot"
)

var (
	selectHead = &query{`SELECT life_id, seq FROM message_queue WHERE lane_id = ? ORDER BY seq LIMIT 1`}
	stopLane   = &query{`UPDATE lanes SET stop_seq = ?, wake_at = CASE WHEN leased = 1 THEN wake_at ELSE MIN(wake_at, ?) END WHERE id = ?`}
	endNow     = &query{`UPDATE message_life SET "end" = ?, claimed_at = ?, ended_at = ? WHERE id = ?`}
)

// Stop accepts a /stop: it marks the head of the chat's lane, wherever that is in its life, and enqueues the notices, all
// in one commit. A head that runs learns it from its worker's side; any other is claimed at once and ended.
// Only the message with the life headLife is stopped: if the lane went on meanwhile, nothing is.
func (l *Ledger) Stop(ctx context.Context, m corebot.Message, headLife int64, notice func(found bool) corebot.Message) (s corebot.Stopped, err error) {
	control, err := pack([]corebot.Message{m})
	if err != nil {
		return s, err
	}
	answers, err := pack([]corebot.Message{notice(false), notice(true)})
	if err != nil {
		return s, err
	}
	err = l.db.write(ctx, "stop", func(t *tx) error {
		s = corebot.Stopped{}
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
			s.Life, s.Duplicate = r.Life, true
			if err == nil {
				err = r.Err
			}
			return err
		}
		if _, err := t.exec(endNow, string(corebot.EndApplied), t.now, t.now, life); err != nil {
			return err
		}
		s.Life = life
		if s.Found, err = stopHeadTx(t, m.Key, headLife); err != nil {
			return err
		}
		answer := &answers[0]
		if s.Found {
			answer = &answers[1]
		}
		answer.cause = life
		r, err := publishTx(t, answer, corebot.Limits{})
		return cmp.Or(err, r.Err)
	})
	return s, err
}

func stopHeadTx(t *tx, k corebot.Key, headLife int64) (bool, error) {
	lane, err := laneTx(t, corebot.Inbound, k)
	if err != nil {
		return false, err
	}
	var life, seq int64
	found, err := t.one(selectHead, []any{&life, &seq}, lane.id)
	if err != nil || !found || life != headLife {
		return false, err
	}
	if _, err := t.exec(stopLane, seq, t.now, lane.id); err != nil {
		return false, err
	}
	t.wake(corebot.InboundPool, t.now.UnixMilli())
	return true, nil
}

var headOf = &query{`SELECT m.id, m.sender FROM lanes l
	JOIN message_queue q ON q.lane_id = l.id JOIN message_life m ON m.id = q.life_id
	WHERE l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ? ORDER BY q.seq LIMIT 1`}

// Head is the message that a chat works on or waits for: its life and its sender. A life of 0 means that there is none.
func (l *Ledger) Head(ctx context.Context, k corebot.Key) (life int64, sender corebot.Principal, err error) {
	sender = corebot.Principal{Channel: k.Channel, Account: k.Account}
	_, err = l.db.reader.one(ctx, headOf, []any{&life, &sender.ID}, int64(corebot.Inbound), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return life, sender, err
}
