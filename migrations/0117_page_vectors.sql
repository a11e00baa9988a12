-- +goose Up

-- Pages of memory whose lines have vectors, or are to have them. The pages are files. A row has no word of its page, so
-- it says what of the page has to be looked at.
CREATE TABLE memory_pages (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  agent    TEXT    NOT NULL,
  channel  TEXT    NOT NULL,
  account  TEXT    NOT NULL,
  chat     TEXT    NOT NULL, -- empty: chats share the page
  thread   TEXT    NOT NULL,
  changes  INTEGER NOT NULL DEFAULT 0, -- by Corebot: a vector is stored only if there was none since its line was read
  embedded INTEGER NOT NULL DEFAULT 0, -- the generation of vectors that all lines have; 0: the page has changed
  UNIQUE (agent, channel, account, chat, thread)
) STRICT;
CREATE INDEX memory_pages_embedded ON memory_pages (embedded);
INSERT INTO memory_pages (agent, channel, account, chat, thread)
  SELECT c.agent, c.channel, c.account, c.chat, c.thread FROM memory_sources m JOIN chats c ON c.id = m.chat_id;
INSERT INTO memory_pages (agent, channel, account, chat, thread)
  SELECT agent, channel, account, '', '' FROM page_sources;

-- A vector of kind 4 is one of a line: its scope is the page, and its item is made of the text of the line.
-- +goose StatementBegin
CREATE TRIGGER page_unlike AFTER DELETE ON memory_pages BEGIN
  DELETE FROM vectors WHERE id BETWEEN (4 << 61) | (old.id << 38) AND (4 << 61) | (old.id << 38) | ((1 << 38) - 1);
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER page_unlike;
DELETE FROM vectors WHERE id < 0;
DROP TABLE memory_pages;
