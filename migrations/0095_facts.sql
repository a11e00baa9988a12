-- +goose Up

-- Whose facts they are: those of one chat, of an account of a channel (no chat), or of an agent (no channel).
CREATE TABLE fact_owners (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  agent   TEXT NOT NULL,
  channel TEXT NOT NULL,
  account TEXT NOT NULL,
  chat    TEXT NOT NULL,
  thread  TEXT NOT NULL,
  UNIQUE (agent, channel, account, chat, thread)
) STRICT;

-- What somebody said, as a subject, a relation and an object.
CREATE TABLE facts (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  owner_id      INTEGER NOT NULL REFERENCES fact_owners (id),
  chat_id       INTEGER NOT NULL REFERENCES chats (id), -- where it was said
  subject       TEXT    NOT NULL,
  relation      TEXT    NOT NULL,
  object        TEXT    NOT NULL,
  about         TEXT    NOT NULL, -- subject and relation, folded
  says          TEXT    NOT NULL, -- the object, folded
  sender        TEXT    NOT NULL, -- who said it
  message_id    TEXT    NOT NULL,
  taint         TEXT    NOT NULL, -- what others can have had a hand in; empty: nothing
  trusted       INTEGER NOT NULL, -- an admin of everything stands for it
  at            INTEGER NOT NULL,
  superseded_by INTEGER NOT NULL DEFAULT 0 -- the fact that took its place; 0: it holds
) STRICT;
CREATE INDEX facts_about ON facts (owner_id, about, says) WHERE superseded_by = 0;
CREATE INDEX facts_of_chat ON facts (chat_id, id);

-- The folded words of facts that hold, for recall: the newest facts of a word are read first.
CREATE TABLE fact_words (
  owner_id INTEGER NOT NULL,
  word     TEXT    NOT NULL,
  fact_id  INTEGER NOT NULL,
  PRIMARY KEY (owner_id, word, fact_id DESC)
) STRICT, WITHOUT ROWID;
CREATE INDEX fact_words_of ON fact_words (fact_id);

-- Whoever deletes or supersedes a fact takes its words away.
-- +goose StatementBegin
CREATE TRIGGER fact_forgotten AFTER DELETE ON facts BEGIN
  DELETE FROM fact_words WHERE fact_id = old.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER fact_superseded AFTER UPDATE OF superseded_by ON facts WHEN new.superseded_by > 0 BEGIN
  DELETE FROM fact_words WHERE fact_id = old.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE fact_words;
DROP TABLE facts;
DROP TABLE fact_owners;
