-- +goose Up

-- When the last overwriting of free pages began that has ended, in milliseconds; 0: none has.
ALTER TABLE store ADD COLUMN overwritten_at INTEGER NOT NULL DEFAULT 0;
-- Free pages are overwritten where they are. No row of zeros takes them any more.
DROP TABLE scrub;

-- +goose Down
CREATE TABLE scrub (
  id   INTEGER PRIMARY KEY,
  zero BLOB    NOT NULL
) STRICT;
ALTER TABLE store DROP COLUMN overwritten_at;
