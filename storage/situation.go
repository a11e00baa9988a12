package storage

import (
	"context"
	"time"

	"github.com/corebot/corebot"
)

var (
	laneNow = &query{`SELECT id, leased, claimed_at, depth, waiting, COALESCE(wake_at, 0) FROM lanes
		WHERE direction = ? AND agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`}
	parkedNow    = &query{`SELECT COUNT(*), COALESCE(MIN(due_at), 0) FROM message_parked WHERE lane_id = ?`}
	setChatModel = &query{`UPDATE chats SET model = ?, model_session = session WHERE id = ?`}
)

// Situation is what a chat does now. One that nobody has spoken in is idle in its first session.
func (c *Chats) Situation(ctx context.Context, k corebot.Key) (s corebot.Situation, err error) {
	chat, err := c.Chat(ctx, k)
	if err != nil {
		return s, err
	}
	s.Session, s.Model, s.QueueMode = chat.Session, chat.Model, chat.QueueMode
	var lane int64
	found, err := c.db.reader.one(ctx, laneNow, []any{&lane, &s.Running, moment{&s.RunningSince}, &s.Waiting, &s.Why, moment{&s.WakeAt}},
		int64(corebot.Inbound), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err != nil || !found {
		return s, err
	}
	if s.Running {
		s.Waiting--
	} else {
		s.RunningSince = time.Time{}
	}
	if s.Why == "" { // of a head that runs it is the end of its lease
		s.WakeAt = time.Time{}
	}
	if _, err = c.db.reader.one(ctx, parkedNow, []any{&s.Parked, moment{&s.BackAt}}, lane); err != nil {
		return s, err
	}
	s.Awaited, err = NewApprovals(c.db).list(ctx, awaitedInChat, time.Now(), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return s, err
}

// SetModel has the chat's session ask for a model, or with "" for the configured one again. Another session asks for that one by itself. A
// chat that is not known is [corebot.ErrNotFound].
func (c *Chats) SetModel(ctx context.Context, k corebot.Key, model string) error {
	return c.db.write(ctx, "model", func(t *tx) error {
		chat, err := knownChatTx(t, k)
		if err != nil {
			return err
		}
		if _, err := t.exec(setChatModel, model, chat.ID); err != nil {
			return err
		}
		return c.noteTx(t, "chat.model", k, map[string]any{"model": model})
	})
}
