-- +goose Up

-- Changes that MCP clients have asked for under a key of theirs, so that a call that is repeated changes nothing. The newest are kept.
CREATE TABLE client_calls (
  id   INTEGER PRIMARY KEY AUTOINCREMENT,
  key  BLOB    NOT NULL UNIQUE, -- SHA-256 over the principal and its key
  call BLOB    NOT NULL,        -- SHA-256 over the tool and its arguments
  at   INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE client_calls;
