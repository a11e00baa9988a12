-- +goose Up
-- Skills that are switched on or off in a chat: names with + or - in front, and a space between two.
ALTER TABLE chats ADD COLUMN skills TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE chats DROP COLUMN skills;
