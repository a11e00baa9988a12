-- +goose Up

-- Each event has a hash of itself and of the event before it. The chain begins behind the events that are there already: those have none.
ALTER TABLE audit_events ADD COLUMN hash BLOB NOT NULL DEFAULT x'';

-- Where the chain begins: the last event that is not part of it, since it was there before or retention has taken it away, and its hash.
CREATE TABLE audit_chain (
  id   INTEGER PRIMARY KEY CHECK (id = 1),
  past INTEGER NOT NULL,
  hash BLOB    NOT NULL
) STRICT;
INSERT INTO audit_chain (id, past, hash) SELECT 1, COALESCE(MAX(seq), 0), x'' FROM sqlite_sequence WHERE name = 'audit_events';

-- +goose Down
DROP TABLE audit_chain;
ALTER TABLE audit_events DROP COLUMN hash;
