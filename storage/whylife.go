package storage

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
)

var (
	// A message that came in, or a command that acted at once: of one id there may be one each.
	lifeOfChat = &query{lifeColumns + `WHERE m.message_id = ? AND l.direction IN (1, 3)
		AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ? LIMIT 1`}
	newestWaiting = &query{`SELECT m.message_id FROM lanes l JOIN message_queue q ON q.lane_id = l.id AND q.seq > l.past JOIN message_life m ON m.id = q.life_id
		WHERE m.sender = ? AND l.direction = 1 AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ?
		ORDER BY q.seq DESC LIMIT 1`}
	newestSaid = &query{`SELECT h.message_id, h.at FROM chats c JOIN history h ON h.chat_id = c.id AND h.session = c.session
		WHERE h.sender = ? AND h.speaker = 'user' AND c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ?
		ORDER BY h.seq DESC, h.ordinal DESC LIMIT 1`}
	newestGivenUp = &query{`SELECT m.message_id, m.ended_at FROM message_life m JOIN lanes l ON l.id = m.lane_id
		WHERE m."end" = 'dead' AND m.sender = ? AND l.direction = 1 AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ?
		ORDER BY m.ended_at DESC LIMIT 1`}
)

// InChat gives the message of a chat that came in with that id, with its steps and replies. Without an id it is the newest of the asker: one that
// waits, else the one that was given up, or whose turn is in the session, last. None is [corebot.ErrNotFound].
func (l *Lives) InChat(ctx context.Context, k corebot.Key, messageID string, asker corebot.Principal) (corebot.Life, error) {
	what := fmt.Sprintf("message %q of this chat", messageID)
	if messageID == "" {
		what = "a message of yours in this chat"
		var err error
		if messageID, err = l.newestOf(ctx, k, asker.ID); err != nil {
			return corebot.Life{}, err
		}
	}
	found, err := l.load(ctx, lifeOfChat, messageID, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: %w", what, corebot.ErrNotFound)
	}
	if err != nil {
		return corebot.Life{}, err
	}
	return found[0], nil
}

// newestOf is the id of the newest message of a sender in a chat, or empty, which is no message's.
func (l *Lives) newestOf(ctx context.Context, k corebot.Key, sender string) (id string, err error) {
	asked := []any{sender, k.Agent, k.Channel, k.Account, k.Chat, k.Thread}
	waits, err := l.db.reader.one(ctx, newestWaiting, []any{&id}, asked...)
	if err != nil || waits {
		return id, err
	}
	var saidAt, deadAt int64
	if _, err := l.db.reader.one(ctx, newestSaid, []any{&id, &saidAt}, asked...); err != nil {
		return "", err
	}
	var dead string
	if _, err := l.db.reader.one(ctx, newestGivenUp, []any{&dead, &deadAt}, asked...); err != nil {
		return "", err
	}
	if deadAt > saidAt {
		id = dead
	}
	return id, nil
}
