-- +goose Up

-- Counters by the agent whose messages they are of. Those from before name no agent.
CREATE TABLE totals_by_agent (
  name  TEXT    NOT NULL,
  agent TEXT    NOT NULL,
  a     TEXT    NOT NULL,
  b     TEXT    NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (name, agent, a, b)
) STRICT, WITHOUT ROWID;
INSERT INTO totals_by_agent (name, agent, a, b, n) SELECT name, '', a, b, n FROM totals;
DROP TABLE totals;
ALTER TABLE totals_by_agent RENAME TO totals;

-- +goose Down
CREATE TABLE totals_of_all (
  name TEXT    NOT NULL,
  a    TEXT    NOT NULL,
  b    TEXT    NOT NULL,
  n    INTEGER NOT NULL,
  PRIMARY KEY (name, a, b)
) STRICT, WITHOUT ROWID;
INSERT INTO totals_of_all (name, a, b, n) SELECT name, a, b, SUM(n) FROM totals GROUP BY name, a, b;
DROP TABLE totals;
ALTER TABLE totals_of_all RENAME TO totals;
