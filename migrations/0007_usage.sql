-- +goose Up

-- What calls of models used: one row for each day, chat, principal and model. Days are those of the configured time zone when it was used.
-- key is the spelling of the chat's key; tokens that are cached are part of the input.
CREATE TABLE usage_days (
  day         TEXT    NOT NULL,
  agent       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  channel     TEXT    NOT NULL,
  account     TEXT    NOT NULL,
  sender      TEXT    NOT NULL,
  model       TEXT    NOT NULL,
  turns       INTEGER NOT NULL,
  input       INTEGER NOT NULL,
  output      INTEGER NOT NULL,
  cache_read  INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cost        INTEGER NOT NULL, -- millionths of the currency
  unpriced    INTEGER NOT NULL, -- tokens whose price was not known
  estimated   INTEGER NOT NULL, -- tokens that no provider counted
  PRIMARY KEY (day, key, sender, model)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_days_principal ON usage_days (day, channel, account, sender);

ALTER TABLE message_life ADD COLUMN cost INTEGER NOT NULL DEFAULT 0;
ALTER TABLE message_life ADD COLUMN unpriced INTEGER NOT NULL DEFAULT 0;

-- The model that a chat's session asks for; in another session it says nothing.
ALTER TABLE chats ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE chats ADD COLUMN model_session INTEGER NOT NULL DEFAULT 0;

-- Messages that have left their lane until they are due.
CREATE TABLE message_parked (
  life_id   INTEGER PRIMARY KEY REFERENCES message_life (id),
  lane_id   INTEGER NOT NULL,
  reason    TEXT    NOT NULL,
  parked_at INTEGER NOT NULL,
  due_at    INTEGER NOT NULL,
  body      BLOB    NOT NULL
) STRICT;
-- Those that are due come back in the order of publishing.
CREATE INDEX message_parked_due ON message_parked (due_at, life_id);
CREATE INDEX message_parked_lane ON message_parked (lane_id);

-- +goose Down
INSERT INTO message_queue (life_id, lane_id, seq, body)
  SELECT p.life_id, p.lane_id, l.next_seq - 1 + ROW_NUMBER() OVER (PARTITION BY p.lane_id ORDER BY p.life_id), p.body
  FROM message_parked p JOIN lanes l ON l.id = p.lane_id;
UPDATE lanes SET next_seq = lanes.next_seq + back.n, depth = lanes.depth + back.n, bytes = lanes.bytes + back.size, swept = lanes.swept + back.n,
  wake_at = COALESCE(lanes.wake_at, unixepoch() * 1000)
  FROM (SELECT lane_id, COUNT(*) AS n, SUM(LENGTH(body)) AS size FROM message_parked GROUP BY lane_id) AS back
  WHERE lanes.id = back.lane_id;
DROP TABLE message_parked;
ALTER TABLE chats DROP COLUMN model_session;
ALTER TABLE chats DROP COLUMN model;
ALTER TABLE message_life DROP COLUMN unpriced;
ALTER TABLE message_life DROP COLUMN cost;
DROP TABLE usage_days;
