package storage

import (
	"context"

	"github.com/corebot/corebot"
)

// Mailbox keeps replies for whoever fetches them: a durable list for each conversation, read by cursor.
type Mailbox struct{ db *DB }

// NewMailbox is the mailbox of a database.
func NewMailbox(db *DB) *Mailbox { return &Mailbox{db} }

var (
	insertMail = &query{`INSERT INTO mailbox (chat_id, message_id, in_reply_to, kind, content, created_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (chat_id, message_id) DO NOTHING`}
	selectMail = &query{`SELECT m.cursor, m.message_id, m.in_reply_to, m.kind, m.content, m.created_at
		FROM chats c JOIN mailbox m ON m.chat_id = c.id AND m.cursor > ?
		WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ? ORDER BY m.cursor LIMIT ? + 0`}
	lastMail = &query{`SELECT COALESCE(MAX(m.cursor), 0) FROM chats c JOIN mailbox m ON m.chat_id = c.id
		WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ?`}
)

// Post puts a message at the end of its conversation's list. Posting it again changes nothing.
func (m *Mailbox) Post(ctx context.Context, msg corebot.Message) error {
	return m.db.write(ctx, "post", func(t *tx) error {
		chat, err := chatTx(t, msg.Key)
		if err != nil {
			return err
		}
		_, err = t.exec(insertMail, chat.ID, msg.ID, msg.InReplyTo, string(msg.Kind), msg.Text(), t.now)
		return err
	})
}

// After gives the messages of a conversation behind a cursor, oldest first, at most limit of them.
func (m *Mailbox) After(ctx context.Context, k corebot.Key, cursor int64, limit int) ([]corebot.Posted, error) {
	return m.posted(ctx, selectMail, cursor, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, limit)
}

func (m *Mailbox) posted(ctx context.Context, q *query, args ...any) (out []corebot.Posted, err error) {
	err = m.db.reader.each(ctx, q, func(s scanner) error {
		var p corebot.Posted
		err := s.Scan(&p.Cursor, &p.ID, &p.InReplyTo, (*string)(&p.Kind), &p.Content, moment{&p.CreatedAt})
		out = append(out, p)
		return err
	}, args...)
	return out, err
}

// Last is the cursor of a conversation's newest message, or 0.
func (m *Mailbox) Last(ctx context.Context, k corebot.Key) (cursor int64, err error) {
	_, err = m.db.reader.one(ctx, lastMail, []any{&cursor}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return cursor, err
}
