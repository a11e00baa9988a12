-- +goose Up

-- The owner of the home is admin at its terminal without any grant. owner is the principal that the audit names as the
-- owner: a start that finds another owner writes an audit event. It is empty before the first such event.
ALTER TABLE store ADD COLUMN owner TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE store DROP COLUMN owner;
