package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
)

var (
	selectCursor = &query{`SELECT position, moves FROM channel_cursors WHERE channel = ? AND account = ?`}
	upsertCursor = &query{`INSERT INTO channel_cursors (channel, account, position, moves, moved_at)
		VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (channel, account) DO UPDATE SET position = excluded.position, moves = excluded.moves,
		moved_at = excluded.moved_at`}
)

// Cursor is how far an account of a channel has received. An account that never received has the zero cursor.
func (q *Queue) Cursor(ctx context.Context, channel, account string) (c corebot.Cursor, err error) {
	if _, err = q.db.reader.one(ctx, selectCursor, []any{&c.Position, &c.Moves}, channel, account); err != nil {
		err = fmt.Errorf("read the cursor of %s:%s: %w", channel, account, err)
	}
	return c, err
}

// Receive publishes the messages of a batch and moves the account's cursor, in one transaction. It returns a receipt
// for each message, and the cursor as it is now. A receipt has the error of a message that breaks a rule of its own,
// its chat or its sender; the other messages are stored, and the cursor moves.
//
// A queue or a disk without room for the whole batch is the returned error, and nothing is stored. So is
// [corebot.ErrCursorMoved]: the batch was received behind another cursor than the stored one. A batch that is repeated,
// because its outcome was unknown, is no such error.
func (q *Queue) Receive(ctx context.Context, b corebot.Batch,
	lim corebot.Limits,
) (receipts []corebot.Receipt, now corebot.Cursor, err error) {
	parcels := pack(b.Messages)
	receipts = make([]corebot.Receipt, len(parcels))
	err = q.db.write(ctx, "receive", func(t *tx) (err error) {
		repeated := false
		if now, repeated, err = cursorTx(t, b); err != nil {
			return err
		}
		for i := range parcels {
			receipts[i], err = publishTx(t, &parcels[i], lim)
			if err == nil && noRoomForAnybody(receipts[i].Err) {
				err = receipts[i].Err
			}
			if err != nil {
				return err
			}
		}
		if repeated {
			return nil
		}
		_, err = t.exec(upsertCursor, b.Channel, b.Account, now.Position, now.Moves, t.now)
		return err
	})
	if err != nil {
		return nil, corebot.Cursor{}, err
	}
	return receipts, now, nil
}

// cursorTx compares the cursor that a batch was received behind with the stored cursor. It returns the cursor that the
// batch makes. repeated says that an earlier commit of the same batch has stored that cursor already.
func cursorTx(t *tx, b corebot.Batch) (next corebot.Cursor, repeated bool, err error) {
	var stored corebot.Cursor
	_, err = t.one(selectCursor, []any{&stored.Position, &stored.Moves}, b.Channel, b.Account)
	next = corebot.Cursor{Position: b.Cursor.Position, Moves: b.Cursor.Moves + 1}
	switch {
	case err != nil:
		return next, false, err
	case stored.Moves == b.Cursor.Moves:
		return next, false, nil
	case stored == next:
		return next, true, nil
	}
	return next, false, fmt.Errorf("%w: it has moved %d times, and the batch was received after %d",
		corebot.ErrCursorMoved, stored.Moves, b.Cursor.Moves)
}

// noRoomForAnybody says whether a message was refused for want of room that all chats share.
func noRoomForAnybody(err error) bool {
	return errors.Is(err, corebot.ErrOverloaded) || errors.Is(err, corebot.ErrDiskFull)
}

var (
	// The life that has the place is counted with the other lives of the lane.
	takeHeardPlace = &query{`UPDATE lanes SET next_seq = next_seq + 1 WHERE id = ?`}
	forgetHeard    = &query{`DELETE FROM history
		WHERE chat_id = ? AND session = ? AND ordinal = 0 AND seq BETWEEN ? AND ? AND EXISTS (
			SELECT 1 FROM message_life m WHERE m.message_id = history.message_id AND m.lane_id = ?
			AND m."end" = '` + string(corebot.EndHeard) + `')`}
)

// hearTx keeps a message as context of its chat: a history entry of its sender, at a place of its own behind what
// waits.
// Its life ends here. Of the messages that a chat has heard, those of the newest [corebot.MaxHeard] places stay.
func hearTx(t *tx, p *parcel, l lane, life int64) error {
	chat, err := chatTx(t, p.Key)
	if err != nil {
		return err
	}
	text, parts, err := encodeParts(p.Parts)
	if err != nil {
		return err
	}
	if _, err := t.exec(takeHeardPlace, l.id); err != nil {
		return err
	}
	if _, err := t.exec(endNow, string(corebot.EndHeard), t.now, t.now, life); err != nil {
		return err
	}
	t.said = true
	metadata := ""
	if !p.Metadata.Empty() {
		metadata = p.Metadata.String()
	}
	if _, err := t.exec(appendHistory, chat.ID, chat.Session, l.nextSeq, 0, string(corebot.SpeakerUser),
		storedSender(p.Key, p.Sender), p.SenderName, text, parts, metadata, "", "", false, p.ID, t.now); err != nil {
		return err
	}
	oldest := l.nextSeq - corebot.MaxHeard
	_, err = t.exec(forgetHeard, chat.ID, chat.Session, oldest-corebot.MaxHeard+1, oldest, l.id)
	return err
}
