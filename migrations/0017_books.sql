-- +goose Up

-- Which database this is, a UUIDv7. The home remembers it in a file beside the database. The program gives it when it first opens the file: '' until then.
ALTER TABLE store ADD COLUMN identity TEXT NOT NULL DEFAULT '';

-- A chat is not forgotten while somebody has a role in it.
CREATE INDEX grants_scope ON grants (scope) WHERE scope <> '';

-- Counters of metrics. Each rises in the commit that writes what it counts: a restart does not reset it, and what retention takes away stays counted.
-- a and b are the values of its labels.
CREATE TABLE totals (
  name TEXT    NOT NULL,
  a    TEXT    NOT NULL,
  b    TEXT    NOT NULL,
  n    INTEGER NOT NULL,
  PRIMARY KEY (name, a, b)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE totals;
DROP INDEX grants_scope;
ALTER TABLE store DROP COLUMN identity;
