-- +goose Up

-- One row. batch rises with every commit of the writer: after a COMMIT whose outcome is unknown it tells what happened.
CREATE TABLE store (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  batch      INTEGER NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
INSERT INTO store (id, batch, created_at) VALUES (1, 0, unixepoch() * 1000);

-- Work is claimed by lane. wake_at is the one time that matters: due, backoff, wait or lease expiry; NULL when empty.
CREATE TABLE lanes (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  direction  INTEGER NOT NULL,
  agent      TEXT    NOT NULL,
  channel    TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  chat       TEXT    NOT NULL,
  thread     TEXT    NOT NULL,
  pool       TEXT    NOT NULL,
  next_seq   INTEGER NOT NULL DEFAULT 1,
  depth      INTEGER NOT NULL DEFAULT 0,
  bytes      INTEGER NOT NULL DEFAULT 0,
  wake_at    INTEGER,
  leased     INTEGER NOT NULL DEFAULT 0,
  epoch      INTEGER NOT NULL DEFAULT 0,
  claimed_at INTEGER NOT NULL DEFAULT 0,
  attempts   INTEGER NOT NULL DEFAULT 0, -- counted attempts of the head in its run
  lost       INTEGER NOT NULL DEFAULT 0, -- leases of the head lost in a row at one journal position
  lost_at    INTEGER NOT NULL DEFAULT 0, -- that journal position
  stop_seq   INTEGER NOT NULL DEFAULT 0, -- a /stop was accepted for the message at this place
  waiting    TEXT    NOT NULL DEFAULT '' -- why the head waits: backoff, shutdown, ...
) STRICT;
CREATE UNIQUE INDEX lanes_key ON lanes (direction, agent, channel, account, chat, thread);
CREATE INDEX lanes_wake ON lanes (pool, wake_at) WHERE wake_at IS NOT NULL;

-- The life of a message: dedupe record, execution header, attempts, lineage, end. Its body is here only when it is dead.
CREATE TABLE message_life (
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
-- Message ids first: with ids that grow in time new entries go to one end of the index, whatever the number of lanes.
CREATE UNIQUE INDEX message_life_key ON message_life (message_id, lane_id);
CREATE INDEX message_life_cause ON message_life (cause_id) WHERE cause_id IS NOT NULL;
CREATE INDEX message_life_dead ON message_life (ended_at) WHERE "end" = 'dead';

-- Bodies that wait. Written once, deleted once; the head of a lane is the row with its lowest seq.
CREATE TABLE message_queue (
  life_id INTEGER PRIMARY KEY REFERENCES message_life (id),
  lane_id INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  body    BLOB    NOT NULL,
  UNIQUE (lane_id, seq)
) STRICT;

-- The journal of a run: model answers and tool calls, in order.
CREATE TABLE execution_steps (
  life_id    INTEGER NOT NULL REFERENCES message_life (id),
  run        INTEGER NOT NULL,
  position   INTEGER NOT NULL,
  kind       TEXT    NOT NULL,
  state      TEXT    NOT NULL,
  request    TEXT    NOT NULL DEFAULT '',
  result     TEXT    NOT NULL DEFAULT '',
  started_at INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (life_id, run, position)
) STRICT;

CREATE TABLE chats (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  agent        TEXT    NOT NULL,
  channel      TEXT    NOT NULL,
  account      TEXT    NOT NULL,
  chat         TEXT    NOT NULL,
  thread       TEXT    NOT NULL,
  display_name TEXT    NOT NULL DEFAULT '',
  registered   INTEGER NOT NULL DEFAULT 0,
  session      INTEGER NOT NULL DEFAULT 1,
  created_at   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX chats_key ON chats (agent, channel, account, chat, thread);

-- History is ordered by the place of its turn in the lane, then by the place in the turn: never by a global id.
CREATE TABLE history (
  chat_id    INTEGER NOT NULL REFERENCES chats (id),
  session    INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  ordinal    INTEGER NOT NULL,
  speaker    TEXT    NOT NULL,
  sender     TEXT    NOT NULL DEFAULT '',
  name       TEXT    NOT NULL DEFAULT '',
  text       TEXT    NOT NULL,
  calls      TEXT    NOT NULL DEFAULT '',
  call_id    TEXT    NOT NULL DEFAULT '',
  message_id TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  PRIMARY KEY (chat_id, session, seq, ordinal)
) STRICT;

CREATE TABLE grants (
  channel    TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  sender     TEXT    NOT NULL CHECK (sender <> ''),
  scope      TEXT    NOT NULL, -- a key's spelling, or '' for everywhere
  role       TEXT    NOT NULL CHECK (role IN ('normal', 'admin')),
  granted_by TEXT    NOT NULL,
  granted_at INTEGER NOT NULL,
  PRIMARY KEY (channel, account, sender, scope)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit_events (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  at          INTEGER NOT NULL,
  event       TEXT    NOT NULL,
  tool        TEXT    NOT NULL,
  agent       TEXT    NOT NULL,
  channel     TEXT    NOT NULL,
  account     TEXT    NOT NULL,
  chat        TEXT    NOT NULL,
  thread      TEXT    NOT NULL,
  sender      TEXT    NOT NULL,
  role        TEXT    NOT NULL,
  entry       TEXT    NOT NULL,
  outcome     TEXT    NOT NULL,
  rule        TEXT    NOT NULL,
  args        TEXT    NOT NULL,
  duration_ms INTEGER NOT NULL,
  step_id     TEXT    NOT NULL
) STRICT;

-- Names that operators know from the older architecture.
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

-- +goose Down
DROP VIEW inbound_executions;
DROP VIEW message_dedupe;
DROP TABLE audit_events;
DROP TABLE grants;
DROP TABLE history;
DROP TABLE chats;
DROP TABLE execution_steps;
DROP TABLE message_queue;
DROP TABLE message_life;
DROP TABLE lanes;
DROP TABLE store;
