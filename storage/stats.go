package storage

import (
	"context"
	"time"

	"github.com/corebot/corebot"
)

// Stats are the figures of the queue at one moment.
type Stats struct {
	Pools            map[corebot.Pool]PoolStats
	DeadLetters      map[corebot.Direction]int64
	DeadFor          map[Death]int64 // the same dead letters, by reason too
	OldestUnanswered time.Time       // publish time of the oldest inbound message without an end; zero if there is none
	Chats            int64
	Awaited          int64            // calls of tools that wait for an admin's word
	Parked           map[string]int64 // messages that have left their lanes for a time, by reason
}

// Death is what dead letters have in common.
type Death struct {
	Direction corebot.Direction
	Reason    string
}

// PoolStats are the figures of one pool.
type PoolStats struct {
	Depth   int64 // messages that wait or run
	Lanes   int64 // lanes that have any
	Leased  int64 // lanes whose head runs
	Waiting int64 // lanes whose head backs off or waits
}

var (
	poolStats = &query{`SELECT pool, SUM(depth), COUNT(*), SUM(leased), SUM(waiting <> '') FROM lanes WHERE wake_at IS NOT NULL GROUP BY pool`}
	deadStats = &query{`SELECT l.direction, m.reason, COUNT(*) FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE m."end" = 'dead'
		GROUP BY l.direction, m.reason`}
	// The queue's rows come in the order of publishing: the first inbound one is the oldest.
	oldestInbound = &query{`SELECT m.published_at FROM message_queue q JOIN lanes l ON l.id = q.lane_id JOIN message_life m ON m.id = q.life_id
		WHERE l.direction = 1 ORDER BY q.life_id LIMIT 1`}
	parkedStats  = &query{`SELECT reason, COUNT(*) FROM message_parked GROUP BY reason`}
	countAwaited = &query{`SELECT COUNT(*) FROM approvals WHERE state = 'awaiting' AND expires_at > ?`}
	countChats   = &query{`SELECT COUNT(*) FROM chats`}
)

// Stats reads the figures. It looks at every lane that has messages, and at no message but one.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	s := Stats{Pools: map[corebot.Pool]PoolStats{}, DeadLetters: map[corebot.Direction]int64{}, DeadFor: map[Death]int64{}, Parked: map[string]int64{}}
	r := q.db.reader
	err := r.each(ctx, poolStats, func(row scanner) error {
		var pool string
		var p PoolStats
		err := row.Scan(&pool, &p.Depth, &p.Lanes, &p.Leased, &p.Waiting)
		s.Pools[corebot.Pool(pool)] = p
		return err
	})
	if err != nil {
		return s, err
	}
	err = r.each(ctx, deadStats, func(row scanner) error {
		var direction int
		var death Death
		var n int64
		err := row.Scan(&direction, &death.Reason, &n)
		death.Direction = corebot.Direction(direction)
		s.DeadLetters[death.Direction] += n
		s.DeadFor[death] = n
		return err
	})
	if err != nil {
		return s, err
	}
	err = r.each(ctx, parkedStats, func(row scanner) error {
		var reason string
		var n int64
		err := row.Scan(&reason, &n)
		s.Parked[reason] = n
		return err
	})
	if err != nil {
		return s, err
	}
	if _, err := r.one(ctx, oldestInbound, []any{moment{&s.OldestUnanswered}}); err != nil {
		return s, err
	}
	if _, err := r.one(ctx, countAwaited, []any{&s.Awaited}, time.Now()); err != nil {
		return s, err
	}
	_, err = r.one(ctx, countChats, []any{&s.Chats})
	return s, err
}
