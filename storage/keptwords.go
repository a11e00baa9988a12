package storage

import (
	"context"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// This file takes away what a chat keeps for a time of its own. First goes what its history leads to. Then go the words
// that no entry of the history leads to.

// keeping is how long a chat keeps its history, if it has a time of its own.
func (r *Retention) keeping(ctx context.Context, k corebot.Key) (corebot.Keeping, error) {
	keeper, origin := r.opts.Keeper, k.Origin()
	if !keeper.AsksRegistered() {
		return keeper.Of(origin, false), nil
	}
	set, err := NewChats(r.db).Admission(ctx, origin)
	return keeper.Of(origin, set.Registered), err
}

var (
	dropOldNotes = &query{`DELETE FROM summaries WHERE chat_id = ? AND began_at < ?`}
	dropOldFacts = &query{`DELETE FROM facts WHERE id IN (SELECT id FROM facts WHERE chat_id = ? AND at < ?
		LIMIT ? + 0)`}
	dropOldFiles = &query{`DELETE FROM attached_files WHERE id IN (SELECT f.id FROM attached_files f
		WHERE f.agent = ?1 AND f.channel = ?2 AND f.account = ?3 AND f.chat = ?4 AND f.thread = ?5 AND f.at < ?6
		AND NOT EXISTS (SELECT 1 FROM message_life m WHERE m.message_id = f.message_id AND m."end" IN ('', 'dead'))
		AND f.message_id NOT IN (SELECT h.message_id FROM history h WHERE h.chat_id = ?7)
		LIMIT ?8 + 0)`}
	// The journals of the messages that dropHistory takes the entries of.
	dropToldSteps = &query{`DELETE FROM execution_steps WHERE life_id IN (SELECT m.id FROM chats c
		JOIN lanes l ON l.direction = 1 AND l.agent = c.agent AND l.channel = c.channel AND l.account = c.account
		  AND l.chat = c.chat AND l.thread = c.thread
		JOIN message_life m ON m.lane_id = l.id AND m."end" NOT IN ('', 'dead') AND m.message_id IN (
		  SELECT message_id FROM history WHERE chat_id = ?1 AND (session, seq, ordinal) <= (?2, ?3, ?4)
		  AND (session, seq, ordinal) >= (?5, ?6, ?7))
		WHERE c.id = ?1)`}
)

// sweepKept deletes all that a chat keeps for a time of its own, and that is older. A summary is as old as the first
// message of which it was made.
func (r *Retention) sweepKept(ctx context.Context, c corebot.Chat, before time.Time) error {
	if err := r.sweepStrictly(ctx, c, before); err != nil {
		return err
	}
	files := before
	if grace := r.db.clock.now().Add(-fileGrace); grace.Before(files) {
		files = grace
	}
	for more := true; more; {
		err := r.drop(ctx, "history", func(t *tx) (int64, error) {
			if _, err := t.exec(dropOldNotes, c.ID, before); err != nil {
				return 0, err
			}
			if _, err := t.exec(dropOldForgotten, c.ID, before); err != nil {
				return 0, err
			}
			facts, err := t.exec(dropOldFacts, c.ID, before, sweepRows)
			if err != nil {
				return 0, err
			}
			n, err := t.exec(dropOldFiles, append(keyArgs(c.Key), files, c.ID, sweepRows)...)
			more = facts == sweepRows || n == sweepRows
			return 0, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// endedLife is true for a life m that is over, and for which nothing waits that it caused, that caused it, or that
	// took it in. A parent that runs or is replayed needs its child, as in [lifeOver].
	endedLife = `m."end" NOT IN ('', 'dead') AND NOT EXISTS (SELECT 1 FROM message_life c WHERE c.cause_id = m.id
		AND c."end" IN ('', 'dead'))
		AND NOT EXISTS (SELECT 1 FROM message_life p WHERE p.id IN (m.cause_id, m.merged_id)
		AND p."end" IN ('', 'dead'))`
	endedAsk  = `approvals.life_id = m.id AND state <> 'awaiting' AND digest <> x''`
	endedWait = `waits.life_id = m.id AND state NOT IN ('open', 'waiting') AND purpose || word || waits.reason <> ''`
	endedJob  = `jobs.life_id = m.id AND state <> 'open' AND prompt || jobs.reason <> ''`
)

var (
	wordsPage = &query{`SELECT m.id, m.ended_at, l.agent, l.channel, l.account, l.chat, l.thread, ` + endedLife + `
		AND (m.body IS NOT NULL OR m.last_error || m.attempt_log <> ''
		OR EXISTS (SELECT 1 FROM execution_steps WHERE life_id = m.id)
		OR EXISTS (SELECT 1 FROM approvals WHERE ` + endedAsk + `)
		OR EXISTS (SELECT 1 FROM waits WHERE ` + endedWait + `)
		OR EXISTS (SELECT 1 FROM jobs WHERE ` + endedJob + `))
		FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE m.id > ? ORDER BY m.id LIMIT ? + 0`}
	dropWordSteps = &query{`DELETE FROM execution_steps WHERE rowid IN (SELECT s.rowid FROM json_each(?) j
		JOIN message_life m ON m.id = j.value JOIN execution_steps s ON s.life_id = m.id
		WHERE ` + endedLife + ` LIMIT ? + 0)`}
	// The number, the tool, the decision, who decided, and the times stay for the audit.
	cutWords = []*query{
		{`UPDATE approvals SET args = '{}', dir = '', files = '', digest = x'', change = '', because = '', reason = '',
			binding = '', unbound = '', lapsed = '', taint = CASE taint WHEN '' THEN '' ELSE 'deleted' END
			FROM json_each(?) j JOIN message_life m ON m.id = j.value WHERE ` + endedAsk + ` AND ` + endedLife},
		{`UPDATE waits SET purpose = '', word = '', reason = ''
			FROM json_each(?) j JOIN message_life m ON m.id = j.value WHERE ` + endedWait + ` AND ` + endedLife},
		{`UPDATE jobs SET prompt = '', reason = ''
			FROM json_each(?) j JOIN message_life m ON m.id = j.value WHERE ` + endedJob + ` AND ` + endedLife},
		{`UPDATE message_life AS m SET body = NULL, last_error = '', attempt_log = ''
			WHERE m.id IN (SELECT value FROM json_each(?)) AND ` + endedLife},
	}
)

// sweepWords takes the words out of what has ended in chats with a time of their own, in one part of all lives.
func (r *Retention) sweepWords(ctx context.Context, _ time.Time) error {
	return r.ended.pass(ctx, r, newestLife, func(after int64) (rows int, last int64, err error) {
		over, now, known := map[corebot.Key][]int64{}, r.db.clock.now(), map[int64]time.Time{}
		err = r.db.reader.each(ctx, wordsPage, func(s scanner) error {
			var k corebot.Key
			var ended time.Time
			var has bool
			err := s.Scan(&last, moment{&ended}, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &has)
			if rows++; has {
				over[k], known[last] = append(over[k], last), ended
			}
			return err
		}, after, sweepRows)
		var ids []int64
		for k, lives := range over {
			if err != nil {
				break
			}
			var own corebot.Keeping
			own, err = r.keeping(ctx, k)
			for _, id := range lives {
				if own.Nothing || own.For > 0 && known[id].Before(now.Add(-own.For)) {
					ids = append(ids, id)
				}
			}
		}
		if err != nil {
			return rows, last, err
		}
		return rows, last, r.cut(ctx, ids)
	})
}

// cutLives is how many lives lose their words in one commit. The steps of a life can be megabytes.
const cutLives = 20

// cut takes the words out of ended lives, in small commits.
func (r *Retention) cut(ctx context.Context, ids []int64) error {
	for some := range slices.Chunk(ids, cutLives) {
		list, err := encode(some)
		if err != nil {
			return err
		}
		for more := true; more; {
			if err := r.drop(ctx, "message_life", func(t *tx) (int64, error) {
				n, err := t.exec(dropWordSteps, list, cutLives)
				if more = n == cutLives; err != nil || more {
					return 0, err
				}
				for _, q := range cutWords {
					if _, err := t.exec(q, list); err != nil {
						return 0, err
					}
				}
				return 0, nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
