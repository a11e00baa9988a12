-- +goose Up

-- What stands for the older part of a chat's session in the prompts of its later turns: one row a chat, since only the newest is ever read. The
-- history that it covers stays where it is.
CREATE TABLE summaries (
  chat_id INTEGER PRIMARY KEY REFERENCES chats (id),
  session INTEGER NOT NULL,
  through INTEGER NOT NULL, -- the place in the lane of the last turn that it covers
  text    TEXT    NOT NULL,
  model   TEXT    NOT NULL, -- who wrote it; empty: an extract, made without a model
  at      INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE summaries;
