package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
// for each message, and the cursor as it is now. If a message breaks a rule, its receipt has the error. The
// other messages are stored, and the cursor moves.
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
	if err := usedTx(t, chat); err != nil {
		return err
	}
	if nothing, err := keepsNothingTx(t, p.Key); err != nil || nothing {
		return err
	}
	t.said = true
	metadata := ""
	if !p.Metadata.Empty() {
		metadata = p.Metadata.String()
	}
	if _, err := t.exec(appendHistory, chat.ID, chat.Session, l.nextSeq, 0, string(corebot.SpeakerUser),
		storedSender(p.Key, p.Sender), p.SenderName, text, parts, metadata, "", "", p.Envelope.Forwarded,
		p.ID, t.now); err != nil {
		return err
	}
	oldest := l.nextSeq - corebot.MaxHeard
	_, err = t.exec(forgetHeard, chat.ID, chat.Session, oldest-corebot.MaxHeard+1, oldest, l.id)
	return err
}

// original is an earlier message of a lane that another message edits or deletes.
type original struct {
	life, run, merged int64
	sender, end       string
	seq, size         int64 // of its row in the queue; seq 0: it has none
	deferred          int64 // the size of its row among the deferred messages; 0: it has none
	journal           bool  // work on it has begun, perhaps in an earlier process
}

const originalColumns = `SELECT m.id, m.run, COALESCE(m.merged_id, 0), m.sender, m."end", COALESCE(q.seq, 0),
	COALESCE(LENGTH(q.body), 0), COALESCE(LENGTH(p.body), 0),
	EXISTS (SELECT 1 FROM execution_steps s WHERE s.life_id = m.id AND s.run = m.run)
	FROM message_life m JOIN lanes l ON l.id = m.lane_id
	LEFT JOIN message_queue q ON q.life_id = m.id AND q.seq > l.past
	LEFT JOIN message_parked p ON p.life_id = m.id `

var (
	originalByID = &query{originalColumns + `WHERE m.message_id = ? AND m.lane_id = ?`}
	originalLife = &query{originalColumns + `WHERE m.id = ?`}
	replaceBody  = &query{`UPDATE message_queue SET life_id = ?, body = ? WHERE life_id = ?`}
	joinOther    = &query{`UPDATE message_queue SET merge_into = ? WHERE merge_into = ? AND merge_into <> 0`}
	replaceAside = &query{`UPDATE message_parked SET life_id = ?, body = ? WHERE life_id = ?`}
	growLane     = &query{`UPDATE lanes SET bytes = bytes + ? WHERE id = ?`}
	endReplaced  = &query{`UPDATE message_life SET "end" = '` + string(corebot.EndReplaced) +
		`', merged_id = ?, ended_at = ? WHERE id = ?`}
	nameNewest = &query{`UPDATE message_life SET merged_id = ? WHERE id = ?`}
)

func (o *original) columns() []any {
	return []any{&o.life, &o.run, &o.merged, &o.sender, &o.end, &o.seq, &o.size, &o.deferred, &o.journal}
}

// maxEdits bounds how many edits of edits are followed to the newest text.
const maxEdits = 50

// originalTx finds the message that has an id in a lane, in its newest edit. The result named is the life that has the
// id itself.
func originalTx(t *tx, lane int64, id string) (o original, named int64, found bool, err error) {
	found, err = t.one(originalByID, o.columns(), id, lane)
	named = o.life
	for n := 0; err == nil && found && o.end == string(corebot.EndReplaced) && o.merged != 0 && n < maxEdits; n++ {
		found, err = t.one(originalLife, o.columns(), o.merged)
	}
	return o, named, found, err
}

// change is what an edit does.
type change uint8

const (
	changeNothing change = iota // the edit is context: it is heard
	changeBody                  // it takes the place of a message that waits in its lane
	changeAside                 // it takes the place of a deferred message
	changeTurn                  // it steers a turn that runs or will go on
	changeRun                   // it joins the turn of a message that waits with the work of an earlier run
)

// editing is an edit on its way in.
type editing struct {
	change
	of    original
	named int64 // the life of the message that the edit names
}

// editTx says what an edit changes. It changes only a message of its own sender in its own conversation. A sender whom
// the channel cannot name changes nothing, because nothing tells such senders apart.
func editTx(t *tx, p *parcel, l lane) (e editing, err error) {
	if p.Sender.ID == "" || l.id == 0 || strings.HasPrefix(p.EditOf, corebot.OwnIDs) {
		return e, nil
	}
	var found bool
	if e.of, e.named, found, err = originalTx(t, l.id, p.EditOf); err != nil || !found ||
		e.of.sender != storedSender(p.Key, p.Sender) {
		return e, err
	}
	h, err := busyHeadTx(t, l)
	if err != nil {
		return e, err
	}
	merged := e.of.end == string(corebot.EndMerged) && e.of.merged == h.life
	switch begun := h.begun && (merged || e.of.life == h.life); {
	case e.of.deferred > 0:
		e.change = changeAside
	case begun && (h.canMerge() || !h.runs()): // a turn that is about to stop merges nothing: the edit has its own
		e.change, e.of.life = changeTurn, h.life
	case begun || e.of.seq == 0: // a command that runs, or a message that has ended
	case e.of.run > 1 || e.of.journal:
		e.change = changeRun
	default:
		e.change = changeBody
	}
	return e, nil
}

// growth is how many bytes a waiting message grows by.
func (e editing) growth(p *parcel) int64 { return int64(len(p.body)) - e.of.size - e.of.deferred }

// over refuses an edit for want of room. An edit that takes the place of a message needs room for its growth alone, and
// one that is heard does not wait.
func (e editing) over(t *tx, p *parcel, l lane, lim corebot.Limits) error {
	switch {
	case e.change == changeTurn || e.change == changeRun:
		return overLimit(t, p, l, lim)
	case t.diskLow:
		return fmt.Errorf("%w: its free space is under the floor", corebot.ErrDiskFull)
	case e.change == changeNothing || e.growth(p) <= 0:
		return nil
	case lim.TotalBytes > 0 && t.total.bytes+e.growth(p) > lim.ForOthers(lim.TotalBytes):
		return fmt.Errorf("%w: %d of %d bytes", corebot.ErrOverloaded, t.total.bytes, lim.TotalBytes)
	}
	return t.waiting.overGrowth(p, lim, e.growth(p))
}

// applyTx does what the edit does. The edit is a message with a life of its own.
func (e editing) applyTx(t *tx, p *parcel, l lane, life int64, lim corebot.Limits) error {
	if e.change == changeNothing {
		return hearTx(t, p, l, life)
	}
	edits := corebot.Attempt{Run: 1, At: t.now, What: attemptEdit, Plain: "of message " + p.EditOf}
	if _, err := t.exec(logLife, appendAttempt("", edits), life); err != nil {
		return err
	}
	if lim.SenderDepth > 0 || lim.SenderBytes > 0 {
		t.waiting.add(senderOf(p.Key, storedSender(p.Key, p.Sender)), life, 1, len(p.body))
	}
	switch e.change {
	case changeTurn:
		return steerTx(t, p, l, life, e.of.life)
	case changeRun:
		return pushMergingTx(t, p, l, life, e.of.life)
	}
	return e.replaceTx(t, p, l, life)
}

// replaceTx puts an edit in the place of the message that waits, and ends that message as replaced. Messages that were
// to join its turn join the turn of the edit. The edit has a place of its own in the count of the lane's places, as
// what is heard has.
func (e editing) replaceTx(t *tx, p *parcel, l lane, life int64) error {
	old, body := e.of.life, replaceBody
	if e.change == changeAside {
		body = replaceAside
	} else if _, err := t.exec(growLane, e.growth(p), l.id); err != nil {
		return err
	}
	if _, err := t.exec(body, life, p.body, old); err != nil {
		return err
	}
	if _, err := t.exec(joinOther, life, old); err != nil {
		return err
	}
	t.total.bytes += e.growth(p)
	if err := t.waiting.addLife(t, old, -1, int(e.of.size+e.of.deferred)); err != nil {
		return err
	}
	if _, err := t.exec(takeHeardPlace, l.id); err != nil {
		return err
	}
	if _, err := t.exec(endReplaced, life, t.now, old); err != nil || e.named == old {
		return err
	}
	_, err := t.exec(nameNewest, life, e.named) // the next edit of the same message finds this one at once
	return err
}

// Cancel accepts the deletion of a message on its platform. One commit ends the message as deleted and stores the
// deletion as applied, if the message waits and no work on it has begun. Otherwise nothing changes and nothing is
// stored, and the receipt has no life.
func (l *Ledger) Cancel(ctx context.Context, m corebot.Message) (r corebot.Receipt, err error) {
	packed := &pack([]corebot.Message{m})[0]
	err = l.db.write(ctx, "cancel", func(t *tx) error {
		r = corebot.Receipt{}
		lane, err := findLaneTx(t, corebot.Inbound, m.Key)
		if err != nil || lane.id == 0 {
			return err
		}
		o, _, found, err := originalTx(t, lane.id, m.DeleteOf)
		if err != nil || !found || o.seq == 0 && o.deferred == 0 || o.journal {
			return err
		}
		h, err := busyHeadTx(t, lane)
		if err != nil || o.life == h.life && h.begun {
			return err
		}
		if r, err = l.db.controlTx(t, packed, true); err != nil || r.Duplicate {
			return err
		}
		if o.deferred > 0 {
			_, err = endDeferredTx(t, o.life, corebot.EndDeleted, "")
			return err
		}
		return cutTx(t, m.Key, lane, o, o.life == h.life)
	})
	return r, err
}

var (
	cutLane = &query{`UPDATE lanes SET depth = depth - 1, bytes = bytes - ? WHERE id = ?`}
	cutHead = &query{`UPDATE lanes SET depth = depth - 1, bytes = bytes - ?,
		wake_at = CASE WHEN depth > 1 THEN MAX(?, free_at, quiet_at) END,
		waiting = CASE WHEN depth = 1 OR MAX(free_at, quiet_at) <= ? THEN ''
		WHEN quiet_at > free_at THEN '` + corebot.Collecting + `' ELSE '` + corebot.Throttled + `' END
		WHERE id = ? AND leased = 0`}
	nextOfGroup = &query{`SELECT life_id FROM message_queue WHERE merge_into = ? AND merge_into <> 0 ORDER BY seq
			LIMIT 1`}
	leaveGroup = &query{`UPDATE message_queue SET merge_into = 0 WHERE life_id = ?`}
	endDeleted = &query{`UPDATE message_life SET "end" = '` + string(corebot.EndDeleted) +
		`', ended_at = ? WHERE id = ?`}
)

// cutTx takes a message out of its lane that no turn has begun to answer. If others were to join its turn, they join
// the turn of the first of them.
func cutTx(t *tx, k corebot.Key, l lane, o original, head bool) error {
	var next int64
	joined, err := t.one(nextOfGroup, []any{&next}, o.life)
	if err == nil && joined {
		if _, err = t.exec(leaveGroup, next); err == nil {
			_, err = t.exec(joinOther, next, o.life)
		}
	}
	if err != nil {
		return err
	}
	if _, err := t.exec(deleteBody, o.life); err != nil {
		return err
	}
	if head {
		if err := letGoTx(t, l.id); err != nil {
			return err
		}
		if _, err := t.exec(cutHead, o.size, t.now, t.now, l.id); err != nil {
			return err
		}
		t.wake(corebot.InboundPool, t.now.UnixMilli())
	} else if _, err := t.exec(cutLane, o.size, l.id); err != nil {
		return err
	}
	t.total.depth[corebot.Inbound]--
	t.total.bytes -= o.size
	if err := t.waiting.addLife(t, o.life, -1, int(o.size)); err != nil {
		return err
	}
	_, err = t.exec(endDeleted, t.now, o.life)
	return err
}
