-- +goose Up

-- Approvals that last: each lets calls of one principal in one conversation run that would wait for an approval. People
-- say the numbers: they never mean another rule. A rule that is revoked, or whose session has ended, is deleted; the
-- audit trail keeps it.
CREATE TABLE approval_rules (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  agent      TEXT    NOT NULL,
  channel    TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  chat       TEXT    NOT NULL,
  thread     TEXT    NOT NULL,
  principal  TEXT    NOT NULL, -- whose calls
  session    INTEGER NOT NULL, -- of the chat; 0: in every session
  beyond     INTEGER NOT NULL, -- also of calls that reach beyond the chat
  binding    TEXT    NOT NULL, -- JSON: what it lets run
  request    INTEGER NOT NULL, -- the request that was answered so
  created_at INTEGER NOT NULL,
  created_by TEXT    NOT NULL  -- a principal, or "operator"
) STRICT;
CREATE UNIQUE INDEX approval_rules_of ON approval_rules
  (chat, channel, account, agent, thread, principal, session, beyond, binding, created_by);

ALTER TABLE approvals ADD COLUMN binding TEXT NOT NULL DEFAULT ''; -- JSON: what a lasting approval would let run
ALTER TABLE approvals ADD COLUMN unbound TEXT NOT NULL DEFAULT ''; -- why there is none
ALTER TABLE approvals ADD COLUMN lapsed TEXT NOT NULL DEFAULT ''; -- why a rule no longer answers
ALTER TABLE approvals ADD COLUMN session INTEGER NOT NULL DEFAULT 0; -- in which the call is made; 0: in none

-- +goose Down
ALTER TABLE approvals DROP COLUMN session;
ALTER TABLE approvals DROP COLUMN lapsed;
ALTER TABLE approvals DROP COLUMN unbound;
ALTER TABLE approvals DROP COLUMN binding;
DROP TABLE approval_rules;
