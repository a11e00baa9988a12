-- +goose Up

-- What a program added to a message of a user beside its text: one JSON object, empty for none, as of all older rows.
ALTER TABLE history ADD COLUMN metadata TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE history DROP COLUMN metadata;
