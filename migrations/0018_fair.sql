-- +goose Up

-- A ready lane that is held back: its head's sender has turns enough, or another of his lanes comes first. held_for is that sender, '' too;
-- NULL is not held back. The lane's wake_at lies far in the future meanwhile, and held_at says how long it has been ready.
ALTER TABLE lanes ADD COLUMN held_for TEXT;
ALTER TABLE lanes ADD COLUMN held_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX lanes_held ON lanes (pool, channel, account, held_for, held_at) WHERE held_for IS NOT NULL;

-- +goose Down
UPDATE lanes SET wake_at = held_at WHERE held_for IS NOT NULL;
DROP INDEX lanes_held;
ALTER TABLE lanes DROP COLUMN held_at;
ALTER TABLE lanes DROP COLUMN held_for;
