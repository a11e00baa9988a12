package storage

import (
	"context"

	"github.com/corebot/corebot"
)

var (
	// The thread comes before its chat.
	selectStanding = &query{`SELECT registered, access FROM chats
		WHERE agent = ? AND channel = ? AND account = ? AND chat = ? AND thread IN ('', ?) ORDER BY thread DESC`}
	setChatAccess = &query{`UPDATE chats SET access = ? WHERE id = ?`}
)

// Standing is what decides, beside the rule of its channel, whether somebody may talk in a chat.
func (c *Chats) Standing(ctx context.Context, k corebot.Key) (standing corebot.Standing, err error) {
	err = c.db.reader.each(ctx, selectStanding, func(s scanner) error {
		var registered bool
		var access string
		err := s.Scan(&registered, &access)
		standing.Registered = standing.Registered || registered
		if standing.Access == "" {
			standing.Access = corebot.ChatAccess(access)
		}
		return err
	}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return standing, err
}

// SetAccess sets a chat apart from the rule of its channel, or with "" no longer. It holds for the next message; what waits already is
// answered. A chat that is not known yet becomes known.
func (c *Chats) SetAccess(ctx context.Context, k corebot.Key, access corebot.ChatAccess) error {
	if access != "" {
		if _, err := corebot.ParseChatAccess(string(access)); err != nil {
			return err
		}
	}
	return c.db.write(ctx, "access", func(t *tx) error {
		chat, err := chatTx(t, k)
		if err != nil {
			return err
		}
		if _, err := t.exec(setChatAccess, string(access), chat.ID); err != nil {
			return err
		}
		return c.noteTx(t, "chat.access", k, map[string]any{"access": access})
	})
}

// Note writes an event that belongs to no step of a turn, in a commit of its own.
func (a *Audit) Note(ctx context.Context, e corebot.AuditEvent) error {
	return a.db.write(ctx, "audit", func(t *tx) error { return auditTx(t, []corebot.AuditEvent{e}) })
}
