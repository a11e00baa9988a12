package storage

import (
	"context"
	"time"
)

// lifeOver says of a life m that it ended before a moment and that nothing keeps it.
const lifeOver = `m."end" NOT IN ('', 'dead') AND m.ended_at < ?
	AND NOT EXISTS (SELECT 1 FROM message_life c WHERE c.cause_id = m.id)
	AND NOT EXISTS (SELECT 1 FROM message_life p WHERE p.id IN (m.cause_id, m.merged_id) AND p."end" IN ('', 'dead'))`

var (
	lifeTable = aged{
		name: "message_life",
		// What keeps a life is looked up where it matters, in the writer.
		page: &query{`SELECT id, published_at, "end" NOT IN ('', 'dead') AND ended_at < ? FROM message_life WHERE id > ? ORDER BY id LIMIT ? + 0`},
		drop: &query{`DELETE FROM message_life AS m WHERE m.id BETWEEN ? AND ? AND ` + lifeOver},
	}
	dropSteps = &query{`DELETE FROM execution_steps WHERE rowid IN (
		SELECT s.rowid FROM message_life m JOIN execution_steps s ON s.life_id = m.id WHERE m.id BETWEEN ? AND ? AND ` + lifeOver + ` LIMIT ? + 0)`}
	dropApprovals = &query{`DELETE FROM approvals WHERE life_id BETWEEN ? AND ? AND EXISTS (SELECT 1 FROM message_life m WHERE m.id = approvals.life_id AND ` + lifeOver + `)`}
	// A life has had one place in its lane for each of its runs.
	countSwept = &query{`UPDATE lanes SET swept = swept + gone.places FROM (
		SELECT m.lane_id AS lane, SUM(m.run) AS places FROM message_life m WHERE m.id BETWEEN ? AND ? AND ` + lifeOver + ` GROUP BY m.lane_id) AS gone
		WHERE lanes.id = gone.lane`}
)

// sweepLives takes lives and their steps.
func (r *Retention) sweepLives(ctx context.Context, before time.Time) error {
	return r.walk(ctx, lifeTable, before, func(p page) error {
		for more := true; more; {
			err := r.drop(ctx, lifeTable.name, func(t *tx) (gone int64, err error) {
				gone, more, err = dropLivesTx(t, p.first, p.last, before, sweepRows)
				return gone, err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// dropLivesTx takes the lives between two ids that are over, those that were caused before those that caused them. When their journals have
// more steps than an operation may take, it takes that many steps and leaves the rest for more.
func dropLivesTx(t *tx, first, last int64, before time.Time, limit int64) (gone int64, more bool, err error) {
	for {
		steps, err := t.exec(dropSteps, first, last, before, limit)
		if err != nil || steps == limit {
			return gone, steps == limit, err
		}
		limit -= steps
		if _, err := t.exec(countSwept, first, last, before); err != nil {
			return gone, false, err
		}
		if _, err := t.exec(dropApprovals, first, last, before); err != nil {
			return gone, false, err
		}
		n, err := t.exec(lifeTable.drop, first, last, before)
		gone += n
		if err != nil || n == 0 {
			return gone, false, err
		}
	}
}

// laneOver says of a lane l that it is empty and without lives: nobody has used it for as long as lives are kept.
const laneOver = `l.depth = 0 AND l.leased = 0 AND l.wake_at IS NULL
	AND CASE l.direction
	  WHEN 3 THEN NOT EXISTS (SELECT 1 FROM message_life m WHERE m.lane_id = l.id AND m.kind = 'control')
	  ELSE l.next_seq - 1 = l.swept END`

var (
	newestLane = &query{`SELECT COALESCE(MAX(id), 0) FROM lanes`}
	lanePage   = &query{`SELECT l.id, ` + laneOver + ` FROM lanes l WHERE l.id > ? ORDER BY l.id LIMIT ? + 0`}
	dropLanes  = &query{`DELETE FROM lanes AS l WHERE l.id BETWEEN ? AND ? AND ` + laneOver}
)

// sweepLanes takes the lanes of this pass's part of the table.
func (r *Retention) sweepLanes(ctx context.Context, _ time.Time) error {
	return r.lanes.pass(ctx, r, newestLane, func(after int64) (rows int, last int64, err error) {
		over := false
		err = r.db.reader.each(ctx, lanePage, func(s scanner) error {
			var this bool
			err := s.Scan(&last, &this)
			rows, over = rows+1, over || this
			return err
		}, after, sweepRows)
		if err != nil || !over {
			return rows, last, err
		}
		return rows, last, r.drop(ctx, "lanes", func(t *tx) (int64, error) { return t.exec(dropLanes, after+1, last) })
	})
}
