package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
)

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
	life.End = corebot.End(end)
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
