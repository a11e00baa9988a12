-- +goose Up

-- Dead letters of one cause in one chat, while their notices are grouped. A row ends when its time passes without
-- another dead letter.
CREATE TABLE dead_notices (
  agent   TEXT    NOT NULL,
  channel TEXT    NOT NULL,
  account TEXT    NOT NULL,
  chat    TEXT    NOT NULL,
  thread  TEXT    NOT NULL,
  cause   TEXT    NOT NULL, -- in the sentence for everybody; empty: further causes of the chat
  shown   INTEGER NOT NULL, -- notices of single letters
  counted INTEGER NOT NULL, -- letters of which the chat has not been told yet
  last_id TEXT    NOT NULL, -- the run of the last of them
  last    TEXT    NOT NULL, -- the id of its message
  rounds  INTEGER NOT NULL, -- notices of several letters
  due_at  INTEGER NOT NULL,
  PRIMARY KEY (agent, channel, account, chat, thread, cause)
) STRICT, WITHOUT ROWID;
CREATE INDEX dead_notices_due ON dead_notices (due_at);

-- +goose Down
DROP TABLE dead_notices;
