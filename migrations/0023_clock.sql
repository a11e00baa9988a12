-- +goose Up

-- Until when retention deletes nothing, in unix milliseconds: the wall clock was set far ahead, and may be wrong.
ALTER TABLE store ADD COLUMN sweep_from INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE store DROP COLUMN sweep_from;
