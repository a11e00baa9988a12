-- +goose Up

-- The event file of which a task was made, so that a file that is read again after a crash makes no second task.
ALTER TABLE tasks ADD COLUMN origin TEXT NOT NULL DEFAULT '';
-- Words of others that come with the prompt: the model sees them as data.
ALTER TABLE tasks ADD COLUMN data TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX tasks_origin ON tasks (origin) WHERE origin <> '';

-- +goose Down
DROP INDEX tasks_origin;
ALTER TABLE tasks DROP COLUMN data;
ALTER TABLE tasks DROP COLUMN origin;
