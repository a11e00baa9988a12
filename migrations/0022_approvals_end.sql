-- +goose Up

-- An approved call that was never made is void. A state is checked, so the table is made anew. Its numbers go on.
CREATE TABLE approvals_new (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- people say it: it never means another call
  life_id     INTEGER NOT NULL REFERENCES message_life (id),
  run         INTEGER NOT NULL,
  position    INTEGER NOT NULL,
  answer      INTEGER NOT NULL DEFAULT 0, -- the position of the answer's first call
  round       INTEGER NOT NULL DEFAULT 0, -- how often the call was asked about before
  request     INTEGER NOT NULL DEFAULT 0, -- the id of its first call
  beyond      INTEGER NOT NULL DEFAULT 0, -- only an admin everywhere may approve it
  tool        TEXT    NOT NULL,
  definition  TEXT    NOT NULL DEFAULT '', -- the fingerprint of what an MCP server says of the tool
  args        TEXT    NOT NULL,
  dir         TEXT    NOT NULL,
  files       TEXT    NOT NULL, -- JSON: paths with their hashes
  digest      BLOB    NOT NULL, -- SHA-256 over all five
  change      TEXT    NOT NULL DEFAULT '', -- JSON: what the call would make of a file, as it is shown
  rule        TEXT    NOT NULL,
  taint       TEXT    NOT NULL,
  step_id     TEXT    NOT NULL,
  instead     INTEGER NOT NULL DEFAULT 0, -- the request that was void
  because     TEXT    NOT NULL DEFAULT '', -- what had changed since that was approved
  state       TEXT    NOT NULL CHECK (state IN ('awaiting', 'approved', 'denied', 'expired', 'void')),
  ran         INTEGER NOT NULL DEFAULT 0, -- the call was begun
  reason      TEXT    NOT NULL DEFAULT '', -- why it is void
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  resolved_at INTEGER NOT NULL DEFAULT 0,
  resolved_by TEXT    NOT NULL DEFAULT ''
) STRICT;
INSERT INTO approvals_new (id, life_id, run, position, answer, request, beyond, tool, args, dir, files, digest, rule, taint, step_id,
  state, created_at, expires_at, resolved_at, resolved_by)
  SELECT id, life_id, run, position, answer, request, beyond, tool, args, dir, files, digest, rule, taint, step_id,
  state, created_at, expires_at, resolved_at, resolved_by FROM approvals;
DELETE FROM sqlite_sequence WHERE name = 'approvals_new';
INSERT INTO sqlite_sequence (name, seq) SELECT 'approvals_new', seq FROM sqlite_sequence WHERE name = 'approvals';
DROP TABLE approvals;
ALTER TABLE approvals_new RENAME TO approvals;
CREATE UNIQUE INDEX approvals_step ON approvals (life_id, run, position, answer, round);
CREATE INDEX approvals_awaiting ON approvals (life_id) WHERE state = 'awaiting';
CREATE INDEX approvals_request ON approvals (request);

-- What became of older approvals: a step in the place of the call, of the same tool, that was not denied, is the call.
UPDATE approvals SET ran = 1 WHERE state = 'approved' AND EXISTS (SELECT 1 FROM execution_steps s
  WHERE s.life_id = approvals.life_id AND s.run = approvals.run AND s.position = approvals.position AND s.kind = 'tool' AND s.state <> 'awaiting'
  AND CASE WHEN json_valid(s.request) THEN json_extract(s.request, '$.tool') END = approvals.tool
  AND CASE WHEN json_valid(s.result) THEN json_extract(s.result, '$.outcome') END IS NOT 'denied');
UPDATE approvals SET state = 'void', reason = 'its turn ended without the call' WHERE state = 'approved' AND ran = 0
  AND EXISTS (SELECT 1 FROM message_life m WHERE m.id = approvals.life_id AND m."end" <> '');

-- +goose Down
CREATE TABLE approvals_old (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- people say it: it never means another call
  life_id     INTEGER NOT NULL REFERENCES message_life (id),
  run         INTEGER NOT NULL,
  position    INTEGER NOT NULL,
  tool        TEXT    NOT NULL,
  args        TEXT    NOT NULL,
  dir         TEXT    NOT NULL,
  files       TEXT    NOT NULL, -- JSON: paths with their hashes
  digest      BLOB    NOT NULL, -- SHA-256 over all four
  rule        TEXT    NOT NULL,
  taint       TEXT    NOT NULL,
  step_id     TEXT    NOT NULL,
  state       TEXT    NOT NULL CHECK (state IN ('awaiting', 'approved', 'denied', 'expired')),
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  resolved_at INTEGER NOT NULL DEFAULT 0,
  resolved_by TEXT    NOT NULL DEFAULT '',
  request     INTEGER NOT NULL DEFAULT 0,
  answer      INTEGER NOT NULL DEFAULT 0,
  beyond      INTEGER NOT NULL DEFAULT 0
) STRICT;
-- An older Corebot knows no definitions, so that their digests are not what it would find.
INSERT INTO approvals_old SELECT id, life_id, run, position, tool, args, dir, files, digest, rule, taint, step_id,
  state, created_at, expires_at, resolved_at, resolved_by, request, answer, beyond FROM approvals WHERE state <> 'void' AND definition = '';
DELETE FROM sqlite_sequence WHERE name = 'approvals_old';
INSERT INTO sqlite_sequence (name, seq) SELECT 'approvals_old', seq FROM sqlite_sequence WHERE name = 'approvals';
DROP TABLE approvals;
ALTER TABLE approvals_old RENAME TO approvals;
CREATE UNIQUE INDEX approvals_step ON approvals (life_id, run, position, answer);
CREATE INDEX approvals_awaiting ON approvals (life_id) WHERE state = 'awaiting';
CREATE INDEX approvals_request ON approvals (request);
