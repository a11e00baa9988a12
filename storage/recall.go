package storage

import (
	"context"
	"iter"
	"math"

	"github.com/corebot/corebot"
)

var (
	chosen = &query{
		`SELECT CASE model_session WHEN session THEN model ELSE '' END,
			CASE think_session WHEN session THEN think ELSE '' END, skills
			FROM chats WHERE agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`,
	}
	// The settings of a turn's chat, and the summary of its session.
	recalled = &query{
		`SELECT c.id, c.session, CASE c.model_session WHEN c.session THEN c.model ELSE '' END,
			CASE c.think_session WHEN c.session THEN c.think ELSE '' END, c.skills,
			COALESCE(s.session, 0), COALESCE(s.through, 0), COALESCE(s.text, ''), COALESCE(s.model, ''),
			COALESCE(s.at, 0), COALESCE(s.sender, ''), COALESCE(s.others, 0), COALESCE(s.outside, 0),
			COALESCE(s.began_at, 0), COALESCE(s.ended_at, 0)
			FROM chats c LEFT JOIN summaries s ON s.chat_id = c.id AND s.session = c.session
			WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ?`,
	}
	historyPage = &query{`SELECT ` + historyColumns + ` FROM history h WHERE h.chat_id = ? AND h.session = ?
		AND h.rewound = 0 AND h.seq > ? AND (h.seq, h.ordinal) < (?, ?)
		ORDER BY h.seq DESC, h.ordinal DESC LIMIT ? + 0`}
)

// pageRows is how many entries are read at once. Most prompts take no more. A page with the largest tool results fits
// into a few megabytes.
const pageRows = 50

// Recall returns what a turn finds of its chat, with at most so many undelivered replies. It also returns the session's
// entries behind the summary, newest first. The first page of entries belongs to the same moment as the rest. Further
// pages are read on demand, and nothing is held between them. So the caller can range slowly and stop at any entry. An
// error ends the entries.
func (h *History) Recall(ctx context.Context, d corebot.Delivery,
	undelivered int,
) (r corebot.Recollection, entries iter.Seq2[corebot.HistoryEntry, error], err error) {
	k := d.Message.Key
	session := openSession{key: k}
	var newest historyRows
	err = h.db.reader.view(ctx, func(c *prepared) (err error) {
		if err := c.each(recalled, session.into(&r), keyArgs(k)...); err != nil {
			return err
		}
		if acts := k.Acts(); acts != k {
			if err := choices(c, acts, &r); err != nil {
				return err
			}
		}
		if newest, err = session.before(c, place{seq: math.MaxInt64}); err != nil {
			return err
		}
		r.Undelivered, err = undeliveredOf(c, d, undelivered)
		return err
	})
	return r, h.from(ctx, session, newest), err
}

// choices reads what was chosen in another conversation than the one that is recalled.
func choices(c *prepared, k corebot.Key, r *corebot.Recollection) error {
	r.Model, r.Think, r.Skills = "", "", nil
	return c.each(chosen, func(row scanner) error {
		skills := ""
		err := row.Scan(&r.Model, (*string)(&r.Think), &skills)
		r.Skills = corebot.ParseSkillChoices(skills)
		return err
	}, keyArgs(k)...)
}

// openSession is the session that is in play in a chat, behind its summary.
type openSession struct {
	key           corebot.Key
	chat, session int64
	after         int64 // the last place that the summary covers
}

// into reads the row of the chat.
func (o *openSession) into(r *corebot.Recollection) func(scanner) error {
	return func(row scanner) error {
		var skills string
		sum := &r.Summary
		err := row.Scan(&o.chat, &o.session, &r.Model, (*string)(&r.Think), &skills, &sum.Session, &sum.Through,
			&sum.Text, &sum.Model, moment{&sum.At}, &sum.Sender.ID, &sum.Others, &sum.Outside, moment{&sum.From},
			moment{&sum.To})
		r.Skills, o.after = corebot.ParseSkillChoices(skills), sum.Through
		named(sum, o.key)
		return err
	}
}

// from returns the entries of a page and of the pages that follow.
func (h *History) from(ctx context.Context, session openSession,
	page historyRows,
) iter.Seq2[corebot.HistoryEntry, error] {
	return func(yield func(corebot.HistoryEntry, error) bool) {
		for {
			for _, e := range page.entries {
				if !yield(e, nil) {
					return
				}
			}
			if len(page.entries) < pageRows {
				return
			}
			err := h.db.reader.use(ctx, func(c *prepared) (err error) {
				page, err = session.before(c, page.last)
				return err
			})
			if err != nil {
				yield(corebot.HistoryEntry{}, err)
				return
			}
		}
	}
}

// historyRows are entries, newest first.
type historyRows struct {
	entries []corebot.HistoryEntry
	last    place // the place of the oldest of the entries
}

// before reads the newest entries before a place in the history.
func (o *openSession) before(c *prepared, last place) (rows historyRows, err error) {
	scan := newEntryScan(o.key)
	err = c.each(historyPage, func(s scanner) error {
		e, ordinal, err := scan.row(s)
		if rows.entries == nil {
			rows.entries = make([]corebot.HistoryEntry, 0, 8)
		}
		rows.entries, rows.last = append(rows.entries, e), place{e.Session, e.Seq, ordinal}
		return err
	}, o.chat, o.session, o.after, last.seq, last.ordinal, pageRows)
	return rows, err
}
