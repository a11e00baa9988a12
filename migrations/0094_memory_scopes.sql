-- +goose Up

-- Where the pieces of a memory page came from that no single chat owns: the page of an agent, or of one account of a
-- channel. The list is as in memory_sources. Each piece names the chat whose turn wrote it.
CREATE TABLE page_sources (
  agent   TEXT    NOT NULL,
  channel TEXT    NOT NULL, -- empty: the page of the agent
  account TEXT    NOT NULL,
  notes   TEXT    NOT NULL,
  at      INTEGER NOT NULL,
  PRIMARY KEY (agent, channel, account)
) STRICT;

-- A session keeps its summary when another session begins. So a chat has one summary for each session.
CREATE TABLE kept_summaries (
  chat_id  INTEGER NOT NULL REFERENCES chats (id),
  session  INTEGER NOT NULL,
  through  INTEGER NOT NULL, -- the place in the lane of the last turn that it covers
  text     TEXT    NOT NULL,
  model    TEXT    NOT NULL, -- who wrote it; empty: an extract, made without a model
  at       INTEGER NOT NULL,
  sender   TEXT    NOT NULL DEFAULT '', -- the only one, unless others is set
  others   INTEGER NOT NULL DEFAULT 1,
  outside  INTEGER NOT NULL DEFAULT 1,
  began_at INTEGER NOT NULL DEFAULT 0, -- when the first message was said that it covers; 0: nobody knows
  ended_at INTEGER NOT NULL DEFAULT 0, -- and the last
  PRIMARY KEY (chat_id, session)
) STRICT;
INSERT INTO kept_summaries (chat_id, session, through, text, model, at, sender, others, outside)
  SELECT chat_id, session, through, text, model, at, sender, others, outside FROM summaries;
DROP TABLE summaries;
ALTER TABLE kept_summaries RENAME TO summaries;

-- +goose Down
CREATE TABLE last_summaries (
  chat_id INTEGER PRIMARY KEY REFERENCES chats (id),
  session INTEGER NOT NULL,
  through INTEGER NOT NULL,
  text    TEXT    NOT NULL,
  model   TEXT    NOT NULL,
  at      INTEGER NOT NULL,
  sender  TEXT    NOT NULL DEFAULT '',
  others  INTEGER NOT NULL DEFAULT 1,
  outside INTEGER NOT NULL DEFAULT 1
) STRICT;
INSERT INTO last_summaries SELECT chat_id, session, through, text, model, at, sender, others, outside
  FROM summaries s WHERE session = (SELECT MAX(session) FROM summaries WHERE chat_id = s.chat_id);
DROP TABLE summaries;
ALTER TABLE last_summaries RENAME TO summaries;
DROP TABLE page_sources;
