-- +goose Up

-- Where a task was made. Its runs are as overheard as the turn that made it, and a rule for groups holds for them.
ALTER TABLE tasks ADD COLUMN in_group INTEGER NOT NULL DEFAULT 0;  -- 1: a message of a group made it
ALTER TABLE tasks ADD COLUMN overheard INTEGER NOT NULL DEFAULT 0; -- 1: others than its maker read what it answers

-- +goose Down
ALTER TABLE tasks DROP COLUMN overheard;
ALTER TABLE tasks DROP COLUMN in_group;
