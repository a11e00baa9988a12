package storage

import (
	"context"
	"iter"
	"math"

	"github.com/corebot/corebot"
)

var (
	chosenModel = &query{`SELECT model FROM chats WHERE agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ? AND model_session = session`}
	historyPage = &query{inSession + `AND h.seq > ? AND (h.seq, h.ordinal) < (?, ?) ORDER BY h.seq DESC, h.ordinal DESC LIMIT ? + 0`}
)

// pageRows is how many entries are read at once: most prompts take no more, and one with the largest tool results fits into a few megabytes.
const pageRows = 50

// Recall gives what a turn finds of its chat, with at most so many undelivered replies, and the entries of the session behind its summary,
// newest first. All that is read at once is as of one moment. Further pages of entries are read as they are wanted, and nothing is held
// between them, so whoever ranges may take its time and stop at any entry; an error ends it.
func (h *History) Recall(ctx context.Context, d corebot.Delivery, undelivered int) (r corebot.Recollection, entries iter.Seq2[corebot.HistoryEntry, error], err error) {
	k := d.Message.Key
	var newest historyRows
	err = h.db.reader.view(ctx, func(c *prepared) (err error) {
		if err := c.each(chosenModel, func(s scanner) error { return s.Scan(&r.Model) }, k.Agent, k.Channel, k.Account, k.Chat, k.Thread); err != nil {
			return err
		}
		if r.Summary, err = summaryOf(c, k); err != nil {
			return err
		}
		if newest, err = historyBefore(c, k, r.Summary.Through, place{seq: math.MaxInt64}); err != nil {
			return err
		}
		r.Undelivered, err = undeliveredOf(c, d, undelivered)
		return err
	})
	return r, h.from(ctx, k, r.Summary.Through, newest), err
}

// from gives the entries of a page, and of those that follow it.
func (h *History) from(ctx context.Context, k corebot.Key, after int64, page historyRows) iter.Seq2[corebot.HistoryEntry, error] {
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
				page, err = historyBefore(c, k, after, page.last)
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
	last    place // of the oldest of them
}

// historyBefore reads the newest entries before a place, and behind a place in the lane.
func historyBefore(c *prepared, k corebot.Key, after int64, before place) (rows historyRows, err error) {
	err = c.each(historyPage, func(s scanner) error {
		e, ordinal, err := scanEntry(s, k)
		rows.entries, rows.last = append(rows.entries, e), place{e.Session, e.Seq, ordinal}
		return err
	}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, after, before.seq, before.ordinal, pageRows)
	return rows, err
}
