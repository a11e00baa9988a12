-- +goose Up

-- A token with the scope send is the sender of its messages.
ALTER TABLE tokens ADD COLUMN sender TEXT NOT NULL DEFAULT ''; -- the id of its principal on the channel api; empty: it sends nothing
ALTER TABLE tokens ADD COLUMN chats TEXT NOT NULL DEFAULT '[]'; -- the chats in which it may talk, as JSON; "*": all

-- +goose Down
ALTER TABLE tokens DROP COLUMN chats;
ALTER TABLE tokens DROP COLUMN sender;
