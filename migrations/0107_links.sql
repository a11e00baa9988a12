-- +goose Up
-- A chat whose conversation another chat resumes, with the consent of both.
CREATE TABLE links (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  from_chat  INTEGER NOT NULL REFERENCES chats (id),
  giver      TEXT    NOT NULL, -- the principal who offered the conversation
  code       TEXT    NOT NULL DEFAULT '', -- empty: it was used, or the operator linked
  state      TEXT    NOT NULL, -- offered, asked or linked
  to_chat    INTEGER NOT NULL DEFAULT 0,
  taker      TEXT    NOT NULL DEFAULT '', -- the principal who entered the code
  entries    INTEGER NOT NULL DEFAULT 0,
  expires_at INTEGER NOT NULL, -- 0: never
  at         INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX links_code ON links (code) WHERE code <> '';
CREATE INDEX links_from ON links (from_chat);
CREATE INDEX links_to ON links (to_chat);
-- Wrong codes that were tried in chats: one row.
CREATE TABLE link_failures (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  failures INTEGER NOT NULL,
  since    INTEGER NOT NULL
) STRICT;
INSERT INTO link_failures VALUES (1, 0, 0);
-- Entries that a link has copied. They go with the link.
ALTER TABLE history ADD COLUMN linked INTEGER NOT NULL DEFAULT 0; -- the link; 0: none
CREATE INDEX history_linked ON history (linked) WHERE linked <> 0;
-- +goose StatementBegin
-- Forks of the chat that resumed a conversation have copies of it. So the link stays until its source goes.
CREATE TRIGGER link_forgotten BEFORE DELETE ON chats BEGIN
  DELETE FROM links WHERE from_chat = old.id OR to_chat = old.id AND state <> 'linked';
  UPDATE links SET to_chat = 0 WHERE to_chat = old.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER link_forgotten;
DROP INDEX history_linked;
ALTER TABLE history DROP COLUMN linked;
DROP TABLE link_failures;
DROP TABLE links;
