-- +goose Up

-- Work that a turn has given to another turn: a child turn of the same agent, or a question to another agent. A job has
-- the number of the wait of its call. Its message has a life and a lane of its own.
CREATE TABLE jobs (
  id          INTEGER PRIMARY KEY, -- of the wait
  kind        TEXT    NOT NULL CHECK (kind IN ('run', 'ask')),
  background  INTEGER NOT NULL, -- no call waits
  state       TEXT    NOT NULL CHECK (state IN ('open', 'done', 'failed', 'stopped')),
  parent_id   INTEGER NOT NULL, -- the life of the message whose turn began it; retention can have deleted that life
  life_id     INTEGER NOT NULL REFERENCES message_life (id), -- of its own message
  results     TEXT    NOT NULL, -- the key of the conversation with whoever began
  sender      TEXT    NOT NULL, -- the principal whose limit it counts for
  prompt      TEXT    NOT NULL, -- the beginning of it
  depth       INTEGER NOT NULL, -- child turns inside one another
  tokens      INTEGER NOT NULL, -- that it may use
  calls       INTEGER NOT NULL, -- of the model, likewise
  used_tokens INTEGER NOT NULL DEFAULT 0, -- once it has ended, with its own child turns
  used_calls  INTEGER NOT NULL DEFAULT 0,
  reason      TEXT    NOT NULL DEFAULT '', -- why it has no result
  notes       INTEGER NOT NULL DEFAULT 0, -- progress notes so far
  noted_at    INTEGER NOT NULL, -- the time of the last one, or of its begin
  created_at  INTEGER NOT NULL,
  ended_at    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX jobs_life ON jobs (life_id);
CREATE INDEX jobs_parent ON jobs (parent_id);
CREATE INDEX jobs_results ON jobs (results, id);
CREATE INDEX jobs_sender ON jobs (sender) WHERE state = 'open';
CREATE INDEX jobs_open ON jobs (id) WHERE state = 'open';

-- +goose Down
DROP TABLE jobs;
