-- +goose Up

-- Replies that wait to be fetched by whoever polls, such as the callers of the webhook. Reading takes nothing away: a cursor names a
-- place, and rows stay for the retention time. AUTOINCREMENT: a cursor is never used again, also when all rows are gone.
CREATE TABLE mailbox (
  cursor      INTEGER PRIMARY KEY AUTOINCREMENT,
  chat_id     INTEGER NOT NULL REFERENCES chats (id),
  message_id  TEXT    NOT NULL,
  in_reply_to TEXT    NOT NULL,
  kind        TEXT    NOT NULL,
  content     TEXT    NOT NULL,
  created_at  INTEGER NOT NULL,
  UNIQUE (chat_id, message_id)
) STRICT;
CREATE INDEX mailbox_chat ON mailbox (chat_id, cursor);

-- +goose Down
DROP TABLE mailbox;
