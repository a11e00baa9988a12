-- +goose Up

-- What of a change nobody but its principal can have had a hand in. 0: nothing; 1: the path; 2: the whole content after
-- the change, too.
ALTER TABLE file_versions ADD COLUMN authored INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE file_versions DROP COLUMN authored;
