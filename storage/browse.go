package storage

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/corebot/corebot"
)

var (
	chatsBehind = &query{`SELECT agent, channel, account, chat, thread, id, display_name, registered, session, queue_mode, CASE model_session WHEN session THEN model ELSE '' END, access, created_at FROM chats
		WHERE id > ? AND ? IN ('', channel) ORDER BY id LIMIT ? + 0`}
	saidBefore = &query{`SELECT ` + foundColumns + ` FROM history h WHERE h.chat_id = ? AND (h.session, h.seq, h.ordinal) < (?, ?, ?) AND ` + saidAloud + `
		ORDER BY h.session DESC, h.seq DESC, h.ordinal DESC LIMIT ? + 0`}
	answers = &query{`SELECT m.cursor, m.message_id, m.in_reply_to, m.kind, m.content, m.created_at
		FROM chats c JOIN mailbox m ON m.chat_id = c.id AND m.cursor > ?
		WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ? AND m.in_reply_to = ? ORDER BY m.cursor LIMIT ? + 0`}
)

// Page gives the chats behind a place, at most limit of them, in the order in which they were first seen; an empty channel means all. The place of a
// chat is its [corebot.Chat.ID].
func (c *Chats) Page(ctx context.Context, channel string, after int64, limit int) ([]corebot.Chat, error) {
	var out []corebot.Chat
	err := c.db.reader.each(ctx, chatsBehind, func(s scanner) error {
		var chat corebot.Chat
		k := &chat.Key
		err := s.Scan(append([]any{&k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread}, chatColumns(&chat)...)...)
		out = append(out, chat)
		return err
	}, after, channel, limit)
	return out, err
}

// Before gives what people and the agent said in a chat before a place, in all its sessions, newest first, at most limit entries. An empty place is
// the end; one that no [corebot.Said] has had is [corebot.ErrInvalid].
func (h *History) Before(ctx context.Context, k corebot.Key, before string, limit int) ([]corebot.Said, error) {
	p, err := parsePlace(before)
	if err != nil {
		return nil, err
	}
	var chat int64
	known, err := h.db.reader.one(ctx, chatNumber, []any{&chat}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err != nil || !known {
		return nil, err
	}
	var out []corebot.Said
	err = h.db.reader.each(ctx, saidBefore, func(s scanner) error {
		e, ordinal, err := scanEntry(s, k)
		out = append(out, corebot.Said{HistoryEntry: e, Place: fmt.Sprintf("%d.%d.%d", e.Session, e.Seq, ordinal)})
		return err
	}, chat, p.session, p.seq, p.ordinal, limit)
	return out, err
}

func parsePlace(text string) (place, error) {
	if text == "" {
		return place{session: math.MaxInt64}, nil
	}
	parts := strings.Split(text, ".")
	var n [3]int64
	if len(parts) != len(n) {
		return place{}, fmt.Errorf("%w: %q is no place in a history", corebot.ErrInvalid, text)
	}
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 10, 63)
		if err != nil {
			return place{}, fmt.Errorf("%w: %q is no place in a history", corebot.ErrInvalid, text)
		}
		n[i] = int64(v)
	}
	return place{n[0], n[1], n[2]}, nil
}

// Answers gives the messages behind a cursor that answer a message of their conversation, oldest first, at most limit of them.
func (m *Mailbox) Answers(ctx context.Context, k corebot.Key, id string, cursor int64, limit int) ([]corebot.Posted, error) {
	return m.posted(ctx, answers, cursor, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, id, limit)
}
