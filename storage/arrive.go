package storage

import (
	"cmp"
	"time"

	"github.com/corebot/corebot"
)

// begunLane says of a lane l that work on its head has begun: a turn of it runs, or has run and will go on.
const begunLane = `(l.leased = 1 OR l.attempts > 0 OR l.lost > 0 OR l.waiting NOT IN ('', '` + corebot.Paced + `', '` + corebot.Collecting + `'))`

var (
	selectBusy = &query{`SELECT q.life_id, q.seq, m.sender, m.kind, ` + begunLane + `, l.stop_seq FROM lanes l
		JOIN message_queue q ON q.lane_id = l.id AND q.seq > l.past JOIN message_life m ON m.id = q.life_id WHERE l.id = ? ORDER BY q.seq LIMIT 1`}
	selectTail = &query{`SELECT q.life_id, q.merge_into, m.sender, m.kind FROM lanes l JOIN message_queue q ON q.lane_id = l.id AND q.seq > l.past
		JOIN message_life m ON m.id = q.life_id WHERE l.id = ? ORDER BY q.seq DESC LIMIT 1`}
	stillWaits  = &query{`SELECT 1 FROM message_queue q JOIN lanes l ON l.id = q.lane_id AND q.seq > l.past WHERE q.life_id = ?`}
	selectGroup = &query{`SELECT COUNT(*), COALESCE(SUM(LENGTH(body)), 0) FROM message_queue WHERE merge_into = ? AND merge_into <> 0`}
	selectQuiet = &query{`SELECT quiet_from FROM lanes WHERE id = ?`}

	insertMerging = &query{`INSERT INTO message_queue (life_id, lane_id, seq, body, merge_into) VALUES (?, ?, ?, ?, ?)`}
	mergingLane   = &query{`UPDATE lanes SET next_seq = next_seq + 1, depth = depth + 1, bytes = bytes + ?, merge_seq = ? WHERE id = ?`}
	quietLane     = &query{`UPDATE lanes SET quiet_at = ?, quiet_from = ? WHERE id = ?`}
	// Of a lane whose head has not begun: it waits for more. A turn that a rate holds back waits for the later of the two.
	waitQuietly = &query{`UPDATE lanes SET wake_at = MAX(quiet_at, free_at), waiting = '` + corebot.Collecting + `' WHERE id = ?`}
)

// busyHead is the message at the head of a lane, for one that comes behind it.
type busyHead struct {
	life, seq, stopSeq int64
	sender, kind       string
	begun              bool
}

// runs says whether a turn of the head runs, or will go on, and is not about to end by a stop.
func (h busyHead) runs() bool { return h.begun && h.stopSeq < h.seq }

// takesIn says whether that turn can take in other messages. A chat command cannot.
func (h busyHead) takesIn() bool {
	return h.runs() && (h.kind == string(corebot.KindPrompt) || h.kind == string(corebot.KindOpening))
}

func busyHeadTx(t *tx, l lane) (h busyHead, err error) {
	_, err = t.one(selectBusy, []any{&h.life, &h.seq, &h.sender, &h.kind, &h.begun, &h.stopSeq}, l.id)
	return h, err
}

// arriveTx puts a new message at the tail of its lane. What it does to the turn that runs, or is to be merged with, is decided and stored
// here, in the commit that accepts it; see [corebot.QueueMode]. Only prompts from outside have a mode: what Corebot itself puts into a lane waits its turn.
func arriveTx(t *tx, p *parcel, l lane, life int64) (r corebot.Receipt, err error) {
	r.Life = life
	mode := corebot.QueueMode(cmp.Or(l.mode, string(t.queueing.Of(p.Key.Agent))))
	switch {
	case p.steers != nil:
		return r, steerTx(t, p, l, life, *p.steers)
	case p.Direction != corebot.Inbound || p.Kind != corebot.KindPrompt || p.cause != 0:
	case mode == corebot.ModeSteer && l.depth > 0:
		h, err := busyHeadTx(t, l)
		if err != nil {
			return r, err
		}
		return r, steerTx(t, p, l, life, h.life)
	case mode == corebot.ModeInterrupt && l.depth > 0:
		if r.Stops, err = interruptTx(t, p, l); err != nil {
			return r, err
		}
	case mode == corebot.ModeCollect:
		return r, collectTx(t, p, l, life)
	}
	return r, pushTx(t, p.Direction, p.Key, l, life, p.body)
}

// steerTx has the turn of the head take the message in, if that is the head meant and its turn can; else the message waits its turn.
func steerTx(t *tx, p *parcel, l lane, life, head int64) error {
	if head != 0 {
		h, err := busyHeadTx(t, l)
		if err != nil {
			return err
		}
		if h.life == head && h.takesIn() {
			return pushMergingTx(t, p, l, life, head)
		}
	}
	return pushTx(t, p.Direction, p.Key, l, life, p.body)
}

// pushMergingTx puts a message behind the one whose turn is to take it in. It has a place like any other: if it comes to nothing, it is
// already the prompt that it becomes.
func pushMergingTx(t *tx, p *parcel, l lane, life, into int64) error {
	if _, err := t.exec(insertMerging, life, l.id, l.nextSeq, p.body, into); err != nil {
		return err
	}
	t.total.depth[p.Direction]++
	t.total.bytes += int64(len(p.body))
	_, err := t.exec(mergingLane, len(p.body), l.nextSeq, l.id)
	return err
}

// interruptTx stops the turn that runs, as its sender's /stop does, and says whose it was; 0 if there is none, or it is another sender's: who
// stops whose turn is for the policy to say, and a /stop asks it.
func interruptTx(t *tx, p *parcel, l lane) (stopped int64, err error) {
	h, err := busyHeadTx(t, l)
	if err != nil || !h.runs() || h.sender != p.Sender.ID {
		return 0, err
	}
	if _, err := t.exec(stopLane, h.seq, true, t.now, l.id); err != nil {
		return 0, err
	}
	t.wake(corebot.InboundPool, t.now.UnixMilli())
	by := corebot.AuditEvent{Key: p.Key, Principal: p.Sender, Entry: corebot.EntryInterrupt}
	return h.life, denyAwaitedTx(t, h.life, by)
}

// collectTx puts a message at the tail and has its lane be silent for the debounce. If the message before it is of the same sender and waits
// too, both are for one turn: that of the first of them.
func collectTx(t *tx, p *parcel, l lane, life int64) error {
	h, err := busyHeadTx(t, l)
	if err != nil {
		return err
	}
	first, err := groupTx(t, p, l, h)
	if err != nil {
		return err
	}
	if first != 0 {
		err = pushMergingTx(t, p, l, life, first)
	} else {
		err = pushTx(t, p.Direction, p.Key, l, life, p.body)
	}
	if err != nil {
		return err
	}
	nothingWaited := l.depth == 0 || l.depth == 1 && h.begun
	until, err := hushTx(t, l.id, nothingWaited)
	if err != nil {
		return err
	}
	if l.depth == 0 || first == h.life && !h.begun {
		if _, err = t.exec(waitQuietly, l.id); err == nil && l.depth > 0 {
			err = letGoTx(t, l.id)
		}
		t.wake(corebot.InboundPool, until) // which can be sooner than before: the debounce is a setting
	}
	return err
}

// groupTx finds the message whose turn the new one joins, or 0 if it begins another.
func groupTx(t *tx, p *parcel, l lane, h busyHead) (first int64, err error) {
	var tail, into int64
	var sender, kind string
	found, err := t.one(selectTail, []any{&tail, &into, &sender, &kind}, l.id)
	if err != nil || !found || sender != p.Sender.ID || kind != string(p.Kind) {
		return 0, err
	}
	var one, n, size int64
	joined := false
	if into != 0 { // else, or when that turn ended without it, the tail has a turn of its own
		if joined, err = t.one(stillWaits, []any{&one}, into); err != nil {
			return 0, err
		}
	}
	if first = tail; joined {
		first = into
	}
	if first == h.life && h.begun { // its turn has begun: what comes now is for another
		return 0, nil
	}
	if _, err := t.one(selectGroup, []any{&n, &size}, first); err != nil {
		return 0, err
	}
	if n+1 >= corebot.MaxCollected || size+int64(len(p.body)) > corebot.MaxCollectedBytes {
		return 0, nil
	}
	return first, nil
}

// hushTx sets until when the lane is silent: for a debounce from now, but not longer than some of them after the first message that waits.
func hushTx(t *tx, lane int64, first bool) (until int64, err error) {
	now := t.now.UnixMilli()
	from := now
	if !first {
		if _, err := t.one(selectQuiet, []any{&from}, lane); err != nil {
			return 0, err
		}
	}
	debounce := t.queueing.Debounce
	until = min(t.now.Add(debounce).UnixMilli(), from+int64(corebot.MaxDebounces*debounce/time.Millisecond))
	_, err = t.exec(quietLane, until, from, lane)
	return until, err
}
