-- +goose Up
-- Changes that programs made over the HTTP API under an idempotency key of their own. A key is kept for a day.
CREATE TABLE api_keys (
  id     INTEGER PRIMARY KEY,
  key    BLOB    NOT NULL UNIQUE,       -- SHA-256 over the token and its key
  call   BLOB    NOT NULL,              -- SHA-256 over the method, the path and the body
  token  INTEGER NOT NULL,
  status INTEGER NOT NULL DEFAULT 0,    -- of the answer; 0: no answer is kept
  answer BLOB    NOT NULL DEFAULT x'',
  at     INTEGER NOT NULL
) STRICT;
CREATE INDEX api_keys_at ON api_keys (at);
CREATE INDEX api_keys_token ON api_keys (token);

-- +goose Down
DROP TABLE api_keys;
