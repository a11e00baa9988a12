package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/corebot/corebot"
)

// History reads what was said in a chat.
type History struct{ db *DB }

// NewHistory is the history of a database.
func NewHistory(db *DB) *History { return &History{db} }

var (
	appendHistory = &query{`INSERT INTO history (chat_id, session, seq, ordinal, speaker, sender, name, text, calls, call_id, outside, message_id, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	recentHistory = &query{inSession + `ORDER BY h.seq DESC, h.ordinal DESC LIMIT ?`}
	historyPage   = &query{inSession + `AND h.seq > ? AND (h.seq, h.ordinal) < (?, ?) ORDER BY h.seq DESC, h.ordinal DESC LIMIT ? + 0`}
)

// inSession are the entries of the session that is in play in a chat.
const inSession = `SELECT h.session, h.seq, h.ordinal, h.speaker, h.sender, h.name, h.text, h.calls, h.call_id, h.outside, h.message_id, h.at
	FROM history h JOIN chats c ON c.id = h.chat_id AND h.session = c.session
	WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ? `

// pageRows is how many entries are read at once: most prompts take no more, and one with the largest tool results fits into a few megabytes.
const pageRows = 50

// Recent gives the newest entries of a chat's session, oldest first, at most limit of them.
func (h *History) Recent(ctx context.Context, k corebot.Key, limit int) ([]corebot.Entry, error) {
	var out []corebot.Entry
	err := h.db.reader.each(ctx, recentHistory, func(s scanner) error {
		e, _, err := scanEntry(s, k)
		out = append(out, e)
		return err
	}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, limit)
	slices.Reverse(out)
	return out, err
}

// Newest gives the entries of a chat's session whose turns are behind a place in the lane (0: all), newest first. Pages are read as they are
// wanted and nothing is held between them, so whoever ranges may take its time and stop at any entry. An error ends it.
func (h *History) Newest(ctx context.Context, k corebot.Key, after int64) iter.Seq2[corebot.Entry, error] {
	return func(yield func(corebot.Entry, error) bool) {
		before := place{seq: math.MaxInt64}
		for {
			page, last, err := h.page(ctx, k, after, before)
			if err != nil {
				yield(corebot.Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if len(page) < pageRows {
				return
			}
			before = last
		}
	}
}

// page reads the newest entries before a place; last is the place of the oldest of them.
func (h *History) page(ctx context.Context, k corebot.Key, after int64, before place) (page []corebot.Entry, last place, err error) {
	err = h.db.reader.each(ctx, historyPage, func(s scanner) error {
		e, ordinal, err := scanEntry(s, k)
		page, last = append(page, e), place{e.Session, e.Seq, ordinal}
		return err
	}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, after, before.seq, before.ordinal, pageRows)
	return page, last, err
}

func scanEntry(s scanner, k corebot.Key) (e corebot.Entry, ordinal int64, err error) {
	var speaker, calls string
	err = s.Scan(&e.Session, &e.Seq, &ordinal, &speaker, &e.Sender.ID, &e.Name, &e.Text, &calls, &e.CallID, &e.Outside, &e.MessageID, moment{&e.At})
	if err != nil {
		return e, ordinal, err
	}
	e.Speaker = corebot.Speaker(speaker)
	if e.Speaker == corebot.SpeakerUser {
		e.Sender.Channel, e.Sender.Account = k.Channel, k.Account
	}
	if calls != "" {
		if err := json.Unmarshal([]byte(calls), &e.Calls); err != nil {
			return e, ordinal, fmt.Errorf("a stored history entry is damaged: %w", err)
		}
	}
	return e, ordinal, nil
}

// entryRow is an entry made ready for the writer.
type entryRow struct {
	corebot.Entry
	calls string
}

func encodeHistory(entries []corebot.Entry) ([]entryRow, error) {
	rows := make([]entryRow, len(entries))
	for i, e := range entries {
		rows[i].Entry = e
		if len(e.Calls) > 0 {
			calls, err := encode(e.Calls)
			if err != nil {
				return nil, err
			}
			rows[i].calls = calls
		}
	}
	return rows, nil
}

// appendHistoryTx writes a turn's entries under the session that is in play: the next one if the turn begins it. One that it ends is over
// behind them.
func appendHistoryTx(t *tx, d corebot.Delivery, entries []entryRow, r corebot.Result) error {
	if len(entries) == 0 && !r.NewSession {
		return nil
	}
	chat, err := chatTx(t, d.Message.Key)
	if err != nil {
		return err
	}
	if r.BeginsSession {
		if _, err := t.exec(newSession, chat.ID); err != nil {
			return err
		}
		chat.Session++
	}
	t.said = true
	for i, e := range entries {
		_, err := t.exec(appendHistory, chat.ID, chat.Session, d.Seq, i, string(e.Speaker), e.Sender.ID, e.Name,
			e.Text, e.calls, e.CallID, e.Outside, d.Message.ID, e.At)
		if err != nil {
			return err
		}
	}
	if r.NewSession {
		_, err = t.exec(newSession, chat.ID)
	}
	return err
}
