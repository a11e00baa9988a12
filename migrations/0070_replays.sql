-- +goose Up

-- A replay of the dead letters that a filter means. It goes through them in the order of their ids, and goes on after a
-- restart. At most one is open.
CREATE TABLE replays (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  filter   TEXT    NOT NULL, -- JSON
  fresh    INTEGER NOT NULL, -- the letters start over, and do not resume their journals
  every    INTEGER NOT NULL, -- microseconds from one letter to the next; 0: at once
  passed   INTEGER NOT NULL DEFAULT 0, -- the letters up to this id are behind it
  next_at  INTEGER NOT NULL DEFAULT 0, -- the next letters are not due before
  done     INTEGER NOT NULL DEFAULT 0, -- letters that it has replayed
  left     INTEGER NOT NULL DEFAULT 0, -- letters that stay, because the queue had no room
  why      TEXT    NOT NULL DEFAULT '', -- why the last of them stays
  began_at INTEGER NOT NULL, -- letters that died later are not meant
  ended_at INTEGER NOT NULL DEFAULT 0,
  stopped  INTEGER NOT NULL DEFAULT 0 -- an operator has ended it
) STRICT;
CREATE UNIQUE INDEX replays_open ON replays (ended_at) WHERE ended_at = 0;
CREATE INDEX message_life_dead_by_id ON message_life (id) WHERE "end" = 'dead';

-- +goose Down
DROP INDEX message_life_dead_by_id;
DROP TABLE replays;
