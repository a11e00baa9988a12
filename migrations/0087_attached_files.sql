-- +goose Up

-- A reference of a message to a file. The bytes are in data/files, by the hash of their content. A row lives as long as
-- the life of its message or the history of its chat.
CREATE TABLE attached_files (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  agent      TEXT    NOT NULL,
  channel    TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  chat       TEXT    NOT NULL,
  thread     TEXT    NOT NULL,
  message_id TEXT    NOT NULL,
  hash       TEXT    NOT NULL, -- SHA-256 of the bytes, in hex
  name       TEXT    NOT NULL, -- display only: the sender chose it
  media_type TEXT    NOT NULL, -- of the bytes, not as the sender says
  size       INTEGER NOT NULL,
  fault      TEXT    NOT NULL DEFAULT '', -- why the bytes are not kept; empty: they are
  at         INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX attached_files_chat ON attached_files (chat, channel, account, agent, thread, hash, message_id, name);
CREATE INDEX attached_files_hash ON attached_files (hash, fault, size);

-- +goose Down
DROP TABLE attached_files;
