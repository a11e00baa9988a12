-- +goose Up

-- A head that meets a rate limit is tried again without counting the attempt, within a bound of time from the first one.
ALTER TABLE lanes ADD COLUMN limited    INTEGER NOT NULL DEFAULT 0; -- uncounted attempts of the head in its run
ALTER TABLE lanes ADD COLUMN limited_at INTEGER NOT NULL DEFAULT 0; -- when the first of them met the limit

ALTER TABLE message_life ADD COLUMN model     TEXT    NOT NULL DEFAULT ''; -- that gave the answer
ALTER TABLE message_life ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;  -- tokens that no provider counted

-- +goose Down
ALTER TABLE message_life DROP COLUMN estimated;
ALTER TABLE message_life DROP COLUMN model;
ALTER TABLE lanes DROP COLUMN limited_at;
ALTER TABLE lanes DROP COLUMN limited;
