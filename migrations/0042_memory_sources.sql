-- +goose Up

-- Where the pieces of a chat's memory page came from: a JSON list, in the order of the page. A piece that is not what
-- its hash says was changed by something else than Corebot, and nobody knows whose text it is.
CREATE TABLE memory_sources (
  chat_id INTEGER PRIMARY KEY REFERENCES chats (id),
  notes   TEXT    NOT NULL,
  at      INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE memory_sources;
