-- +goose Up

-- What a tool call waits for: a time, or a word from outside. The step of the call stays in the journal with the state
-- "waiting". People say the numbers: they never mean another wait.
CREATE TABLE waits (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  life_id    INTEGER NOT NULL REFERENCES message_life (id), -- of the message whose turn waits
  run        INTEGER NOT NULL,
  position   INTEGER NOT NULL, -- of the step; of a word that was opened before, the step that waits for it
  kind       TEXT    NOT NULL,
  purpose    TEXT    NOT NULL, -- what it is good for, in the model's words
  state      TEXT    NOT NULL CHECK (state IN ('open', 'waiting', 'over', 'expired', 'ended')),
  rule       TEXT    NOT NULL DEFAULT '', -- by which the call was allowed, as the audit names it
  sender     TEXT    NOT NULL, -- the principal whose limit it counts for
  chat       TEXT    NOT NULL, -- the key of the conversation of the turn's results
  secret     BLOB    NOT NULL DEFAULT x'', -- SHA-256 of the key that lets a program give the word
  word       TEXT    NOT NULL DEFAULT '', -- what came
  outside    INTEGER NOT NULL DEFAULT 0, -- others than the operator and the principal can have written it
  reason     TEXT    NOT NULL DEFAULT '', -- why it was given up
  ended_by   TEXT    NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  due_at     INTEGER NOT NULL, -- when it is over, or expires
  ended_at   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX waits_step ON waits (life_id, run, position);
CREATE INDEX waits_open ON waits (life_id) WHERE state IN ('open', 'waiting');
CREATE INDEX waits_sender ON waits (sender) WHERE state IN ('open', 'waiting');
CREATE INDEX waits_chat ON waits (chat) WHERE state IN ('open', 'waiting');

-- +goose Down
DROP TABLE waits;
