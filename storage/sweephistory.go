package storage

import (
	"context"
	"math"
	"time"
)

// recentEntries are the newest entries of a chat's session that stay while the chat is in use, whatever their age: more than a
// prompt takes.
const recentEntries = 500

// place is where an entry is in its chat's history.
type place struct{ session, seq, ordinal int64 }

// before: of two places, whether this turn is earlier. Turns are taken whole, so that no call is parted from its result.
func (p place) before(q place) bool {
	return p.session < q.session || p.session == q.session && p.seq < q.seq
}

var (
	newestChat = &query{`SELECT COALESCE(MAX(id), 0) FROM chats`}
	chatPage   = &query{`SELECT id, session FROM chats WHERE id > ? ORDER BY id LIMIT ? + 0`}
	// The n-th newest entry, of a session or of all.
	nthInSession = &query{`SELECT session, seq FROM history WHERE chat_id = ? AND session = ? ORDER BY seq DESC, ordinal DESC LIMIT 1 OFFSET ? + 0`}
	nthOfAll     = &query{`SELECT session, seq FROM history WHERE chat_id = ? ORDER BY session DESC, seq DESC, ordinal DESC LIMIT 1 OFFSET ? + 0`}
	newestOfChat = &query{`SELECT at FROM history WHERE chat_id = ? ORDER BY session DESC, seq DESC, ordinal DESC LIMIT 1`}
	oldestOfChat = &query{`SELECT session, seq, ordinal, at FROM history WHERE chat_id = ? ORDER BY session, seq, ordinal LIMIT ? + 0`}
	dropHistory  = &query{`DELETE FROM history WHERE chat_id = ? AND (session, seq, ordinal) <= (?, ?, ?)`}
	// The summary of a session that is over goes with the first of its entries; that of the session in play stands for them.
	dropSummary = &query{`DELETE FROM summaries WHERE chat_id = ? AND session <= ? AND session < ?`}
	// It stands for nothing when all of the history is gone.
	dropLastSummary = &query{`DELETE FROM summaries WHERE chat_id = ? AND NOT EXISTS (SELECT 1 FROM history WHERE chat_id = summaries.chat_id)`}
)

// sweepHistory takes entries that are too old or too many, chat by chat.
func (r *Retention) sweepHistory(ctx context.Context, before time.Time) error {
	return r.history.pass(ctx, r, newestChat, func(after int64) (rows int, last int64, err error) {
		var chats []place // of which ordinal is the chat's id
		err = r.db.reader.each(ctx, chatPage, func(s scanner) error {
			var c place
			err := s.Scan(&c.ordinal, &c.session)
			chats = append(chats, c)
			return err
		}, after, sweepRows)
		for _, c := range chats {
			if err == nil {
				err = r.sweepChat(ctx, c.ordinal, c.session, before)
			}
			last = c.ordinal
		}
		return len(chats), last, err
	})
}

// sweepChat takes the oldest entries of a chat, a page at a time, as long as they are over.
func (r *Retention) sweepChat(ctx context.Context, chat, session int64, before time.Time) error {
	var crowded, recent place
	for {
		oldest, err := r.oldest(ctx, chat)
		if err != nil || len(oldest) == 0 {
			return err
		}
		if recent == (place{}) { // asked only of chats that have entries
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
		last := oldest[n-1]
		err = r.drop(ctx, "history", func(t *tx) (int64, error) {
			if _, err := t.exec(dropSummary, chat, last.session, session); err != nil {
				return 0, err
			}
			gone, err := t.exec(dropHistory, chat, last.session, last.seq, last.ordinal)
			if err == nil {
				_, err = t.exec(dropLastSummary, chat)
			}
			return gone, err
		})
		if err != nil || n < len(oldest) {
			return err
		}
	}
}

// kept gives the turns that stay: from recent on whatever happens, and from crowded on unless they are old. Of a chat in which nothing was said since
// the moment in question nothing stays.
func (r *Retention) kept(ctx context.Context, chat, session int64, before time.Time) (recent, crowded place, err error) {
	var newest time.Time
	if _, err = r.db.reader.one(ctx, newestOfChat, []any{moment{&newest}}, chat); err != nil {
		return recent, crowded, err
	}
	if newest.Before(before) {
		return place{session: math.MaxInt64}, crowded, nil
	}
	recent = place{session: session} // if the session is short, all of it
	if _, err = r.db.reader.one(ctx, nthInSession, []any{&recent.session, &recent.seq}, chat, session, recentEntries-1); err != nil {
		return recent, crowded, err
	}
	if n := r.opts.HistoryEntries; n > 0 {
		_, err = r.db.reader.one(ctx, nthOfAll, []any{&crowded.session, &crowded.seq}, chat, n-1)
	}
	return recent, crowded, err
}

// dated is an entry's place and time.
type dated struct {
	place
	at time.Time
}

func (r *Retention) oldest(ctx context.Context, chat int64) (page []dated, err error) {
	err = r.db.reader.each(ctx, oldestOfChat, func(s scanner) error {
		var d dated
		err := s.Scan(&d.session, &d.seq, &d.ordinal, moment{&d.at})
		page = append(page, d)
		return err
	}, chat, sweepRows)
	return page, err
}
