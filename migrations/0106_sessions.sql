-- +goose Up
-- Entries that a /rewind has taken out of what the model is shown. They stay stored, and searches find them.
ALTER TABLE history ADD COLUMN rewound INTEGER NOT NULL DEFAULT 0; -- the life of the /rewind; -1: of the operator
-- Where the history of a chat came from that was made by a /fork.
CREATE TABLE forks (
  chat_id INTEGER PRIMARY KEY REFERENCES chats (id),
  origin  TEXT    NOT NULL, -- the key of the chat with which the forks began; empty: it was deleted
  life    INTEGER NOT NULL, -- of the /fork; 0: the operator forked
  entries INTEGER NOT NULL, -- copied
  older   INTEGER NOT NULL  -- entries that were too many to be copied
) STRICT;
CREATE INDEX forks_origin ON forks (origin);
-- +goose StatementBegin
CREATE TRIGGER fork_forgotten BEFORE DELETE ON chats BEGIN
  DELETE FROM forks WHERE chat_id = old.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER fork_forgotten;
DROP TABLE forks;
ALTER TABLE history DROP COLUMN rewound;
