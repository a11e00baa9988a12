-- +goose Up

-- How far an account of a channel has received. position is the platform's own word for it, such as an update offset or a
-- sync token; nobody here reads it. moves counts how often it was written: a run that has read an older number is refused.
CREATE TABLE channel_cursors (
  channel  TEXT    NOT NULL,
  account  TEXT    NOT NULL,
  position TEXT    NOT NULL,
  moves    INTEGER NOT NULL,
  moved_at INTEGER NOT NULL,
  PRIMARY KEY (channel, account)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE channel_cursors;
