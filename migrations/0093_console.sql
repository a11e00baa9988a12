-- +goose Up

-- An address with which a browser logs in to the console, once.
CREATE TABLE console_links (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  digest     BLOB    NOT NULL UNIQUE, -- SHA-256 of the code, which is stored nowhere
  expires_at INTEGER NOT NULL
) STRICT;

-- A browser that is logged in to the console.
CREATE TABLE console_sessions (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  digest     BLOB    NOT NULL UNIQUE, -- SHA-256 of the cookie's secret, which is stored nowhere
  browser    TEXT    NOT NULL, -- what it says of itself
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  used_at    INTEGER NOT NULL, -- to the minute
  revoked_at INTEGER NOT NULL DEFAULT 0 -- 0: it is in force
) STRICT;

-- How Corebot stood, at most every ten seconds, for a day. A row is written by a commit that happens anyway.
CREATE TABLE samples (
  at       INTEGER PRIMARY KEY,
  waiting  INTEGER NOT NULL, -- inbound messages that wait or run
  unsent   INTEGER NOT NULL, -- outbound messages that wait or are sent
  answered INTEGER NOT NULL, -- turns that were answered, counted since the home was made; so are the next four
  failed   INTEGER NOT NULL, -- claims that ended in a retry or a dead letter
  calls    INTEGER NOT NULL, -- tool calls
  tokens   INTEGER NOT NULL,
  cost     INTEGER NOT NULL, -- in millionths of the currency
  memory   INTEGER NOT NULL  -- bytes of the process
) STRICT;

-- +goose Down
DROP TABLE samples;
DROP TABLE console_sessions;
DROP TABLE console_links;
