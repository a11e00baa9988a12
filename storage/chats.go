package storage

import (
	"context"

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
)

// Chat is what is known of a conversation. One that has had no turn yet is not stored; it is in its first session.
func (c *Chats) Chat(ctx context.Context, k corebot.Key) (corebot.Chat, error) {
	chat := corebot.Chat{Key: k, Session: 1}
	_, err := c.db.reader.one(ctx, selectChat, chatColumns(&chat), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return chat, err
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
