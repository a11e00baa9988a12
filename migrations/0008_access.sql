-- +goose Up

-- Who may talk in a chat whatever the rule of its channel: 'allow' or 'deny'; '' leaves it to the rule.
ALTER TABLE chats ADD COLUMN access TEXT NOT NULL DEFAULT '';

-- One row: what is remembered of all attempts to become the first admin, so that a restart clears nothing.
CREATE TABLE bootstrap (
  id        INTEGER PRIMARY KEY CHECK (id = 1),
  failures  INTEGER NOT NULL, -- wrong keys since the newest lockout began
  locked_at INTEGER NOT NULL, -- when that was; 0: never
  used      INTEGER NOT NULL  -- the key has made an admin
) STRICT;
INSERT INTO bootstrap (id, failures, locked_at, used) VALUES (1, 0, 0, 0);

-- +goose Down
DROP TABLE bootstrap;
ALTER TABLE chats DROP COLUMN access;
