-- +goose Up

-- The writer gives out the numbers of lives itself and stores the last one with every commit, so that none is used twice: AUTOINCREMENT
-- would write another table with each message.
ALTER TABLE store ADD COLUMN last_life INTEGER NOT NULL DEFAULT 0;
UPDATE store SET last_life = (SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'message_life');

DROP VIEW inbound_executions;
DROP VIEW message_dedupe;
CREATE TABLE lives (
  id            INTEGER PRIMARY KEY,
  lane_id       INTEGER NOT NULL REFERENCES lanes (id),
  message_id    TEXT    NOT NULL,
  kind          TEXT    NOT NULL,
  checksum      BLOB    NOT NULL,
  sender        TEXT    NOT NULL DEFAULT '',
  cause_id      INTEGER REFERENCES message_life (id),
  run           INTEGER NOT NULL DEFAULT 1,
  published_at  INTEGER NOT NULL,
  claimed_at    INTEGER NOT NULL DEFAULT 0,
  ended_at      INTEGER NOT NULL DEFAULT 0,
  "end"         TEXT    NOT NULL DEFAULT '',
  reason        TEXT    NOT NULL DEFAULT '',
  last_error    TEXT    NOT NULL DEFAULT '',
  attempts      INTEGER NOT NULL DEFAULT 0,
  attempt_log   TEXT    NOT NULL DEFAULT '',
  input_tokens  INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  body          BLOB
) STRICT;
INSERT INTO lives SELECT id, lane_id, message_id, kind, checksum, sender, cause_id, run, published_at, claimed_at, ended_at, "end", reason,
  last_error, attempts, attempt_log, input_tokens, output_tokens, body FROM message_life;
DROP TABLE message_life;
ALTER TABLE lives RENAME TO message_life;
CREATE UNIQUE INDEX message_life_key ON message_life (message_id, lane_id);
CREATE INDEX message_life_cause ON message_life (cause_id) WHERE cause_id IS NOT NULL;
CREATE INDEX message_life_dead ON message_life (ended_at) WHERE "end" = 'dead';

CREATE VIEW message_dedupe AS
  SELECT l.direction, m.message_id AS idempotency_key, l.agent, l.channel, l.account, l.chat AS chat_id, l.thread,
         m.id AS queue_id, m.published_at AS created_at
  FROM message_life m JOIN lanes l ON l.id = m.lane_id;

CREATE VIEW inbound_executions AS
  SELECT l.channel, l.chat AS chat_id, m.message_id AS inbound_id, m.run, m.attempts, m."end",
         CASE WHEN m."end" <> '' THEN 'completed' ELSE 'running' END AS status,
         m.claimed_at AS started_at, m.ended_at AS completed_at
  FROM message_life m JOIN lanes l ON l.id = m.lane_id
  WHERE l.direction = 1 AND (m.claimed_at > 0 OR m."end" <> '');

-- The rate limit of a lane: no new message of it is claimed before this time. It is here so that a restart does not reset it.
ALTER TABLE lanes ADD COLUMN free_at INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE lanes DROP COLUMN free_at;
DROP VIEW inbound_executions;
DROP VIEW message_dedupe;
CREATE TABLE lives (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  lane_id       INTEGER NOT NULL REFERENCES lanes (id),
  message_id    TEXT    NOT NULL,
  kind          TEXT    NOT NULL,
  checksum      BLOB    NOT NULL,
  sender        TEXT    NOT NULL DEFAULT '',
  cause_id      INTEGER REFERENCES message_life (id),
  run           INTEGER NOT NULL DEFAULT 1,
  published_at  INTEGER NOT NULL,
  claimed_at    INTEGER NOT NULL DEFAULT 0,
  ended_at      INTEGER NOT NULL DEFAULT 0,
  "end"         TEXT    NOT NULL DEFAULT '',
  reason        TEXT    NOT NULL DEFAULT '',
  last_error    TEXT    NOT NULL DEFAULT '',
  attempts      INTEGER NOT NULL DEFAULT 0,
  attempt_log   TEXT    NOT NULL DEFAULT '',
  input_tokens  INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  body          BLOB
) STRICT;
INSERT INTO lives SELECT id, lane_id, message_id, kind, checksum, sender, cause_id, run, published_at, claimed_at, ended_at, "end", reason,
  last_error, attempts, attempt_log, input_tokens, output_tokens, body FROM message_life;
DROP TABLE message_life;
ALTER TABLE lives RENAME TO message_life;
UPDATE sqlite_sequence SET seq = (SELECT last_life FROM store) WHERE name = 'message_life';
CREATE UNIQUE INDEX message_life_key ON message_life (message_id, lane_id);
CREATE INDEX message_life_cause ON message_life (cause_id) WHERE cause_id IS NOT NULL;
CREATE INDEX message_life_dead ON message_life (ended_at) WHERE "end" = 'dead';
CREATE VIEW message_dedupe AS
  SELECT l.direction, m.message_id AS idempotency_key, l.agent, l.channel, l.account, l.chat AS chat_id, l.thread,
         m.id AS queue_id, m.published_at AS created_at
  FROM message_life m JOIN lanes l ON l.id = m.lane_id;
CREATE VIEW inbound_executions AS
  SELECT l.channel, l.chat AS chat_id, m.message_id AS inbound_id, m.run, m.attempts, m."end",
         CASE WHEN m."end" <> '' THEN 'completed' ELSE 'running' END AS status,
         m.claimed_at AS started_at, m.ended_at AS completed_at
  FROM message_life m JOIN lanes l ON l.id = m.lane_id
  WHERE l.direction = 1 AND (m.claimed_at > 0 OR m."end" <> '');
ALTER TABLE store DROP COLUMN last_life;
