-- +goose Up

-- Prompts that are due at set times. Numbers are shown and said: they never mean another task.
CREATE TABLE tasks (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  version    INTEGER NOT NULL DEFAULT 1, -- counts the changes: a due time is published for the task as it was read
  name       TEXT    NOT NULL,
  agent      TEXT    NOT NULL,
  channel    TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  chat       TEXT    NOT NULL,
  thread     TEXT    NOT NULL,
  kind       TEXT    NOT NULL,
  spec       TEXT    NOT NULL,
  time_zone  TEXT    NOT NULL,
  prompt     TEXT    NOT NULL,
  context    TEXT    NOT NULL,
  state      TEXT    NOT NULL CHECK (state IN ('active', 'paused', 'done')),
  reason     TEXT    NOT NULL DEFAULT '', -- why it is paused or done
  creator    TEXT    NOT NULL, -- a principal
  made_in    TEXT    NOT NULL DEFAULT '', -- the conversation of its maker
  others     TEXT    NOT NULL DEFAULT '', -- JSON: principals who spoke to the turn that made it
  taint      TEXT    NOT NULL DEFAULT '',
  chain      INTEGER NOT NULL DEFAULT 0, -- tasks in a row, each made by a run of the one before
  failures   INTEGER NOT NULL DEFAULT 0, -- runs in a row that failed
  created_at INTEGER NOT NULL,
  anchor_at  INTEGER NOT NULL, -- from where its intervals count
  next_run   INTEGER, -- NULL: it is never due
  last_run   INTEGER NOT NULL DEFAULT 0,
  ended_at   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX tasks_due ON tasks (next_run, id) WHERE state = 'active' AND next_run IS NOT NULL;
CREATE INDEX tasks_chat ON tasks (chat, channel, account, agent, thread);
CREATE INDEX tasks_creator ON tasks (creator);

-- A due time and what became of it. While its message is known, the message tells the end.
CREATE TABLE task_runs (
  task_id      INTEGER NOT NULL,
  due          INTEGER NOT NULL,
  published_at INTEGER NOT NULL,
  life_id      INTEGER NOT NULL, -- 0: no message was published
  ended_at     INTEGER NOT NULL DEFAULT 0,
  outcome      TEXT    NOT NULL DEFAULT '',
  error        TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (task_id, due)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE task_runs;
DROP TABLE tasks;
