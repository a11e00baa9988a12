package storage

import (
	"context"
	"encoding/hex"
	"math"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// lifeOver is true for a life m that ended before a moment and that nothing keeps.
const lifeOver = `m."end" NOT IN ('', 'dead') AND m.ended_at < ?
	AND NOT EXISTS (SELECT 1 FROM message_life c WHERE c.cause_id = m.id)
	AND NOT EXISTS (SELECT 1 FROM message_life p WHERE p.id IN (m.cause_id, m.merged_id) AND p."end" IN ('', 'dead'))`

var (
	lifeTable = aged{
		name: "message_life",
		// The writer checks what keeps a life when it deletes the life.
		page: &query{
			`SELECT id, published_at, "end" NOT IN ('', 'dead') AND ended_at < ? FROM message_life WHERE id > ?
				ORDER BY id LIMIT ? + 0`,
		},
		drop: &query{`DELETE FROM message_life AS m WHERE m.id BETWEEN ? AND ? AND ` + lifeOver},
	}
	dropSteps = &query{`DELETE FROM execution_steps WHERE rowid IN (
		SELECT s.rowid FROM message_life m JOIN execution_steps s ON s.life_id = m.id WHERE m.id BETWEEN ? AND ?
		AND ` + lifeOver + ` LIMIT ? + 0)`}
	dropApprovals = &query{
		`DELETE FROM approvals WHERE life_id BETWEEN ? AND ?
			AND EXISTS (SELECT 1 FROM message_life m WHERE m.id = approvals.life_id AND ` + lifeOver + `)`,
	}
	dropWaits = &query{
		`DELETE FROM waits WHERE life_id BETWEEN ? AND ?
			AND EXISTS (SELECT 1 FROM message_life m WHERE m.id = waits.life_id AND ` + lifeOver + `)`,
	}
	dropJobs = &query{
		`DELETE FROM jobs WHERE life_id BETWEEN ? AND ?
			AND EXISTS (SELECT 1 FROM message_life m WHERE m.id = jobs.life_id AND ` + lifeOver + `)`,
	}
	// A life had one place in its lane for each of its runs.
	countSwept = &query{`UPDATE lanes SET swept = swept + gone.places FROM (
		SELECT m.lane_id AS lane, SUM(m.run) AS places FROM message_life m WHERE m.id BETWEEN ? AND ?
		AND ` + lifeOver + ` GROUP BY m.lane_id) AS gone
		WHERE lanes.id = gone.lane`}
)

// sweepLives deletes lives and their steps.
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

// dropLivesTx deletes the lives between two ids that are over, effects before their causes. If their journals have more
// steps than one operation can delete, it deletes that many steps, and more is true.
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
		for _, of := range []*query{dropApprovals, dropWaits, dropJobs} {
			if _, err := t.exec(of, first, last, before); err != nil {
				return gone, false, err
			}
		}
		n, err := t.exec(lifeTable.drop, first, last, before)
		gone += n
		if err != nil || n == 0 {
			return gone, false, err
		}
	}
}

// laneOver is true for a lane l that is empty and without lives: nobody has used it for as long as lives are kept.
const laneOver = `l.depth = 0 AND l.leased = 0 AND l.wake_at IS NULL
	AND CASE l.direction
	  WHEN 3 THEN NOT EXISTS (SELECT 1 FROM message_life m WHERE m.lane_id = l.id AND m.kind = 'control')
	  ELSE l.next_seq - 1 = l.swept END`

var (
	newestLane = &query{`SELECT COALESCE(MAX(id), 0) FROM lanes`}
	lanePage   = &query{`SELECT l.id, ` + laneOver + ` FROM lanes l WHERE l.id > ? ORDER BY l.id LIMIT ? + 0`}
	dropLanes  = &query{`DELETE FROM lanes AS l WHERE l.id BETWEEN ? AND ? AND ` + laneOver}
)

// sweepLanes sweeps one part of the lanes.
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

// recentEntries is how many of the newest entries of a chat's session stay while the chat is in use, whatever their
// age. It is more than a prompt takes.
const recentEntries = 500

// place is the position of an entry in its chat's history.
type place struct{ session, seq, ordinal int64 }

// before says whether the turn of one place is earlier than the turn of another. Turns are deleted whole, so that no
// call loses its result.
func (p place) before(q place) bool {
	return p.session < q.session || p.session == q.session && p.seq < q.seq
}

var (
	newestChat = &query{`SELECT COALESCE(MAX(id), 0) FROM chats`}
	chatPage   = &query{`SELECT id, session, agent, channel, account, chat, thread FROM chats WHERE id > ? ORDER BY id
		LIMIT ? + 0`}
	// The n-th newest entry, of a session or of all.
	nthInSession = &query{
		`SELECT session, seq FROM history WHERE chat_id = ? AND session = ? ORDER BY seq DESC, ordinal DESC
			LIMIT 1 OFFSET ? + 0`,
	}
	nthOfAll = &query{
		`SELECT session, seq FROM history WHERE chat_id = ? ORDER BY session DESC, seq DESC, ordinal DESC
			LIMIT 1 OFFSET ? + 0`,
	}
	newestOfChat = &query{
		`SELECT at FROM history WHERE chat_id = ? ORDER BY session DESC, seq DESC, ordinal DESC LIMIT 1`,
	}
	oldestOfChat = &query{
		`SELECT session, seq, ordinal, at FROM history WHERE chat_id = ? ORDER BY session, seq, ordinal LIMIT ? + 0`,
	}
	entriesPage = &query{`SELECT session, seq, ordinal, at FROM history WHERE chat_id = ?
		AND (session, seq, ordinal) > (?, ?, ?) ORDER BY session, seq, ordinal LIMIT ? + 0`}
	dropHistory = &query{`DELETE FROM history WHERE chat_id = ?1 AND (session, seq, ordinal) <= (?2, ?3, ?4)
		AND (session, seq, ordinal) >= (?5, ?6, ?7)`}
	// The summary of an earlier session is deleted with the first of its entries. The summary of the current session
	// stays in their place.
	dropSummary = &query{`DELETE FROM summaries WHERE chat_id = ? AND session BETWEEN ? AND ? AND session < ?`}
	// Retention deletes what was made of linked words with the first of these words: a later /unlink could not find
	// it. The range is that of dropHistory.
	dropNotesOfLinked = &query{`DELETE FROM summaries WHERE chat_id = ?1 AND session IN (SELECT session FROM history
		WHERE chat_id = ?1 AND linked <> 0 AND (session, seq, ordinal) <= (?2, ?3, ?4)
		AND (session, seq, ordinal) >= (?5, ?6, ?7))`}
	dropFactsOfLinked = &query{`DELETE FROM facts WHERE chat_id = ?1 AND (message_id, sender) IN (
		SELECT message_id, sender FROM history WHERE chat_id = ?1 AND linked <> 0
		AND (session, seq, ordinal) <= (?2, ?3, ?4) AND (session, seq, ordinal) >= (?5, ?6, ?7))`}
	// A turn that is under way can have read such words, and can be making a summary of them.
	busyWithLinked = &query{`SELECT COUNT(*) FROM chats c JOIN lanes l ON l.direction = 1 AND l.agent = c.agent
		AND l.channel = c.channel AND l.account = c.account AND l.chat = c.chat AND l.thread = c.thread
		WHERE c.id = ?1 AND l.depth > 0 AND EXISTS (SELECT 1 FROM history h WHERE h.chat_id = ?1 AND h.linked <> 0
		AND (h.session, h.seq, h.ordinal) <= (?2, ?3, ?4) AND (h.session, h.seq, h.ordinal) >= (?5, ?6, ?7))`}
	// A summary without any history stands for nothing.
	dropLastSummary = &query{
		`DELETE FROM summaries WHERE chat_id = ? AND NOT EXISTS (SELECT 1 FROM history WHERE chat_id =
			summaries.chat_id)`,
	}
)

// sweepHistory deletes entries that are too old or too many, chat by chat.
func (r *Retention) sweepHistory(ctx context.Context, before time.Time) error {
	return r.history.pass(ctx, r, newestChat, func(after int64) (rows int, last int64, err error) {
		var chats []corebot.Chat
		err = r.db.reader.each(ctx, chatPage, func(s scanner) error {
			var c corebot.Chat
			k := &c.Key
			err := s.Scan(&c.ID, &c.Session, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread)
			chats = append(chats, c)
			return err
		}, after, sweepRows)
		for _, c := range chats {
			own := corebot.Keeping{}
			if err == nil {
				own, err = r.keeping(ctx, c.Key)
			}
			switch {
			case err != nil:
			case own.Nothing: // all of it is too old, whatever the clock was
				err = r.sweepKept(ctx, c, r.db.clock.now().AddDate(100, 0, 0))
			case own.For > 0:
				err = r.sweepKept(ctx, c, r.db.clock.now().Add(-own.For))
				if err == nil && r.entries() > 0 {
					err = r.sweepChat(ctx, c, r.db.clock.now().Add(-longAgo), true)
				}
			default:
				err = r.sweepChat(ctx, c, before, false)
			}
			last = c.ID
		}
		return len(chats), last, err
	})
}

// sweepChat deletes the oldest entries of a chat, page by page, while they are over: strictly, with their journals.
func (r *Retention) sweepChat(ctx context.Context, c corebot.Chat, before time.Time, strict bool) error {
	chat, session := c.ID, c.Session
	var crowded, recent place
	for {
		oldest, err := r.entriesOf(ctx, oldestOfChat, chat, sweepRows)
		if err != nil || len(oldest) == 0 {
			return err
		}
		if recent == (place{}) { // computed only for chats that have entries
			if recent, crowded, err = r.kept(ctx, chat, session, before); err != nil {
				return err
			}
		}
		n := 0
		for n < len(oldest) && oldest[n].before(recent) && (oldest[n].at.Before(before) || oldest[n].before(crowded)) {
			n++
		}
		if n == 0 {
			return nil
		}
		last, gone := oldest[n-1], int64(0)
		err = r.drop(ctx, "history", func(t *tx) (_ int64, err error) {
			gone, err = dropEntriesTx(t, c, place{}, last.place, strict)
			return gone, err
		})
		if err != nil || n < len(oldest) || gone == 0 {
			return err
		}
	}
}

// sweepStrictly deletes each turn of a chat that has an old entry, with its journal, wherever it stands. A turn from
// a clock that was ahead hides nothing. Nor do younger turns before the copies of a link.
func (r *Retention) sweepStrictly(ctx context.Context, c corebot.Chat, before time.Time) error {
	after := place{session: -1}
	for {
		page, err := r.entriesOf(ctx, entriesPage, c.ID, after.session, after.seq, after.ordinal, sweepRows)
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].place
		for n := 0; n < len(page); n++ {
			first := n
			for n < len(page) && page[n].at.Before(before) {
				n++
			}
			if n == first {
				continue
			}
			from, last := page[first].place, page[n-1].place
			from.ordinal, last.ordinal = 0, math.MaxInt64
			err := r.drop(ctx, "history", func(t *tx) (int64, error) {
				return dropEntriesTx(t, c, from, last, true)
			})
			if err != nil {
				return err
			}
		}
	}
}

// dropEntriesTx deletes the entries of a chat between two places, with what was made of them. While a turn can be
// making a summary of words that came by a link, it deletes nothing: the next pass does.
func dropEntriesTx(t *tx, c corebot.Chat, from, last place, strict bool) (gone int64, err error) {
	of := []any{c.ID, last.session, last.seq, last.ordinal, from.session, from.seq, from.ordinal}
	var busy int64
	if _, err := t.one(busyWithLinked, []any{&busy}, of...); err != nil || busy > 0 {
		return 0, err
	}
	before := []*query{dropNotesOfLinked, dropFactsOfLinked, dropForgottenOfLinked}
	if strict {
		before = append(before, dropToldSteps)
	}
	for _, q := range before {
		if _, err := t.exec(q, of...); err != nil {
			return 0, err
		}
	}
	if _, err := t.exec(dropSummary, c.ID, from.session, last.session, c.Session); err != nil {
		return 0, err
	}
	if gone, err = t.exec(dropHistory, of...); err != nil {
		return gone, err
	}
	_, err = t.exec(dropLastSummary, c.ID)
	return gone, err
}

// kept returns two places. The turns from recent on always stay. The turns from crowded on stay unless they are old. A
// chat that has been silent since the moment keeps nothing.
func (r *Retention) kept(ctx context.Context, chat, session int64,
	before time.Time,
) (recent, crowded place, err error) {
	var newest time.Time
	if _, err = r.db.reader.one(ctx, newestOfChat, []any{moment{&newest}}, chat); err != nil {
		return recent, crowded, err
	}
	if newest.Before(before) {
		return place{session: math.MaxInt64}, crowded, nil
	}
	recent = place{session: session} // a short session stays whole
	if _, err = r.db.reader.one(ctx, nthInSession, []any{&recent.session, &recent.seq}, chat, session,
		recentEntries-1); err != nil {
		return recent, crowded, err
	}
	if n := r.entries(); n > 0 {
		_, err = r.db.reader.one(ctx, nthOfAll, []any{&crowded.session, &crowded.seq}, chat, n-1)
	}
	return recent, crowded, err
}

// dated is an entry's place and time.
type dated struct {
	place
	at time.Time
}

func (r *Retention) entriesOf(ctx context.Context, q *query, args ...any) (page []dated, err error) {
	err = r.db.reader.each(ctx, q, func(s scanner) error {
		var d dated
		err := s.Scan(&d.session, &d.seq, &d.ordinal, moment{&d.at})
		page = append(page, d)
		return err
	}, args...)
	return page, err
}

var (
	oldestAudit = &query{`SELECT id, at, hash FROM audit_events ORDER BY id LIMIT ? + 0`}
	cutAudit    = &query{`DELETE FROM audit_events WHERE id <= ?`}
	movePast    = &query{`UPDATE audit_chain SET past = ?, hash = ? WHERE id = 1 AND past < ?`}
)

// sweepAudit cuts the trail at its old end: up to the last old event before the first young one. An old event behind a
// young one stays, so that the chain has one beginning. An event with a future date from a wrong clock goes with its
// neighbours.
func (r *Retention) sweepAudit(ctx context.Context, before time.Time) error {
	for more := true; more; {
		err := r.drop(ctx, "audit_events", func(t *tx) (int64, error) {
			past, rows, err := oldestTx(t, before)
			if err != nil || past.id == 0 {
				more = false
				return 0, err
			}
			more = rows == sweepRows
			if _, err := t.exec(movePast, past.id, past.hash, past.id); err != nil {
				return 0, err
			}
			return t.exec(cutAudit, past.id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tellHead logs the head of the trail when the trail has grown. A log that is kept elsewhere is a witness.
func (r *Retention) tellHead(ctx context.Context) error {
	var head link
	_, err := r.db.reader.one(ctx, newestAudit, []any{&head.id, &head.hash})
	if err == nil && head.id > r.told && len(head.hash) > 0 {
		r.told = head.id
		r.opts.Log.Info().Stringer("head", corebot.AuditHead{
			Event: head.id,
			Hash:  hex.EncodeToString(head.hash),
		}).Msg("the audit trail goes on")
	}
	return err
}

// oldestTx looks at the oldest events and finds the last one that can be deleted. rows is how many it saw.
func oldestTx(t *tx, before time.Time) (past link, rows int, err error) {
	young := false
	err = t.each(oldestAudit, func(s scanner) error {
		var l link
		var at time.Time
		if err := s.Scan(&l.id, moment{&at}, &l.hash); err != nil {
			return err
		}
		rows++
		young = young || !at.Before(before) && !at.After(t.now)
		if !young && at.Before(before) {
			past = link{l.id, slices.Clone(l.hash)}
		}
		return nil
	}, sweepRows)
	return past, rows, err
}

// chatOver is true for a chat c that was made before a moment, that nothing refers to, and that has no settings.
const chatOver = `c.created_at < ? AND c.registered = 0 AND c.display_name = '' AND c.queue_mode = '' AND c.access = ''
	AND c.skills = ''
	AND (c.model = '' OR c.model_session <> c.session) AND (c.think = '' OR c.think_session <> c.session)
	AND NOT EXISTS (SELECT 1 FROM history h WHERE h.chat_id = c.id)
	AND NOT EXISTS (SELECT 1 FROM mailbox b WHERE b.chat_id = c.id)
	AND NOT EXISTS (SELECT 1 FROM summaries s WHERE s.chat_id = c.id)
	AND NOT EXISTS (SELECT 1 FROM links k WHERE k.from_chat = c.id AND k.state = 'linked')
	AND NOT EXISTS (SELECT 1 FROM lanes l WHERE l.direction IN (1, 2, 3) AND l.agent = c.agent AND l.channel = c.channel
	  AND l.account = c.account AND l.chat = c.chat AND l.thread = c.thread)`

var (
	overPage = &query{`SELECT c.id, ` + chatOver + `, c.agent, c.channel, c.account, c.chat, c.thread FROM chats c
		WHERE c.id > ? ORDER BY c.id LIMIT ? + 0`}
	dropChat = &query{`DELETE FROM chats AS c WHERE c.id = ? AND ` + chatOver +
		` AND NOT EXISTS (SELECT 1 FROM grants g WHERE g.scope = ? AND g.scope <> '')`}
)

// sweepChats forgets unused chats. If such a chat comes back, it is a new chat with another id.
func (r *Retention) sweepChats(ctx context.Context, before time.Time) error {
	return r.chats.pass(ctx, r, newestChat, func(after int64) (rows int, last int64, err error) {
		over := map[int64]string{} // ids, with the spelling of their keys
		err = r.db.reader.each(ctx, overPage, func(s scanner) error {
			var k corebot.Key
			var this bool
			err := s.Scan(&last, &this, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread)
			if rows++; this && err == nil && !r.hasFiles(k) {
				over[last] = k.String()
			}
			return err
		}, before, after, sweepRows)
		if err != nil || len(over) == 0 {
			return rows, last, err
		}
		return rows, last, r.drop(ctx, "chats", func(t *tx) (gone int64, err error) {
			for id, spelled := range over {
				n, err := t.exec(dropChat, id, before, spelled)
				if err != nil {
					return gone, err
				}
				gone += n
				if n == 0 {
					continue
				}
				if err := dropRememberedTx(t, id, spelled); err != nil {
					return gone, err
				}
			}
			return gone, nil
		})
	})
}

// dropRememberedTx deletes what is remembered of a chat that is forgotten.
func dropRememberedTx(t *tx, chat int64, spelled string) error {
	k, err := corebot.ParseKey(spelled)
	if err != nil {
		return err
	}
	if _, err := t.exec(dropMemory, chat); err != nil {
		return err
	}
	if _, err := t.exec(dropFacts, chat, corebot.MaxFacts); err != nil {
		return err
	}
	if _, err := t.exec(dropForgotten, chat); err != nil {
		return err
	}
	for _, q := range []*query{forgetPage, dropOfSessions, dropFactOwner} {
		if _, err := t.exec(q, keyArgs(k)...); err != nil {
			return err
		}
	}
	return nil
}

func (r *Retention) hasFiles(k corebot.Key) bool { return r.opts.HasFiles != nil && r.opts.HasFiles(k) }

// dropUsage deletes the rows of old days, the oldest first.
var dropUsage = &query{`DELETE FROM usage_days WHERE (day, key, channel, account, sender, model) IN
	(SELECT day, key, channel, account, sender, model FROM usage_days WHERE day < ? ORDER BY day LIMIT ? + 0)`}

// sweepUsage deletes the usage of days that ended before a moment.
func (r *Retention) sweepUsage(ctx context.Context, before time.Time) error {
	first := r.db.accounting.Load().Day(before)
	for more := true; more; {
		err := r.drop(ctx, "usage_days", func(t *tx) (gone int64, err error) {
			gone, err = t.exec(dropUsage, first, sweepRows)
			more = gone == sweepRows
			return gone, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
