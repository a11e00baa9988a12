-- +goose Up

-- What was said may have images, audio and files beside its text. parts is a JSON list of all of it, text among them; it
-- is empty for a text alone, as of all older rows. text is what is searched.
ALTER TABLE history ADD COLUMN parts TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE history DROP COLUMN parts;
