-- +goose Up

-- How much models think in a chat's session; in another session it says nothing.
ALTER TABLE chats ADD COLUMN think TEXT NOT NULL DEFAULT '';
ALTER TABLE chats ADD COLUMN think_session INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE chats DROP COLUMN think_session;
ALTER TABLE chats DROP COLUMN think;
