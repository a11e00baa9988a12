-- +goose Up

-- Messages up to this place of a lane are no longer in the queue, whatever lies there: an operator gave up one that cannot be read. Its row
-- stays, since to delete it would be to believe what its damaged page says of other pages.
ALTER TABLE lanes ADD COLUMN past INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE lanes DROP COLUMN past;
