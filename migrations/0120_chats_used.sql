-- +goose Up

-- When something was last said in a chat. An older chat has the time that lists computed so far: a turn began, or
-- something was said.
ALTER TABLE chats ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
UPDATE chats SET used_at = MAX(created_at,
  COALESCE((SELECT l.claimed_at FROM lanes l WHERE l.direction = 1 AND l.agent = chats.agent
    AND l.channel = chats.channel AND l.account = chats.account AND l.chat = chats.chat AND l.thread = chats.thread), 0),
  COALESCE((SELECT h.at FROM history h WHERE h.chat_id = chats.id
    ORDER BY h.session DESC, h.seq DESC, h.ordinal DESC LIMIT 1), 0));
CREATE INDEX chats_used ON chats (channel, used_at);

-- +goose Down
DROP INDEX chats_used;
ALTER TABLE chats DROP COLUMN used_at;
