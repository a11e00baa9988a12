-- +goose Up

-- Messages up to this place of a lane are no longer in the queue, whatever lies there: an operator gave up one that cannot be read. Its row
-- stays, since to delete it would be to believe what its damaged page says of other pages.
ALTER TABLE lanes ADD COLUMN past INTEGER NOT NULL DEFAULT 0;
-- The newest claim of the lane whose lease was taken from it before it ended.
ALTER TABLE lanes ADD COLUMN lost_epoch INTEGER NOT NULL DEFAULT 0;
-- When the newest commit was. A time of the future says that the wall clock was stepped back since.
ALTER TABLE store ADD COLUMN at INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE store DROP COLUMN at;
ALTER TABLE lanes DROP COLUMN lost_epoch;
ALTER TABLE lanes DROP COLUMN past;
