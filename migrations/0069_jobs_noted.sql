-- +goose Up

-- The progress notes of a conversation, whichever of its jobs they are of.
CREATE INDEX jobs_noted ON jobs (results, noted_at) WHERE notes > 0;

-- The tools that the runs of a task can have at most, as a JSON list; '': all. A child turn with chosen tools made it.
ALTER TABLE tasks ADD COLUMN tools TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE tasks DROP COLUMN tools;
DROP INDEX jobs_noted;
