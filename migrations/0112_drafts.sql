-- +goose Up

-- An answer that a chat sees grow: a message of the platform that is edited until the answer takes its place.
CREATE TABLE drafts (
  agent   TEXT NOT NULL,
  channel TEXT NOT NULL,
  account TEXT NOT NULL,
  chat    TEXT NOT NULL,
  thread  TEXT NOT NULL,
  answers TEXT NOT NULL, -- the id of the message that is being answered
  shown   TEXT NOT NULL, -- the platform's id of the message that shows the draft
  reply   TEXT NOT NULL, -- the id of the reply that takes its place; empty: none does yet
  PRIMARY KEY (agent, channel, account, chat, thread)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE drafts;
