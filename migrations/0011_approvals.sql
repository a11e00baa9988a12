-- +goose Up

-- Calls of tools that may run only after an admin has said so. A row is made with its step and is resolved once.
CREATE TABLE approvals (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- people say it: it never means another call
  life_id     INTEGER NOT NULL REFERENCES message_life (id),
  run         INTEGER NOT NULL,
  position    INTEGER NOT NULL,
  tool        TEXT    NOT NULL,
  args        TEXT    NOT NULL,
  dir         TEXT    NOT NULL,
  files       TEXT    NOT NULL, -- JSON: paths with their hashes
  digest      BLOB    NOT NULL, -- SHA-256 over all four
  rule        TEXT    NOT NULL,
  taint       TEXT    NOT NULL,
  step_id     TEXT    NOT NULL,
  state       TEXT    NOT NULL CHECK (state IN ('awaiting', 'approved', 'denied', 'expired')),
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  resolved_at INTEGER NOT NULL DEFAULT 0,
  resolved_by TEXT    NOT NULL DEFAULT ''
) STRICT;
-- One step may ask again in a later run of its message.
CREATE UNIQUE INDEX approvals_step ON approvals (life_id, run, position);
CREATE INDEX approvals_awaiting ON approvals (life_id) WHERE state = 'awaiting';

-- Who but the operator may have written the result of a tool. Of older results nobody knows.
ALTER TABLE history ADD COLUMN outside INTEGER NOT NULL DEFAULT 0;
UPDATE history SET outside = 1 WHERE speaker = 'tool';

-- +goose Down
ALTER TABLE history DROP COLUMN outside;
UPDATE lanes SET wake_at = unixepoch() * 1000 WHERE waiting = 'approval' AND leased = 0;
UPDATE execution_steps SET state = 'intended' WHERE state = 'awaiting';
DROP TABLE approvals;
