package storage

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
)

// Lists of chats, of what was said in them, of replies and of senders, as people look through them.

// listedChat are the columns of a chat in a list, of chats as c.
const listedChat = `agent, channel, account, chat, thread, c.id, display_name, registered, session,
	queue_mode, CASE model_session WHEN session THEN model ELSE '' END,
	CASE think_session WHEN session THEN think ELSE '' END, access, created_at,
	MAX(used_at, COALESCE((SELECT l.claimed_at FROM lanes l WHERE l.direction = 1 AND l.agent = c.agent
	AND l.channel = c.channel AND l.account = c.account AND l.chat = c.chat AND l.thread = c.thread), 0),
	COALESCE((SELECT h.at FROM history h WHERE h.chat_id = c.id
	ORDER BY h.session DESC, h.seq DESC, h.ordinal DESC LIMIT 1), 0)) AS used, used_at`

const newestEntries = ` ORDER BY h.session DESC, h.seq DESC, h.ordinal DESC LIMIT ? + 0`

var (
	chatsBehind = &query{`SELECT ` + listedChat + ` FROM chats c WHERE c.id > ? AND ? IN ('', channel)
		ORDER BY c.id LIMIT ? + 0`}
	// The index of the times of use goes by channels. A page of all channels takes one of each, and the newest of
	// these: there are about ten channels, however many chats. The times of the index are to the minute, see [usedTx].
	// The chats of a page stand in the order of their exact times.
	chatsRecent = &query{`WITH RECURSIVE channels (name) AS (SELECT iif(?1 = '', (SELECT MIN(channel) FROM chats), ?1)
		UNION ALL SELECT (SELECT MIN(channel) FROM chats WHERE channel > name) FROM channels
			WHERE ?1 = '' AND name IS NOT NULL),
		page (number) AS MATERIALIZED (SELECT c.id FROM channels CROSS JOIN chats c ON c.id IN (SELECT u.id
			FROM chats u WHERE u.channel = channels.name AND (u.used_at, u.id) < (?2, ?3)
			ORDER BY u.used_at DESC, u.id DESC LIMIT ?4 + 0)
			ORDER BY c.used_at DESC, c.id DESC LIMIT ?4 + 0)
		SELECT ` + listedChat + ` FROM page CROSS JOIN chats c ON c.id = page.number ORDER BY used DESC, c.id DESC`}
	saidBefore = &query{`SELECT ` + historyColumns + ` FROM history h WHERE h.chat_id = ?
		AND (h.session, h.seq, h.ordinal) < (?, ?, ?) AND ` + saidAloud + newestEntries}
	allBefore = &query{`SELECT ` + historyColumns + ` FROM history h WHERE h.chat_id = ?
		AND (h.session, h.seq, h.ordinal) < (?, ?, ?) ` + newestEntries}
	// By the numbers of the rows: an entry can have an earlier place than one that was written before it.
	entriesSince = &query{`SELECT ` + historyColumns + ` FROM history h WHERE h.id > ? AND h.id <= ? AND +h.chat_id = ?
		ORDER BY h.id LIMIT ? + 0`}
	newestEntry   = &query{`SELECT COALESCE(MAX(id), 0) FROM history`}
	newestNotices = &query{`SELECT ` + mailColumns + ` FROM chats c JOIN mailbox m ON m.chat_id = c.id
		WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ?
		AND m.kind = '` + string(corebot.KindNotice) + `' ORDER BY m.cursor DESC LIMIT ? + 0`}
	answers = &query{`SELECT ` + mailColumns + `
		FROM chats c JOIN mailbox m ON m.chat_id = c.id AND m.cursor > ?
		WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ? AND m.in_reply_to = ?
		ORDER BY m.cursor LIMIT ? + 0`}
)

// Page gives the chats behind a cursor, in the order in which they were first seen, at most limit of them, and the
// cursor behind them. An empty channel means all.
func (c *Chats) Page(ctx context.Context, channel, after string,
	limit int,
) (out []corebot.Chat, next string, err error) {
	var place int64
	if err := behind(after, "chats", &place); err != nil {
		return nil, "", err
	}
	out, _, err = c.page(ctx, chatsBehind, place, channel, limit)
	return out, nextPage(out, limit, func(c corebot.Chat) string { return cursor("chats", c.ID) }), err
}

// Recent gives the chats behind a cursor as Page does, the chat that was used last first. Within a page the order is
// exact. Of chats that were used within one minute, the end of a page can have the wrong ones. A chat that is used
// while somebody walks through the pages comes at most once: it moves to the front, and a new walk finds it there.
func (c *Chats) Recent(ctx context.Context, channel, after string,
	limit int,
) (out []corebot.Chat, next string, err error) {
	used, id := int64(math.MaxInt64), int64(math.MaxInt64)
	if err := behind(after, "recent chats", &used, &id); err != nil {
		return nil, "", err
	}
	out, last, err := c.page(ctx, chatsRecent, channel, used, id, limit)
	return out, nextPage(out, limit, func(corebot.Chat) string {
		return cursor("recent chats", last.used, last.id)
	}), err
}

// listed is the place of a chat in the index of the times of use.
type listed struct{ used, id int64 }

// page reads chats, and the last of their places in the index of the times of use.
func (c *Chats) page(ctx context.Context, q *query, args ...any) (out []corebot.Chat, last listed, err error) {
	last = listed{math.MaxInt64, math.MaxInt64}
	err = c.db.reader.each(ctx, q, func(s scanner) error {
		var chat corebot.Chat
		k := &chat.Key
		columns := append([]any{&k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread}, chatColumns(&chat)...)
		used := int64(0)
		err := s.Scan(append(columns, &used)...)
		out = append(out, chat)
		if used < last.used || used == last.used && chat.ID < last.id {
			last = listed{used, chat.ID}
		}
		return err
	}, args...)
	return out, last, err
}

// Before lists what people and the agent said in a chat before a place, in all its sessions, newest first, at most
// limit entries. An empty place means the end. A place that no [corebot.Said] had is [corebot.ErrInvalid].
func (h *History) Before(ctx context.Context, k corebot.Key, before string, limit int) ([]corebot.Said, error) {
	return h.before(ctx, saidBefore, k, before, limit)
}

// AllBefore is [History.Before] with the calls of tools and their results.
func (h *History) AllBefore(ctx context.Context, k corebot.Key, before string, limit int) ([]corebot.Said, error) {
	return h.before(ctx, allBefore, k, before, limit)
}

func (h *History) before(ctx context.Context, q *query, k corebot.Key, before string,
	limit int,
) (out []corebot.Said, err error) {
	p, err := parsePlace(before)
	if err != nil {
		return nil, err
	}
	chat, known, err := h.chat(ctx, k)
	if err != nil || !known {
		return nil, err
	}
	err = h.db.reader.each(ctx, q, saidInto(&out, k), chat, p.session, p.seq, p.ordinal, limit)
	return out, err
}

// Since gives the entries of a chat that were written behind a number, in the order of writing, at most limit. It gives
// the number to go on from, if there were fewer. A lower number than the one that was asked for says that entries were
// deleted since.
func (h *History) Since(ctx context.Context, k corebot.Key, number int64, limit int,
) (out []corebot.Said, newest int64, err error) {
	if _, err := h.db.reader.one(ctx, newestEntry, []any{&newest}); err != nil || newest <= number {
		return nil, newest, err
	}
	chat, known, err := h.chat(ctx, k)
	if err == nil && known {
		err = h.db.reader.each(ctx, entriesSince, saidInto(&out, k), number, newest, chat, limit)
	}
	return out, newest, err
}

func (h *History) chat(ctx context.Context, k corebot.Key) (id int64, known bool, err error) {
	known, err = h.db.reader.one(ctx, chatNumber, []any{&id}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return id, known, err
}

func saidInto(out *[]corebot.Said, k corebot.Key) func(scanner) error {
	rows := newEntryScan(k)
	return func(s scanner) error {
		e, ordinal, err := rows.row(s)
		*out = append(*out, corebot.Said{HistoryEntry: e, Place: fmt.Sprintf("%d.%d.%d", e.Session, e.Seq, ordinal)})
		return err
	}
}

func parsePlace(text string) (place, error) {
	if text == "" {
		return place{session: math.MaxInt64}, nil
	}
	parts := strings.Split(text, ".")
	var n [3]int64
	if len(parts) != len(n) {
		return place{}, fmt.Errorf("%w: %q is no place in a history", corebot.ErrInvalid,
			runes.Head(text, 100))
	}
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 10, 63)
		if err != nil {
			return place{}, fmt.Errorf("%w: %q is no place in a history", corebot.ErrInvalid,
				runes.Head(text, 100))
		}
		n[i] = int64(v)
	}
	return place{n[0], n[1], n[2]}, nil
}

// Notices lists what Corebot itself has told a conversation, newest first, at most limit.
func (m *Mailbox) Notices(ctx context.Context, k corebot.Key, limit int) ([]corebot.Posted, error) {
	return m.posted(ctx, newestNotices, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, limit)
}

// Answers lists the messages behind a cursor that answer one message of their conversation, oldest first, at most
// limit.
func (m *Mailbox) Answers(ctx context.Context, k corebot.Key, id string, cursor int64,
	limit int,
) ([]corebot.Posted, error) {
	return m.posted(ctx, answers, cursor, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, id, limit)
}

// sendersOfAccount are the senders of an account whose messages, roles, requests to talk or use are stored, the one
// that is asked for first. A channel of tokens has their senders, too.
var sendersOfAccount = &query{`SELECT sender FROM (
		SELECT m.sender AS sender FROM lanes l JOIN message_life m ON m.lane_id = l.id
			WHERE l.direction = 1 AND l.channel = ?1 AND l.account = ?2
		UNION SELECT sender FROM usage_days WHERE channel = ?1 AND account = ?2
		UNION SELECT sender FROM grants WHERE channel = ?1 AND account = ?2
		UNION SELECT sender FROM pairings WHERE channel = ?1 AND account = ?2
		UNION SELECT sender FROM tokens WHERE ?1 = '` + corebot.APIChannel + `')
	WHERE sender <> '' ORDER BY sender <> ?3, sender LIMIT ?4 + 0`}

// Senders gives the ids of senders of a principal's account of whom something is stored, at most limit of them. The
// principal's own id comes first, if it is one.
func (g *Grants) Senders(ctx context.Context, p corebot.Principal, limit int) (ids []string, err error) {
	err = g.db.reader.each(ctx, sendersOfAccount, func(s scanner) error {
		var stored string
		err := s.Scan(&stored)
		if by := senderIn(corebot.Key{Channel: p.Channel, Account: p.Account}, stored); by.Channel == p.Channel &&
			by.Account == p.Account {
			ids = append(ids, by.ID)
		}
		return err
	}, p.Channel, p.Account, p.ID, limit)
	return ids, err
}

var grantsOf = &query{`SELECT scope, role, granted_by, granted_at FROM grants
	WHERE channel = ? AND account = ? AND sender = ? ORDER BY scope`}

// Of gives the grants of a principal, that which holds everywhere first.
func (g *Grants) Of(ctx context.Context, p corebot.Principal) (out []corebot.Grant, err error) {
	err = g.db.reader.each(ctx, grantsOf, func(s scanner) error {
		grant := corebot.Grant{Principal: p}
		var scope, role string
		err := s.Scan(&scope, &role, &grant.By, &grant.AtMS)
		if err == nil && scope != "" {
			grant.Chat, err = corebot.ParseKey(scope)
		}
		grant.Role = corebot.Role(role)
		out = append(out, grant)
		return err
	}, p.Channel, p.Account, p.ID)
	return out, err
}
