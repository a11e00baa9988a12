package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

var (
	// "<> 0" is what the planner needs to see that the index of merges will do.
	waitingMerges = &query{`SELECT q.life_id, LENGTH(q.body), q.body, m.message_id, m.kind, m.checksum, m.published_at
		FROM message_queue q JOIN message_life m ON m.id = q.life_id WHERE q.merge_into = ? AND q.merge_into <> 0 ORDER BY q.seq LIMIT ? + 0`}
	mergesInto = &query{`SELECT merge_into <> 0 FROM message_queue WHERE life_id = ?`}
	unqueue    = &query{`DELETE FROM message_queue WHERE life_id = ? AND lane_id = ? AND merge_into = ?`}
	shrinkLane = &query{`UPDATE lanes SET depth = depth - ?, bytes = bytes - ? WHERE id = ? AND epoch = ? AND leased = 1`}
	endMerged  = &query{`UPDATE message_life SET "end" = '` + string(corebot.EndMerged) + `', merged_id = ?, claimed_at = ?, ended_at = ? WHERE id = ?`}
	// A run that starts over keeps what people said to the last one, in order, before anything else.
	carryMerges = &query{`INSERT INTO execution_steps (life_id, run, position, kind, state, request, result, started_at, ended_at)
		SELECT life_id, run + 1, ROW_NUMBER() OVER (ORDER BY position) - 1, kind, state, request, result, started_at, ended_at
		FROM execution_steps WHERE life_id = ? AND run = ? AND kind = '` + string(corebot.StepMerge) + `'`}
)

// Merge has the turn of a delivery take in the messages that wait for it: each is journaled as a step, from the position on, and its life ends
// as merged into the turn's, all in one commit. Calls from that position on are not made any more, and their approvals are void. It gives the steps, in the order of publishing; what is beyond [corebot.MaxCollected] waits for
// another call. A message that cannot be read is left in the lane, where it becomes a dead letter of its own. A worker that lost its
// lease gets [corebot.ErrLeaseLost] and changes nothing.
func (l *Ledger) Merge(ctx context.Context, d corebot.Delivery, position int) ([]corebot.Step, error) {
	merges, err := l.mergesOf(ctx, d, position)
	if err != nil || len(merges) == 0 {
		return nil, err
	}
	err = l.db.write(ctx, "merge", func(t *tx) error { return mergeTx(t, d, merges) })
	if err != nil {
		return nil, err
	}
	steps := make([]corebot.Step, len(merges))
	for i, m := range merges {
		steps[i] = m.Step
	}
	return steps, nil
}

// merging is a message that is to be merged, as a step made ready for the writer.
type merging struct {
	stepRow
	size int
}

// mergesOf reads what waits for a turn. Nobody but the holder of the lease can take it out of the lane: it will still be there.
func (l *Ledger) mergesOf(ctx context.Context, d corebot.Delivery, position int) ([]merging, error) {
	var out []merging
	now := time.Now()
	err := l.db.reader.each(ctx, waitingMerges, func(s scanner) error {
		m, size, readable, err := scanMerge(s, d.Message.Key)
		if err != nil || !readable {
			return err
		}
		row, err := encodeStep(corebot.Step{
			Position: position + len(out), Kind: corebot.StepMerge, State: corebot.StepDone, Merged: &m, StartedAt: now, EndedAt: now,
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
	m.Sender, m.Name, m.Text, m.Metadata = message.Sender, message.SenderName, message.Text(), message.Metadata
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
			err = fmt.Errorf("message %s no longer waits for the turn of message %s", m.Merged.ID, d.Message.ID)
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
	if err := voidTx(t, "the user said something in the meantime", unmadeFrom, d.Life, d.Run, merges[0].Position); err != nil {
		return err
	}
	for _, m := range merges {
		t.waiting.add(senderOf(d.Message.Key, m.Merged.Sender.ID), m.Merged.Life, -1, m.size)
	}
	t.total.depth[corebot.Inbound] -= int64(len(merges))
	t.total.bytes -= int64(size)
	return nil
}

// mergesTx says whether the turn of another is to take a waiting message in.
func mergesTx(t *tx, life int64) (merges bool, err error) {
	_, err = t.one(mergesInto, []any{&merges}, life)
	return merges, err
}
