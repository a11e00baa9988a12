package storage

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
)

// Chats keeps what is known of conversations beside their history.
type Chats struct{ db *DB }

// NewChats are the chats of a database.
func NewChats(db *DB) *Chats { return &Chats{db} }

var (
	selectChat = &query{`SELECT id, display_name, registered, session, created_at FROM chats
		WHERE agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`}
	insertChat = &query{`INSERT INTO chats (agent, channel, account, chat, thread, created_at) VALUES (?, ?, ?, ?, ?, ?)`}
	newSession = &query{`UPDATE chats SET session = session + 1 WHERE id = ?`}
	setChat    = &query{`UPDATE chats SET registered = ?, display_name = ? WHERE id = ?`}
	listChats  = &query{`SELECT agent, channel, account, chat, thread, id, display_name, registered, session, created_at FROM chats
		WHERE ? IN ('', channel) ORDER BY id LIMIT ? + 0`}
)

// Chat is what is known of a conversation. One that has had no turn yet is not stored; it is in its first session.
func (c *Chats) Chat(ctx context.Context, k corebot.Key) (corebot.Chat, error) {
	chat := corebot.Chat{Key: k, Session: 1}
	_, err := c.db.reader.one(ctx, selectChat, chatColumns(&chat), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return chat, err
}

// List gives chats in the order in which they were first seen; an empty channel means all.
func (c *Chats) List(ctx context.Context, channel string, limit int) ([]corebot.Chat, error) {
	var out []corebot.Chat
	err := c.db.reader.each(ctx, listChats, func(s scanner) error {
		var chat corebot.Chat
		k := &chat.Key
		err := s.Scan(append([]any{&k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread}, chatColumns(&chat)...)...)
		out = append(out, chat)
		return err
	}, channel, limit)
	return out, err
}

// Register marks a chat as one that Corebot serves, or no longer does, and gives it a name for display. A chat that is not
// known yet becomes known.
func (c *Chats) Register(ctx context.Context, k corebot.Key, registered bool, name string) error {
	return c.db.write(ctx, "register", func(t *tx) error {
		chat, err := chatTx(t, k)
		if err != nil {
			return err
		}
		if name == "" {
			name = chat.DisplayName
		}
		_, err = t.exec(setChat, registered, name, chat.ID)
		return err
	})
}

// Reset begins a new session: what was said stays stored and is out of play. A chat that is not known is
// [corebot.ErrNotFound].
func (c *Chats) Reset(ctx context.Context, k corebot.Key) error {
	return c.db.write(ctx, "reset", func(t *tx) error {
		chat := corebot.Chat{Key: k}
		found, err := t.one(selectChat, chatColumns(&chat), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
		if err == nil && !found {
			err = fmt.Errorf("chat %s: %w", k, corebot.ErrNotFound)
		}
		if err != nil {
			return err
		}
		_, err = t.exec(newSession, chat.ID)
		return err
	})
}

func chatColumns(c *corebot.Chat) []any {
	return []any{&c.ID, &c.DisplayName, &c.Registered, &c.Session, moment{&c.CreatedAt}}
}

// chatTx finds or makes the chat of a key.
func chatTx(t *tx, k corebot.Key) (corebot.Chat, error) {
	chat := corebot.Chat{Key: k, Session: 1, CreatedAt: t.now}
	found, err := t.one(selectChat, chatColumns(&chat), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err != nil || found {
		return chat, err
	}
	chat.ID, err = t.insert(insertChat, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, t.now)
	return chat, err
}
