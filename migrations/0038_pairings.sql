-- +goose Up

-- A sender who asked to talk on an account whose access is pairing. An account has at most 3 rows that are open, and each
-- other row is a decision of an admin.
CREATE TABLE pairings (
  channel    TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  sender     TEXT    NOT NULL CHECK (sender <> ''), -- nothing tells senders without an id apart
  name       TEXT    NOT NULL DEFAULT '', -- display only
  code       TEXT    NOT NULL UNIQUE,
  state      TEXT    NOT NULL CHECK (state IN ('open', 'paired', 'denied')),
  chat       TEXT    NOT NULL, -- the key of the chat that was told the code
  asked_at   INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  decided_by TEXT    NOT NULL DEFAULT '',
  decided_at INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (channel, account, sender)
) STRICT, WITHOUT ROWID;
CREATE INDEX pairings_open ON pairings (channel, account) WHERE state = 'open';

-- Wrong codes that admins have tried in chats since a time.
CREATE TABLE pairing_failures (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  failures INTEGER NOT NULL,
  since    INTEGER NOT NULL
) STRICT;
INSERT INTO pairing_failures (id, failures, since) VALUES (1, 0, 0);

-- +goose Down
DROP TABLE pairing_failures;
DROP TABLE pairings;
