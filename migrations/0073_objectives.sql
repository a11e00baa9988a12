-- +goose Up

-- The events of a service level objective in one minute, by whether they kept it. Six hours are kept.
CREATE TABLE objective_minutes (
  objective TEXT    NOT NULL,
  minute    INTEGER NOT NULL, -- of unix time
  good      INTEGER NOT NULL,
  bad       INTEGER NOT NULL,
  PRIMARY KEY (objective, minute)
) STRICT, WITHOUT ROWID;

-- How far the messages have been counted for an objective.
CREATE TABLE objective_cursors (
  objective TEXT    NOT NULL PRIMARY KEY,
  life_id   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- An alarm of an objective, and what its readers were told of it.
CREATE TABLE objective_alarms (
  objective TEXT    NOT NULL,
  severity  TEXT    NOT NULL,
  since     INTEGER NOT NULL, -- 0: it does not sound
  told_at   INTEGER NOT NULL, -- when readers were last told that it began
  told      INTEGER NOT NULL, -- 1: they know that it sounds now
  post      TEXT    NOT NULL, -- what is still to be posted; empty: nothing
  PRIMARY KEY (objective, severity)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE objective_alarms;
DROP TABLE objective_cursors;
DROP TABLE objective_minutes;
