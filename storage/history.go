package storage

import (
	"context"
	"encoding/json"
	"fmt"
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
	recentHistory    = &query{inSession + `ORDER BY h.seq DESC, h.ordinal DESC LIMIT ?`}
	anotherInSession = &query{`SELECT h.sender FROM history h JOIN chats c ON c.id = h.chat_id AND h.session = c.session
		WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ?
		AND h.speaker = '` + string(corebot.SpeakerUser) + `' AND h.sender <> ? LIMIT 1`}
)

// inSession are the entries of the session that is in play in a chat.
const inSession = `SELECT h.session, h.seq, h.ordinal, h.speaker, h.sender, h.name, h.text, h.calls, h.call_id, h.outside, h.message_id, h.at
	FROM history h JOIN chats c ON c.id = h.chat_id AND h.session = c.session
	WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ? `

// Recent gives the newest entries of a chat's session, oldest first, at most limit of them.
func (h *History) Recent(ctx context.Context, k corebot.Key, limit int) ([]corebot.HistoryEntry, error) {
	var out []corebot.HistoryEntry
	err := h.db.reader.each(ctx, recentHistory, func(s scanner) error {
		e, _, err := scanEntry(s, k)
		out = append(out, e)
		return err
	}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, limit)
	slices.Reverse(out)
	return out, err
}

// Another finds somebody else than p who has spoken in the session that is in play in a chat. Those whom the channel
// could not name are one person. Only turns of the chat's lane add people: who holds its lease may rely on it until the
// commit.
func (l *Ledger) Another(
	ctx context.Context, k corebot.Key, p corebot.Principal,
) (other corebot.Principal, found bool, err error) {
	other = corebot.Principal{Channel: k.Channel, Account: k.Account}
	found, err = l.db.reader.one(ctx, anotherInSession, []any{&other.ID},
		k.Agent, k.Channel, k.Account, k.Chat, k.Thread, p.ID)
	return other, found, err
}

func scanEntry(s scanner, k corebot.Key) (e corebot.HistoryEntry, ordinal int64, err error) {
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
	corebot.HistoryEntry
	calls string
}

func encodeHistory(entries []corebot.HistoryEntry) ([]entryRow, error) {
	rows := make([]entryRow, len(entries))
	for i, e := range entries {
		rows[i].HistoryEntry = e
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
