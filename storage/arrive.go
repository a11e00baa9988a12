package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// begunLane is true for a lane l if work on its head has begun: a turn runs, or has run and will go on.
const begunLane = `(l.leased = 1 OR l.attempts > 0 OR l.lost > 0 OR l.waiting NOT IN ('', '` + corebot.Throttled +
	`', '` +
	corebot.Collecting + `'))`

var (
	selectBusy = &query{`SELECT q.life_id, q.seq, m.sender, m.kind, ` + begunLane + `, l.stop_seq FROM lanes l
		JOIN message_queue q ON q.lane_id = l.id AND q.seq > l.past JOIN message_life m ON m.id = q.life_id
		WHERE l.id = ? ORDER BY q.seq LIMIT 1`}
	selectTail = &query{`SELECT q.life_id, q.merge_into, m.sender, m.kind, m.message_id FROM lanes l
		JOIN message_queue q ON q.lane_id = l.id AND q.seq > l.past
		JOIN message_life m ON m.id = q.life_id WHERE l.id = ? ORDER BY q.seq DESC LIMIT 1`}
	stillWaits = &query{
		`SELECT 1 FROM message_queue q JOIN lanes l ON l.id = q.lane_id AND q.seq > l.past WHERE q.life_id = ?`,
	}
	selectGroup = &query{
		`SELECT COUNT(*), COALESCE(SUM(LENGTH(body)), 0) FROM message_queue WHERE merge_into = ? AND merge_into <> 0`,
	}
	// The silence counts from the first waiting message. Messages from before the lane began to collect have none of
	// their own.
	selectQuiet = &query{`SELECT MAX(l.quiet_from, m.published_at) FROM lanes l JOIN message_queue q ON q.lane_id = l.id
		JOIN message_life m ON m.id = q.life_id WHERE l.id = ? AND q.seq > ? ORDER BY q.seq LIMIT 1`}

	insertMerging = &query{`INSERT INTO message_queue (life_id, lane_id, seq, body, merge_into) VALUES (?, ?, ?, ?, ?)`}
	mergingLane   = &query{
		`UPDATE lanes SET next_seq = next_seq + 1, depth = depth + 1, bytes = bytes + ?, merge_seq = ? WHERE id = ?`,
	}
	quietLane = &query{`UPDATE lanes SET quiet_at = ?, quiet_from = ? WHERE id = ?`}
	// For a lane whose head has not begun: it waits for further messages. If a rate holds the turn back too, the later
	// of the two times counts.
	waitQuietly = &query{`UPDATE lanes SET wake_at = MAX(quiet_at, free_at), waiting = '` + corebot.Collecting +
		`' WHERE id = ?`}
)

// busyHead is the message at the head of a lane, as a new message behind it sees it.
type busyHead struct {
	life, seq, stopSeq int64
	sender, kind       string
	begun              bool
}

// runs says whether a turn of the head runs or will go on, and no stop is about to end it.
func (h busyHead) runs() bool { return h.begun && h.stopSeq < h.seq }

// canMerge says whether the head's turn can merge other messages. A chat command cannot.
func (h busyHead) canMerge() bool {
	return h.runs() && (h.kind == string(corebot.KindPrompt) || h.kind == string(corebot.KindOpening))
}

func busyHeadTx(t *tx, l lane) (h busyHead, err error) {
	_, err = t.one(selectBusy, []any{&h.life, &h.seq, &h.sender, &h.kind, &h.begun, &h.stopSeq}, l.id)
	return h, err
}

// arriveTx puts a new message at the tail of its lane. In the same commit it decides and stores what the message does
// to other turns; see [corebot.QueueMode]. Only prompts from outside have a mode. Messages that Corebot itself enqueues
// wait their turn.
func arriveTx(t *tx, p *parcel, l lane, life int64) (r corebot.Receipt, err error) {
	r.Life = life
	mode := corebot.QueueMode(cmp.Or(l.mode, string(t.queueing.Of(p.Key.Agent))))
	switch {
	case p.steers != nil:
		return r, steerTx(t, p, l, life, *p.steers)
	case p.Direction != corebot.Inbound || p.Kind != corebot.KindPrompt || p.cause != 0 || p.Errand != nil:
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

// steerTx makes the head's turn merge the message, if head is the meant life and its turn can merge. Otherwise the
// message waits its turn.
func steerTx(t *tx, p *parcel, l lane, life, head int64) error {
	if head != 0 {
		h, err := busyHeadTx(t, l)
		if err != nil {
			return err
		}
		if h.life == head && h.canMerge() {
			if err := pushMergingTx(t, p, l, life, head); err != nil {
				return err
			}
			return hearNowTx(t, head)
		}
	}
	return pushTx(t, p.Direction, p.Key, l, life, p.body)
}

// pushMergingTx puts a message behind the message whose turn is to merge it. The message has a normal place in the
// lane. If it is not merged, it is already in its place as a prompt.
func pushMergingTx(t *tx, p *parcel, l lane, life, into int64) error {
	if _, err := t.exec(insertMerging, life, l.id, l.nextSeq, p.body, into); err != nil {
		return err
	}
	t.total.depth[p.Direction]++
	t.total.bytes += int64(len(p.body))
	_, err := t.exec(mergingLane, len(p.body), l.nextSeq, l.id)
	return err
}

// interruptTx stops the running turn if it has the same sender, as a /stop of the sender does, and returns the turn's
// life. Otherwise it returns 0. Only the policy can let a sender stop the turn of another, and /stop asks the policy.
func interruptTx(t *tx, p *parcel, l lane) (stopped int64, err error) {
	h, err := busyHeadTx(t, l)
	if err != nil || !h.runs() || h.sender != storedSender(p.Key, p.Sender) {
		return 0, err
	}
	if _, err := t.exec(stopLane, h.seq, true, t.now, l.id); err != nil {
		return 0, err
	}
	t.wake(corebot.InboundPool, t.now.UnixMilli())
	by := corebot.AuditEvent{Key: p.Key, Principal: p.Sender, Entry: corebot.EntryInterrupt}
	if err := giveUpTx(t, h.life, waitStopped, by); err != nil {
		return 0, err
	}
	return h.life, denyAwaitedTx(t, h.life, by)
}

// collectTx puts a message at the tail and keeps its lane silent for the debounce. If the message before it waits too
// and has the same sender, both belong to one turn: the turn of the first message.
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
	begun := h.seq - 1
	if h.begun {
		begun = h.seq
	}
	until, err := hushTx(t, l.id, begun, nothingWaited)
	if err != nil {
		return err
	}
	if l.depth == 0 || first == h.life && !h.begun {
		if _, err = t.exec(waitQuietly, l.id); err == nil && l.depth > 0 {
			err = letGoTx(t, l.id)
		}
		t.wake(corebot.InboundPool, until) // this can be sooner than before, because the debounce is a setting
	}
	return err
}

// groupTx finds the message whose turn the new message joins; 0: it begins a turn of its own.
func groupTx(t *tx, p *parcel, l lane, h busyHead) (first int64, err error) {
	var tail, into int64
	var sender, kind, id string
	found, err := t.one(selectTail, []any{&tail, &into, &sender, &kind, &id}, l.id)
	if err != nil || !found || sender != storedSender(p.Key, p.Sender) || kind != string(p.Kind) ||
		strings.HasPrefix(id, corebot.OwnIDs) { // nobody's words join the turn of a due task
		return 0, err
	}
	var one, n, size int64
	joined := false
	if into != 0 { // else the message at the tail has a turn of its own
		if joined, err = t.one(stillWaits, []any{&one}, into); err != nil {
			return 0, err
		}
	}
	if first = tail; joined {
		first = into
	}
	if first == h.life && h.begun { // its turn has begun: the new message needs another turn
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

// hushTx sets until when the lane is silent: for one debounce from now, but at most [corebot.MaxDebounces] debounces
// after the first waiting message. Messages up to the place begun do not wait.
func hushTx(t *tx, lane, begun int64, first bool) (until int64, err error) {
	now := t.now.UnixMilli()
	from := now
	if !first {
		if _, err := t.one(selectQuiet, []any{&from}, lane, begun); err != nil {
			return 0, err
		}
	}
	debounce := t.queueing.Debounce
	until = min(t.now.Add(debounce).UnixMilli(), from+int64(corebot.MaxDebounces*debounce/time.Millisecond))
	_, err = t.exec(quietLane, until, from, lane)
	return until, err
}

var (
	// The planner needs "<> 0" to see that it can use the index of merges.
	waitingMerges = &query{`SELECT q.life_id, LENGTH(q.body), q.body, m.message_id, m.kind, m.checksum, m.published_at
		FROM message_queue q JOIN message_life m ON m.id = q.life_id WHERE q.merge_into = ? AND q.merge_into <> 0
		ORDER BY q.seq LIMIT ? + 0`}
	mergesInto = &query{`SELECT merge_into <> 0 FROM message_queue WHERE life_id = ?`}
	unqueue    = &query{`DELETE FROM message_queue WHERE life_id = ? AND lane_id = ? AND merge_into = ?`}
	shrinkLane = &query{
		`UPDATE lanes SET depth = depth - ?, bytes = bytes - ? WHERE id = ? AND epoch = ? AND leased = 1`,
	}
	endMerged = &query{`UPDATE message_life SET "end" = '` + string(corebot.EndMerged) +
		`', merged_id = ?, claimed_at = ?, ended_at = ? WHERE id = ?`}
	// A run that starts over keeps what people said to the last run, in order, before anything else.
	carryMerges = &query{`INSERT INTO execution_steps (life_id, run, position, kind, state, request, result,
		started_at, ended_at)
		SELECT life_id, run + 1, ROW_NUMBER() OVER (ORDER BY position) - 1, kind, state, request, result, started_at,
		ended_at
		FROM execution_steps WHERE life_id = ? AND run = ? AND kind = '` + string(corebot.StepMerge) + `'`}
)

// Merge merges the waiting messages of a delivery into its turn. One commit journals each message as a step, from the
// position on, and ends its life as merged. The calls from that position on will not be made, and their approvals are
// void.
//
// Merge returns the steps in the order of publishing. Messages beyond [corebot.MaxCollected] wait for another call. An
// unreadable message stays in the lane and becomes a dead letter there. A worker that lost its lease gets
// [corebot.ErrLeaseLost] and changes nothing.
func (l *Ledger) Merge(ctx context.Context, d corebot.Delivery, position int) ([]corebot.Step, error) {
	var merges []merging
	err := errMergesChanged
	for try := 0; errors.Is(err, errMergesChanged) && try < mergeTries; try++ {
		if merges, err = l.mergesOf(ctx, d, position); err != nil {
			break
		}
		if len(merges) == 0 {
			return nil, l.holds(ctx, d.Lease)
		}
		err = l.db.write(ctx, "merge", func(t *tx) error { return mergeTx(t, d, merges) })
	}
	if err != nil {
		return nil, err
	}
	steps := make([]corebot.Step, len(merges))
	for i, m := range merges {
		steps[i] = m.Step
	}
	return steps, nil
}

// errMergesChanged says that a message was edited or deleted between the read and the commit of a merge.
var errMergesChanged = errors.New("what waits for the turn has changed")

// mergeTries bounds how often a merge reads again what waits for its turn.
const mergeTries = 10

var heldLease = &query{`SELECT 1 FROM lanes WHERE id = ? AND epoch = ? AND leased = 1`}

// holds is [corebot.ErrLeaseLost] for a worker whose lease is no longer the newest of its lane, or whose claim has
// ended.
func (l *Ledger) holds(ctx context.Context, lease corebot.Lease) error {
	var one int64
	held, err := l.db.reader.one(ctx, heldLease, []any{&one}, lease.Lane, lease.Epoch)
	if err == nil && !held {
		err = corebot.ErrLeaseLost
	}
	return err
}

// merging is a message with its merge step, encoded for the writer.
type merging struct {
	stepRow
	size int
}

// mergesOf reads the messages that wait for a turn. Until the commit, an edit or a deletion can take them out of the
// lane.
func (l *Ledger) mergesOf(ctx context.Context, d corebot.Delivery, position int) ([]merging, error) {
	var out []merging
	now := time.Now()
	err := l.db.reader.each(ctx, waitingMerges, func(s scanner) error {
		m, size, readable, err := scanMerge(s, d.Message.Key)
		if err != nil || !readable {
			return err
		}
		row, err := encodeStep(corebot.Step{
			Position: position + len(out), Kind: corebot.StepMerge, State: corebot.StepDone, Merged: &m, StartedAt: now,
			EndedAt: now,
		})
		out = append(out, merging{row, size})
		return err
	}, d.Life, corebot.MaxCollected)
	if err != nil {
		return nil, fmt.Errorf("read what waits for the turn of message %s: %w", d.Message.ID, err)
	}
	return out, nil
}

func scanMerge(s scanner, k corebot.Key) (m corebot.Merged, size int, readable bool, err error) {
	var kind string
	var body, sum []byte
	var publishedAt int64
	if err := s.Scan(&m.Life, &size, &body, &m.ID, &kind, &sum, &publishedAt); err != nil {
		return m, 0, false, err
	}
	message, err := unpack(body, corebot.Inbound, k, corebot.Kind(kind), sum)
	if err != nil {
		return m, 0, false, nil
	}
	m.Sender, m.Name, m.Parts = message.Sender, message.SenderName, message.Parts
	m.Metadata, m.Envelope = message.Metadata, message.Envelope
	return m, size, true, nil
}

func mergeTx(t *tx, d corebot.Delivery, merges []merging) error {
	size := 0
	for _, m := range merges {
		size += m.size
	}
	if err := fencedTx(t, d.Lease, shrinkLane, len(merges), size); err != nil {
		return err
	}
	for _, m := range merges {
		n, err := t.exec(unqueue, m.Merged.Life, d.Lane, d.Life)
		if err == nil && n == 0 {
			err = fmt.Errorf("merge message %s into message %s: %w", m.Merged.ID, d.Message.ID, errMergesChanged)
		}
		if err != nil {
			return err
		}
		if _, err := t.exec(endMerged, d.Life, t.now, t.now, m.Merged.Life); err != nil {
			return err
		}
		if err := recordStepTx(t, d.Life, d.Run, m.stepRow); err != nil {
			return err
		}
	}
	if err := voidTx(t, "the user said something in the meantime", unmadeFrom, d.Life, d.Run,
		merges[0].Position); err != nil {
		return err
	}
	for _, m := range merges {
		t.waiting.add(senderOf(d.Message.Key, storedSender(d.Message.Key, m.Merged.Sender)), m.Merged.Life, -1, m.size)
	}
	t.total.depth[corebot.Inbound] -= int64(len(merges))
	t.total.bytes -= int64(size)
	return nil
}

// mergesTx says whether a waiting message is to be merged into another message's turn.
func mergesTx(t *tx, life int64) (merges bool, err error) {
	_, err = t.one(mergesInto, []any{&merges}, life)
	return merges, err
}
