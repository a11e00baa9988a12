-- +goose Up

-- Changes that turns made of files, with what it takes to undo them. The newest of each chat are kept, for some time and
-- within some bytes of all chats together.
CREATE TABLE file_versions (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  agent      TEXT    NOT NULL,
  channel    TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  chat       TEXT    NOT NULL,
  thread     TEXT    NOT NULL,
  message_id TEXT    NOT NULL, -- in whose turn the change was made
  principal  TEXT    NOT NULL, -- for whom
  path       TEXT    NOT NULL, -- in the workspace, or absolute
  moved_from TEXT    NOT NULL DEFAULT '',
  made       TEXT    NOT NULL DEFAULT '', -- the topmost directory that the change made
  before     TEXT    NOT NULL, -- what was at the path: sha256:…, or a word
  after      TEXT    NOT NULL,
  mode       INTEGER NOT NULL DEFAULT 0, -- the rights of the file; 0: not known
  lost       INTEGER NOT NULL DEFAULT 0, -- 1: the content was too large to be kept
  undone_by  INTEGER NOT NULL DEFAULT 0, -- the life of the /undo that undoes it, or has done so
  changed_at INTEGER NOT NULL,
  bytes      INTEGER NOT NULL,
  data       BLOB -- the content before
) STRICT;
CREATE INDEX file_versions_chat ON file_versions (chat, channel, account, agent, thread, undone_by, message_id);
CREATE INDEX file_versions_bytes ON file_versions (id, bytes);

-- +goose Down
DROP TABLE file_versions;
