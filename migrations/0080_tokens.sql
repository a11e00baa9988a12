-- +goose Up

-- A token with which a program uses the HTTP API.
CREATE TABLE tokens (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  name       TEXT    NOT NULL, -- the operator chose it
  digest     BLOB    NOT NULL UNIQUE, -- SHA-256 of the secret, which is stored nowhere
  scopes     TEXT    NOT NULL, -- words with a comma between two
  created_at INTEGER NOT NULL,
  created_by TEXT    NOT NULL,
  expires_at INTEGER NOT NULL, -- 0: never
  used_at    INTEGER NOT NULL DEFAULT 0, -- to the minute; 0: never
  revoked_at INTEGER NOT NULL DEFAULT 0 -- 0: it is in force
) STRICT;
CREATE UNIQUE INDEX tokens_in_force ON tokens (name) WHERE revoked_at = 0;

-- +goose Down
DROP TABLE tokens;
