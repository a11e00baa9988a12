-- has 0001_spine.sql
-- has 0002_mailbox.sql
-- has 0003_pace.sql
-- has 0004_retention.sql
-- has 0005_summaries.sql
-- has 0006_queue_modes.sql
-- has 0007_usage.sql
-- has 0008_access.sql
-- has 0009_search.sql
-- has 0010_audit_chain.sql
-- has 0011_approvals.sql
-- has 0012_mcp.sql
-- has 0013_client_calls.sql
-- has 0014_dead_of_a_lane.sql
-- has 0015_mcp_approved.sql
-- has 0016_set_aside.sql
-- has 0017_books.sql
-- has 0018_fair.sql
-- has 0019_limited.sql
-- has 0020_mcp_servers.sql
-- has 0021_file_charges.sql
-- has 0022_approvals_end.sql
-- has 0023_clock.sql
-- has 0025_agents.sql
-- has 0028_parts.sql
-- has 0029_channel_cursors.sql
-- has 0030_mail_parts.sql
-- has 0031_history_metadata.sql
-- has 0035_home_owner.sql
-- has 0036_tasks.sql
-- has 0038_pairings.sql
-- has 0039_totals_by_agent.sql
-- has 0041_summary_sources.sql
-- has 0042_memory_sources.sql
-- has 0043_approval_rules.sql
-- has 0044_mcp_read_only.sql
-- has 0045_file_versions.sql
-- has 0047_think.sql
-- has 0048_tasks_of_groups.sql
-- has 0049_open_task_runs.sql
-- has 0057_task_origin.sql
-- has 0059_waits.sql
-- has 0060_jobs.sql
-- has 0067_deliver_at.sql
-- has 0068_open_tasks.sql
-- has 0069_jobs_noted.sql
-- has 0070_replays.sql
-- has 0071_dead_notices.sql
-- has 0073_objectives.sql
-- has 0080_tokens.sql
-- has 0083_detached.sql
-- has 0087_attached_files.sql
-- has 0091_sending_tokens.sql
-- has 0093_console.sql
-- has 0094_memory_scopes.sql
-- has 0095_facts.sql
-- has 0097_forget.sql
-- has 0098_chat_skills.sql
-- has 0102_api_keys.sql
-- has 0104_vectors.sql
-- has 0106_sessions.sql
-- has 0107_links.sql
-- has 0109_answers.sql
-- has 0110_link_tries.sql
-- has 0112_drafts.sql
-- has 0113_draft_began.sql
-- has 0114_overwritten.sql
-- has 0115_authored_files.sql
-- has 0116_declarable.sql
-- has 0117_page_vectors.sql
-- has 0118_usage_by_sender.sql
-- has 0119_forgotten.sql
-- has 0120_chats_used.sql
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
CREATE TABLE store (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  batch      INTEGER NOT NULL,
  created_at INTEGER NOT NULL
, last_life INTEGER NOT NULL DEFAULT 0, at INTEGER NOT NULL DEFAULT 0, identity TEXT NOT NULL DEFAULT '', sweep_from INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '', overwritten_at INTEGER NOT NULL DEFAULT 0, forget_key BLOB NOT NULL DEFAULT x'') STRICT;
CREATE TABLE lanes (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  direction  INTEGER NOT NULL,
  agent      TEXT    NOT NULL,
  channel    TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  chat       TEXT    NOT NULL,
  thread     TEXT    NOT NULL,
  pool       TEXT    NOT NULL,
  next_seq   INTEGER NOT NULL DEFAULT 1,
  depth      INTEGER NOT NULL DEFAULT 0,
  bytes      INTEGER NOT NULL DEFAULT 0,
  wake_at    INTEGER,
  leased     INTEGER NOT NULL DEFAULT 0,
  epoch      INTEGER NOT NULL DEFAULT 0,
  claimed_at INTEGER NOT NULL DEFAULT 0,
  attempts   INTEGER NOT NULL DEFAULT 0, -- counted attempts of the head in its run
  lost       INTEGER NOT NULL DEFAULT 0, -- leases of the head lost in a row at one journal position
  lost_at    INTEGER NOT NULL DEFAULT 0, -- that journal position
  stop_seq   INTEGER NOT NULL DEFAULT 0, -- a /stop was accepted for the message at this place
  waiting    TEXT    NOT NULL DEFAULT '' -- why the head waits: backoff, shutdown, ...
, free_at INTEGER NOT NULL DEFAULT 0, swept INTEGER NOT NULL DEFAULT 0, mode TEXT NOT NULL DEFAULT '', quiet_at INTEGER NOT NULL DEFAULT 0, quiet_from INTEGER NOT NULL DEFAULT 0, interrupted INTEGER NOT NULL DEFAULT 0, merge_seq INTEGER NOT NULL DEFAULT 0, past INTEGER NOT NULL DEFAULT 0, lost_epoch INTEGER NOT NULL DEFAULT 0, held_for TEXT, held_at INTEGER NOT NULL DEFAULT 0, limited    INTEGER NOT NULL DEFAULT 0, limited_at INTEGER NOT NULL DEFAULT 0, detached INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX lanes_key ON lanes (direction, agent, channel, account, chat, thread);
CREATE INDEX lanes_wake ON lanes (pool, wake_at) WHERE wake_at IS NOT NULL;
CREATE TABLE message_queue (
  life_id INTEGER PRIMARY KEY REFERENCES message_life (id),
  lane_id INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  body    BLOB    NOT NULL, merge_into INTEGER NOT NULL DEFAULT 0,
  UNIQUE (lane_id, seq)
) STRICT;
CREATE TABLE execution_steps (
  life_id    INTEGER NOT NULL REFERENCES message_life (id),
  run        INTEGER NOT NULL,
  position   INTEGER NOT NULL,
  kind       TEXT    NOT NULL,
  state      TEXT    NOT NULL,
  request    TEXT    NOT NULL DEFAULT '',
  result     TEXT    NOT NULL DEFAULT '',
  started_at INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (life_id, run, position)
) STRICT;
CREATE TABLE chats (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  agent        TEXT    NOT NULL,
  channel      TEXT    NOT NULL,
  account      TEXT    NOT NULL,
  chat         TEXT    NOT NULL,
  thread       TEXT    NOT NULL,
  display_name TEXT    NOT NULL DEFAULT '',
  registered   INTEGER NOT NULL DEFAULT 0,
  session      INTEGER NOT NULL DEFAULT 1,
  created_at   INTEGER NOT NULL
, queue_mode TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '', model_session INTEGER NOT NULL DEFAULT 0, access TEXT NOT NULL DEFAULT '', think TEXT NOT NULL DEFAULT '', think_session INTEGER NOT NULL DEFAULT 0, skills TEXT NOT NULL DEFAULT '', used_at INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX chats_key ON chats (agent, channel, account, chat, thread);
CREATE TABLE grants (
  channel    TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  sender     TEXT    NOT NULL CHECK (sender <> ''),
  scope      TEXT    NOT NULL, -- a key's spelling, or '' for everywhere
  role       TEXT    NOT NULL CHECK (role IN ('normal', 'admin')),
  granted_by TEXT    NOT NULL,
  granted_at INTEGER NOT NULL,
  PRIMARY KEY (channel, account, sender, scope)
) STRICT, WITHOUT ROWID;
CREATE TABLE audit_events (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  at          INTEGER NOT NULL,
  event       TEXT    NOT NULL,
  tool        TEXT    NOT NULL,
  agent       TEXT    NOT NULL,
  channel     TEXT    NOT NULL,
  account     TEXT    NOT NULL,
  chat        TEXT    NOT NULL,
  thread      TEXT    NOT NULL,
  sender      TEXT    NOT NULL,
  role        TEXT    NOT NULL,
  entry       TEXT    NOT NULL,
  outcome     TEXT    NOT NULL,
  rule        TEXT    NOT NULL,
  args        TEXT    NOT NULL,
  duration_ms INTEGER NOT NULL,
  step_id     TEXT    NOT NULL
, hash BLOB NOT NULL DEFAULT x'', args_salt BLOB NOT NULL DEFAULT x'', args_sum BLOB NOT NULL DEFAULT x'') STRICT;
CREATE TABLE mailbox (
  cursor      INTEGER PRIMARY KEY AUTOINCREMENT,
  chat_id     INTEGER NOT NULL REFERENCES chats (id),
  message_id  TEXT    NOT NULL,
  in_reply_to TEXT    NOT NULL,
  kind        TEXT    NOT NULL,
  content     TEXT    NOT NULL,
  created_at  INTEGER NOT NULL, parts  TEXT NOT NULL DEFAULT '', notice TEXT NOT NULL DEFAULT '',
  UNIQUE (chat_id, message_id)
) STRICT;
CREATE INDEX mailbox_chat ON mailbox (chat_id, cursor);
CREATE TABLE "message_life" (
  id            INTEGER PRIMARY KEY,
  lane_id       INTEGER NOT NULL REFERENCES lanes (id),
  message_id    TEXT    NOT NULL,
  kind          TEXT    NOT NULL,
  checksum      BLOB    NOT NULL,
  sender        TEXT    NOT NULL DEFAULT '',
  cause_id      INTEGER REFERENCES message_life (id),
  run           INTEGER NOT NULL DEFAULT 1,
  published_at  INTEGER NOT NULL,
  claimed_at    INTEGER NOT NULL DEFAULT 0,
  ended_at      INTEGER NOT NULL DEFAULT 0,
  "end"         TEXT    NOT NULL DEFAULT '',
  reason        TEXT    NOT NULL DEFAULT '',
  last_error    TEXT    NOT NULL DEFAULT '',
  attempts      INTEGER NOT NULL DEFAULT 0,
  attempt_log   TEXT    NOT NULL DEFAULT '',
  input_tokens  INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  body          BLOB
, merged_id INTEGER, cost INTEGER NOT NULL DEFAULT 0, unpriced INTEGER NOT NULL DEFAULT 0, model     TEXT    NOT NULL DEFAULT '', estimated INTEGER NOT NULL DEFAULT 0, deliver_at INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX message_life_key ON message_life (message_id, lane_id);
CREATE INDEX message_life_cause ON message_life (cause_id) WHERE cause_id IS NOT NULL;
CREATE INDEX message_life_dead ON message_life (ended_at) WHERE "end" = 'dead';
CREATE VIEW message_dedupe AS
  SELECT l.direction, m.message_id AS idempotency_key, l.agent, l.channel, l.account, l.chat AS chat_id, l.thread,
         m.id AS queue_id, m.published_at AS created_at
  FROM message_life m JOIN lanes l ON l.id = m.lane_id;
CREATE VIEW inbound_executions AS
  SELECT l.channel, l.chat AS chat_id, m.message_id AS inbound_id, m.run, m.attempts, m."end",
         CASE WHEN m."end" <> '' THEN 'completed' ELSE 'running' END AS status,
         m.claimed_at AS started_at, m.ended_at AS completed_at
  FROM message_life m JOIN lanes l ON l.id = m.lane_id
  WHERE l.direction = 1 AND (m.claimed_at > 0 OR m."end" <> '');
CREATE INDEX message_life_control ON message_life (lane_id) WHERE kind = 'control';
CREATE INDEX message_queue_merges ON message_queue (merge_into, seq) WHERE merge_into <> 0;
CREATE TABLE message_parked (
  life_id   INTEGER PRIMARY KEY REFERENCES message_life (id),
  lane_id   INTEGER NOT NULL,
  reason    TEXT    NOT NULL,
  parked_at INTEGER NOT NULL,
  due_at    INTEGER NOT NULL,
  body      BLOB    NOT NULL
) STRICT;
CREATE INDEX message_parked_due ON message_parked (due_at, life_id);
CREATE INDEX message_parked_lane ON message_parked (lane_id);
CREATE TABLE bootstrap (
  id        INTEGER PRIMARY KEY CHECK (id = 1),
  failures  INTEGER NOT NULL, -- wrong keys since the newest lockout began
  locked_at INTEGER NOT NULL, -- when that was; 0: never
  used      INTEGER NOT NULL  -- the key has made an admin
) STRICT;
CREATE TABLE "history" (
  id         INTEGER PRIMARY KEY,
  chat_id    INTEGER NOT NULL REFERENCES chats (id),
  session    INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  ordinal    INTEGER NOT NULL,
  speaker    TEXT    NOT NULL,
  sender     TEXT    NOT NULL DEFAULT '',
  name       TEXT    NOT NULL DEFAULT '',
  text       TEXT    NOT NULL,
  calls      TEXT    NOT NULL DEFAULT '',
  call_id    TEXT    NOT NULL DEFAULT '',
  message_id TEXT    NOT NULL,
  at         INTEGER NOT NULL, outside INTEGER NOT NULL DEFAULT 0, parts TEXT NOT NULL DEFAULT '', metadata TEXT NOT NULL DEFAULT '', rewound INTEGER NOT NULL DEFAULT 0, linked INTEGER NOT NULL DEFAULT 0,
  UNIQUE (chat_id, session, seq, ordinal)
) STRICT;
CREATE VIRTUAL TABLE history_terms USING fts5(terms, content='', contentless_delete=1, tokenize='ascii');
CREATE TABLE history_indexed (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  through INTEGER NOT NULL
) STRICT;
CREATE TRIGGER history_forgotten AFTER DELETE ON history BEGIN
  DELETE FROM history_terms WHERE rowid = old.id;
  UPDATE history_indexed SET through = (SELECT COALESCE(MAX(id), 0) FROM history)
    WHERE through > (SELECT COALESCE(MAX(id), 0) FROM history);
END;
CREATE TABLE audit_chain (
  id   INTEGER PRIMARY KEY CHECK (id = 1),
  past INTEGER NOT NULL,
  hash BLOB    NOT NULL
) STRICT;
CREATE TABLE client_calls (
  id   INTEGER PRIMARY KEY AUTOINCREMENT,
  key  BLOB    NOT NULL UNIQUE, -- SHA-256 over the principal and its key
  call BLOB    NOT NULL,        -- SHA-256 over the tool and its arguments
  at   INTEGER NOT NULL
) STRICT;
CREATE INDEX message_life_dead_of_lane ON message_life (lane_id, ended_at) WHERE "end" = 'dead';
CREATE INDEX grants_scope ON grants (scope) WHERE scope <> '';
CREATE INDEX lanes_held ON lanes (pool, channel, account, held_for, held_at) WHERE held_for IS NOT NULL;
CREATE TABLE file_charges (
  chat    TEXT    NOT NULL,
  channel TEXT    NOT NULL,
  account TEXT    NOT NULL,
  sender  TEXT    NOT NULL, -- '' is a sender that the channel could not name: the chat is charged
  bytes   INTEGER NOT NULL,
  entries INTEGER NOT NULL,
  PRIMARY KEY (chat, channel, account, sender)
) STRICT, WITHOUT ROWID;
CREATE INDEX file_charges_sender ON file_charges (channel, account, sender, chat, bytes, entries);
CREATE TABLE "approvals" (
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
, binding TEXT NOT NULL DEFAULT '', unbound TEXT NOT NULL DEFAULT '', lapsed TEXT NOT NULL DEFAULT '', session INTEGER NOT NULL DEFAULT 0, asked_life INTEGER NOT NULL DEFAULT 0, asked_run INTEGER NOT NULL DEFAULT 0, asked_position INTEGER NOT NULL DEFAULT 0, declarable INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX approvals_step ON approvals (life_id, run, position, answer, round);
CREATE INDEX approvals_awaiting ON approvals (life_id) WHERE state = 'awaiting';
CREATE INDEX approvals_request ON approvals (request);
CREATE TABLE "mcp_tools" (
  agent      TEXT    NOT NULL,
  server     TEXT    NOT NULL,
  tool       TEXT    NOT NULL, -- as the server calls it
  pinned     TEXT    NOT NULL, -- SHA-256 of all that the server says of it, at the first listing or at an approval; '' never
  approved   TEXT    NOT NULL, -- the same, by an operator; '' never
  seen       TEXT    NOT NULL, -- the same, of what was seen last
  changed_at INTEGER NOT NULL, read_only TEXT NOT NULL DEFAULT '', -- when seen became what it is
  PRIMARY KEY (agent, server, tool)
) STRICT, WITHOUT ROWID;
CREATE TABLE "mcp_servers" (
  agent     TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  listed_at INTEGER NOT NULL, -- for the first time
  PRIMARY KEY (agent, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE channel_cursors (
  channel  TEXT    NOT NULL,
  account  TEXT    NOT NULL,
  position TEXT    NOT NULL,
  moves    INTEGER NOT NULL,
  moved_at INTEGER NOT NULL,
  PRIMARY KEY (channel, account)
) STRICT, WITHOUT ROWID;
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
, in_group INTEGER NOT NULL DEFAULT 0, overheard INTEGER NOT NULL DEFAULT 0, origin TEXT NOT NULL DEFAULT '', data TEXT NOT NULL DEFAULT '', tools TEXT NOT NULL DEFAULT '') STRICT;
CREATE INDEX tasks_due ON tasks (next_run, id) WHERE state = 'active' AND next_run IS NOT NULL;
CREATE INDEX tasks_chat ON tasks (chat, channel, account, agent, thread);
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
CREATE TABLE pairings (
  channel    TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  sender     TEXT    NOT NULL CHECK (sender <> ''), -- nothing tells senders without an id apart
  name       TEXT    NOT NULL DEFAULT '', -- display only
  code       TEXT    NOT NULL UNIQUE,
  state      TEXT    NOT NULL CHECK (state IN ('open', 'paired', 'denied')),
  chat       TEXT    NOT NULL, -- the key of the chat that was told the code
  asked_at   INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  decided_by TEXT    NOT NULL DEFAULT '',
  decided_at INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (channel, account, sender)
) STRICT, WITHOUT ROWID;
CREATE INDEX pairings_open ON pairings (channel, account) WHERE state = 'open';
CREATE TABLE pairing_failures (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  failures INTEGER NOT NULL,
  since    INTEGER NOT NULL
) STRICT;
CREATE TABLE "totals" (
  name  TEXT    NOT NULL,
  agent TEXT    NOT NULL,
  a     TEXT    NOT NULL,
  b     TEXT    NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (name, agent, a, b)
) STRICT, WITHOUT ROWID;
CREATE TABLE memory_sources (
  chat_id INTEGER PRIMARY KEY REFERENCES chats (id),
  notes   TEXT    NOT NULL,
  at      INTEGER NOT NULL
) STRICT;
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
CREATE TABLE file_versions (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  agent      TEXT    NOT NULL,
  channel    TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  chat       TEXT    NOT NULL,
  thread     TEXT    NOT NULL,
  message_id TEXT    NOT NULL, -- in whose turn the change was made
  principal  TEXT    NOT NULL, -- for whom
  path       TEXT    NOT NULL, -- in the workspace, or absolute
  moved_from TEXT    NOT NULL DEFAULT '',
  made       TEXT    NOT NULL DEFAULT '', -- the topmost directory that the change made
  before     TEXT    NOT NULL, -- what was at the path: sha256:…, or a word
  after      TEXT    NOT NULL,
  mode       INTEGER NOT NULL DEFAULT 0, -- the rights of the file; 0: not known
  lost       INTEGER NOT NULL DEFAULT 0, -- 1: the content was too large to be kept
  undone_by  INTEGER NOT NULL DEFAULT 0, -- the life of the /undo that undoes it, or has done so
  changed_at INTEGER NOT NULL,
  bytes      INTEGER NOT NULL,
  data       BLOB -- the content before
, authored INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX file_versions_chat ON file_versions (chat, channel, account, agent, thread, undone_by, message_id);
CREATE INDEX file_versions_bytes ON file_versions (id, bytes);
CREATE INDEX task_runs_open ON task_runs (life_id) WHERE ended_at = 0 AND life_id > 0;
CREATE UNIQUE INDEX tasks_origin ON tasks (origin) WHERE origin <> '';
CREATE TABLE waits (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  life_id    INTEGER NOT NULL REFERENCES message_life (id), -- of the message whose turn waits
  run        INTEGER NOT NULL,
  position   INTEGER NOT NULL, -- of the step; of a word that was opened before, the step that waits for it
  kind       TEXT    NOT NULL,
  purpose    TEXT    NOT NULL, -- what it is good for, in the model's words
  state      TEXT    NOT NULL CHECK (state IN ('open', 'waiting', 'over', 'expired', 'ended')),
  rule       TEXT    NOT NULL DEFAULT '', -- by which the call was allowed, as the audit names it
  sender     TEXT    NOT NULL, -- the principal whose limit it counts for
  chat       TEXT    NOT NULL, -- the key of the conversation of the turn's results
  secret     BLOB    NOT NULL DEFAULT x'', -- SHA-256 of the key that lets a program give the word
  word       TEXT    NOT NULL DEFAULT '', -- what came
  outside    INTEGER NOT NULL DEFAULT 0, -- others than the operator and the principal can have written it
  reason     TEXT    NOT NULL DEFAULT '', -- why it was given up
  ended_by   TEXT    NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  due_at     INTEGER NOT NULL, -- when it is over, or expires
  ended_at   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX waits_step ON waits (life_id, run, position);
CREATE INDEX waits_open ON waits (life_id) WHERE state IN ('open', 'waiting');
CREATE INDEX waits_sender ON waits (sender) WHERE state IN ('open', 'waiting');
CREATE INDEX waits_chat ON waits (chat) WHERE state IN ('open', 'waiting');
CREATE TABLE jobs (
  id          INTEGER PRIMARY KEY, -- of the wait
  kind        TEXT    NOT NULL CHECK (kind IN ('run', 'ask')),
  background  INTEGER NOT NULL, -- no call waits
  state       TEXT    NOT NULL CHECK (state IN ('open', 'done', 'failed', 'stopped')),
  parent_id   INTEGER NOT NULL, -- the life of the message whose turn began it; retention can have deleted that life
  life_id     INTEGER NOT NULL REFERENCES message_life (id), -- of its own message
  results     TEXT    NOT NULL, -- the key of the conversation with whoever began
  sender      TEXT    NOT NULL, -- the principal whose limit it counts for
  prompt      TEXT    NOT NULL, -- the beginning of it
  depth       INTEGER NOT NULL, -- child turns inside one another
  tokens      INTEGER NOT NULL, -- that it may use
  calls       INTEGER NOT NULL, -- of the model, likewise
  used_tokens INTEGER NOT NULL DEFAULT 0, -- once it has ended, with its own child turns
  used_calls  INTEGER NOT NULL DEFAULT 0,
  reason      TEXT    NOT NULL DEFAULT '', -- why it has no result
  notes       INTEGER NOT NULL DEFAULT 0, -- progress notes so far
  noted_at    INTEGER NOT NULL, -- the time of the last one, or of its begin
  created_at  INTEGER NOT NULL,
  ended_at    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX jobs_life ON jobs (life_id);
CREATE INDEX jobs_parent ON jobs (parent_id);
CREATE INDEX jobs_results ON jobs (results, id);
CREATE INDEX jobs_sender ON jobs (sender) WHERE state = 'open';
CREATE INDEX jobs_open ON jobs (id) WHERE state = 'open';
CREATE INDEX tasks_creator ON tasks (creator, state) WHERE state <> 'done';
CREATE INDEX tasks_chat_open ON tasks (chat, channel, account, agent, thread, state) WHERE state <> 'done';
CREATE INDEX jobs_noted ON jobs (results, noted_at) WHERE notes > 0;
CREATE TABLE replays (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  filter   TEXT    NOT NULL, -- JSON
  fresh    INTEGER NOT NULL, -- the letters start over, and do not resume their journals
  every    INTEGER NOT NULL, -- microseconds from one letter to the next; 0: at once
  passed   INTEGER NOT NULL DEFAULT 0, -- the letters up to this id are behind it
  next_at  INTEGER NOT NULL DEFAULT 0, -- the next letters are not due before
  done     INTEGER NOT NULL DEFAULT 0, -- letters that it has replayed
  left     INTEGER NOT NULL DEFAULT 0, -- letters that stay, because the queue had no room
  why      TEXT    NOT NULL DEFAULT '', -- why the last of them stays
  began_at INTEGER NOT NULL, -- letters that died later are not meant
  ended_at INTEGER NOT NULL DEFAULT 0,
  stopped  INTEGER NOT NULL DEFAULT 0 -- an operator has ended it
) STRICT;
CREATE UNIQUE INDEX replays_open ON replays (ended_at) WHERE ended_at = 0;
CREATE INDEX message_life_dead_by_id ON message_life (id) WHERE "end" = 'dead';
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
CREATE TABLE objective_minutes (
  objective TEXT    NOT NULL,
  minute    INTEGER NOT NULL, -- of unix time
  good      INTEGER NOT NULL,
  bad       INTEGER NOT NULL,
  PRIMARY KEY (objective, minute)
) STRICT, WITHOUT ROWID;
CREATE TABLE objective_cursors (
  objective TEXT    NOT NULL PRIMARY KEY,
  life_id   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE objective_alarms (
  objective TEXT    NOT NULL,
  severity  TEXT    NOT NULL,
  since     INTEGER NOT NULL, -- 0: it does not sound
  told_at   INTEGER NOT NULL, -- when readers were last told that it began
  told      INTEGER NOT NULL, -- 1: they know that it sounds now
  post      TEXT    NOT NULL, -- what is still to be posted; empty: nothing
  PRIMARY KEY (objective, severity)
) STRICT, WITHOUT ROWID;
CREATE TABLE tokens (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  name       TEXT    NOT NULL, -- the operator chose it
  digest     BLOB    NOT NULL UNIQUE, -- SHA-256 of the secret, which is stored nowhere
  scopes     TEXT    NOT NULL, -- words with a comma between two
  created_at INTEGER NOT NULL,
  created_by TEXT    NOT NULL,
  expires_at INTEGER NOT NULL, -- 0: never
  used_at    INTEGER NOT NULL DEFAULT 0, -- to the minute; 0: never
  revoked_at INTEGER NOT NULL DEFAULT 0 -- 0: it is in force
, sender TEXT NOT NULL DEFAULT '', chats TEXT NOT NULL DEFAULT '[]') STRICT;
CREATE UNIQUE INDEX tokens_in_force ON tokens (name) WHERE revoked_at = 0;
CREATE INDEX approvals_asked ON approvals (asked_life, asked_run, asked_position) WHERE asked_life <> 0;
CREATE TABLE attached_files (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  agent      TEXT    NOT NULL,
  channel    TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  chat       TEXT    NOT NULL,
  thread     TEXT    NOT NULL,
  message_id TEXT    NOT NULL,
  hash       TEXT    NOT NULL, -- SHA-256 of the bytes, in hex
  name       TEXT    NOT NULL, -- display only: the sender chose it
  media_type TEXT    NOT NULL, -- of the bytes, not as the sender says
  size       INTEGER NOT NULL,
  fault      TEXT    NOT NULL DEFAULT '', -- why the bytes are not kept; empty: they are
  at         INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX attached_files_chat ON attached_files (chat, channel, account, agent, thread, hash, message_id, name);
CREATE INDEX attached_files_hash ON attached_files (hash, fault, size);
CREATE TABLE console_links (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  digest     BLOB    NOT NULL UNIQUE, -- SHA-256 of the code, which is stored nowhere
  expires_at INTEGER NOT NULL
) STRICT;
CREATE TABLE console_sessions (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  digest     BLOB    NOT NULL UNIQUE, -- SHA-256 of the cookie's secret, which is stored nowhere
  browser    TEXT    NOT NULL, -- what it says of itself
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  used_at    INTEGER NOT NULL, -- to the minute
  revoked_at INTEGER NOT NULL DEFAULT 0 -- 0: it is in force
) STRICT;
CREATE TABLE samples (
  at       INTEGER PRIMARY KEY,
  waiting  INTEGER NOT NULL, -- inbound messages that wait or run
  unsent   INTEGER NOT NULL, -- outbound messages that wait or are sent
  answered INTEGER NOT NULL, -- turns that were answered, counted since the home was made; so are the next four
  failed   INTEGER NOT NULL, -- claims that ended in a retry or a dead letter
  calls    INTEGER NOT NULL, -- tool calls
  tokens   INTEGER NOT NULL,
  cost     INTEGER NOT NULL, -- in millionths of the currency
  memory   INTEGER NOT NULL  -- bytes of the process
) STRICT;
CREATE TABLE page_sources (
  agent   TEXT    NOT NULL,
  channel TEXT    NOT NULL, -- empty: the page of the agent
  account TEXT    NOT NULL,
  notes   TEXT    NOT NULL,
  at      INTEGER NOT NULL,
  PRIMARY KEY (agent, channel, account)
) STRICT;
CREATE TABLE "summaries" (
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
CREATE TABLE fact_owners (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  agent   TEXT NOT NULL,
  channel TEXT NOT NULL,
  account TEXT NOT NULL,
  chat    TEXT NOT NULL,
  thread  TEXT NOT NULL,
  UNIQUE (agent, channel, account, chat, thread)
) STRICT;
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
CREATE TABLE fact_words (
  owner_id INTEGER NOT NULL,
  word     TEXT    NOT NULL,
  fact_id  INTEGER NOT NULL,
  PRIMARY KEY (owner_id, word, fact_id DESC)
) STRICT, WITHOUT ROWID;
CREATE INDEX fact_words_of ON fact_words (fact_id);
CREATE TRIGGER fact_forgotten AFTER DELETE ON facts BEGIN
  DELETE FROM fact_words WHERE fact_id = old.id;
END;
CREATE TRIGGER fact_superseded AFTER UPDATE OF superseded_by ON facts WHEN new.superseded_by > 0 BEGIN
  DELETE FROM fact_words WHERE fact_id = old.id;
END;
CREATE TABLE api_keys (
  id     INTEGER PRIMARY KEY,
  key    BLOB    NOT NULL UNIQUE,       -- SHA-256 over the token and its key
  call   BLOB    NOT NULL,              -- SHA-256 over the method, the path and the body
  token  INTEGER NOT NULL,
  status INTEGER NOT NULL DEFAULT 0,    -- of the answer; 0: no answer is kept
  answer BLOB    NOT NULL DEFAULT x'',
  at     INTEGER NOT NULL
) STRICT;
CREATE INDEX api_keys_at ON api_keys (at);
CREATE INDEX api_keys_token ON api_keys (token);
CREATE TABLE vector_state (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  model      TEXT    NOT NULL,
  dimensions INTEGER NOT NULL, -- of its vectors; 0: none has come yet
  generation INTEGER NOT NULL, -- counts how often all texts were to be embedded
  since      INTEGER NOT NULL, -- the first generation of the model
  history    INTEGER NOT NULL, -- entries of the history up to this one have been embedded
  facts      INTEGER NOT NULL  -- facts up to this one have been embedded
) STRICT;
CREATE TABLE vectors (
  id         INTEGER PRIMARY KEY,
  generation INTEGER NOT NULL,
  vector     BLOB    NOT NULL -- one byte a dimension behind their length; empty: the endpoint refuses the text
) STRICT;
CREATE TRIGGER history_unlike AFTER DELETE ON history BEGIN
  DELETE FROM vectors WHERE id = (1 << 61) | (old.chat_id << 38) | old.id;
  UPDATE vector_state SET history = (SELECT COALESCE(MAX(id), 0) FROM history)
    WHERE history > (SELECT COALESCE(MAX(id), 0) FROM history);
END;
CREATE TRIGGER fact_unlike AFTER DELETE ON facts BEGIN
  DELETE FROM vectors WHERE id = (2 << 61) | (old.owner_id << 38) | old.id;
END;
CREATE TRIGGER fact_unlike_superseded AFTER UPDATE OF superseded_by ON facts WHEN new.superseded_by > 0 BEGIN
  DELETE FROM vectors WHERE id = (2 << 61) | (old.owner_id << 38) | old.id;
END;
CREATE TRIGGER summary_unlike AFTER DELETE ON summaries BEGIN
  DELETE FROM vectors WHERE id = (3 << 61) | (old.chat_id << 38) | old.session;
END;
CREATE TRIGGER summary_unlike_changed AFTER UPDATE OF text ON summaries BEGIN
  DELETE FROM vectors WHERE id = (3 << 61) | (old.chat_id << 38) | old.session;
END;
CREATE TABLE forks (
  chat_id INTEGER PRIMARY KEY REFERENCES chats (id),
  origin  TEXT    NOT NULL, -- the key of the chat with which the forks began; empty: it was deleted
  life    INTEGER NOT NULL, -- of the /fork; 0: the operator forked
  entries INTEGER NOT NULL, -- copied
  older   INTEGER NOT NULL  -- entries that were too many to be copied
) STRICT;
CREATE INDEX forks_origin ON forks (origin);
CREATE TRIGGER fork_forgotten BEFORE DELETE ON chats BEGIN
  DELETE FROM forks WHERE chat_id = old.id;
END;
CREATE TABLE links (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  from_chat  INTEGER NOT NULL REFERENCES chats (id),
  giver      TEXT    NOT NULL, -- the principal who offered the conversation
  code       TEXT    NOT NULL DEFAULT '', -- empty: it was used, or the operator linked
  state      TEXT    NOT NULL, -- offered, asked or linked
  to_chat    INTEGER NOT NULL DEFAULT 0,
  taker      TEXT    NOT NULL DEFAULT '', -- the principal who entered the code
  entries    INTEGER NOT NULL DEFAULT 0,
  expires_at INTEGER NOT NULL, -- 0: never
  at         INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX links_code ON links (code) WHERE code <> '';
CREATE INDEX links_from ON links (from_chat);
CREATE INDEX links_to ON links (to_chat);
CREATE TABLE link_failures (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  failures INTEGER NOT NULL,
  since    INTEGER NOT NULL
) STRICT;
CREATE INDEX history_linked ON history (linked) WHERE linked <> 0;
CREATE TRIGGER link_forgotten BEFORE DELETE ON chats BEGIN
  DELETE FROM links WHERE from_chat = old.id OR to_chat = old.id AND state <> 'linked';
  UPDATE links SET to_chat = 0 WHERE to_chat = old.id;
END;
CREATE INDEX mailbox_answers ON mailbox (in_reply_to, chat_id);
CREATE TABLE link_tries (
  who      TEXT    PRIMARY KEY, -- a hash: a deleted chat leaves no name here
  failures INTEGER NOT NULL,
  since    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE drafts (
  agent   TEXT NOT NULL,
  channel TEXT NOT NULL,
  account TEXT NOT NULL,
  chat    TEXT NOT NULL,
  thread  TEXT NOT NULL,
  answers TEXT NOT NULL, -- the id of the message that is being answered
  shown   TEXT NOT NULL, -- the platform's id of the message that shows the draft
  reply   TEXT NOT NULL, began INTEGER NOT NULL DEFAULT 0, -- the id of the reply that takes its place; empty: none does yet
  PRIMARY KEY (agent, channel, account, chat, thread)
) STRICT, WITHOUT ROWID;
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
CREATE TRIGGER page_unlike AFTER DELETE ON memory_pages BEGIN
  DELETE FROM vectors WHERE id BETWEEN (4 << 61) | (old.id << 38) AND (4 << 61) | (old.id << 38) | ((1 << 38) - 1);
END;
CREATE TABLE "usage_days" (
  day         TEXT    NOT NULL,
  agent       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  channel     TEXT    NOT NULL,
  account     TEXT    NOT NULL,
  sender      TEXT    NOT NULL,
  model       TEXT    NOT NULL,
  turns       INTEGER NOT NULL,
  input       INTEGER NOT NULL,
  output      INTEGER NOT NULL,
  cache_read  INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cost        INTEGER NOT NULL, -- millionths of the currency
  unpriced    INTEGER NOT NULL, -- tokens whose price was not known
  estimated   INTEGER NOT NULL, -- tokens that no provider counted
  PRIMARY KEY (day, key, channel, account, sender, model)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_days_principal ON usage_days (day, channel, account, sender);
CREATE TABLE forgotten (
  chat_id    INTEGER NOT NULL REFERENCES chats (id), -- where it was said
  sender     TEXT    NOT NULL, -- who said it
  says       BLOB    NOT NULL, -- HMAC-SHA256 of its scope, its sender and its folded words, by store.forget_key
  message_id TEXT    NOT NULL, -- in which it was said; empty: none is known
  at         INTEGER NOT NULL, -- when it was forgotten
  linked     INTEGER NOT NULL DEFAULT 0, -- the link that brought the record here; 0: none
  PRIMARY KEY (chat_id, sender, says, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX forgotten_messages ON forgotten (chat_id, sender, message_id, at);
CREATE INDEX forgotten_linked ON forgotten (linked) WHERE linked <> 0;
CREATE INDEX chats_used ON chats (channel, used_at);
INSERT INTO audit_chain VALUES (1, 0, X'');
INSERT INTO bootstrap VALUES (1, 0, 0, 0);
INSERT INTO goose_db_version VALUES (1, 0, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (2, 1, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (3, 2, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (4, 3, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (5, 4, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (6, 5, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (7, 6, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (8, 7, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (9, 8, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (10, 9, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (11, 10, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (12, 11, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (13, 12, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (14, 13, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (15, 14, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (16, 15, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (17, 16, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (18, 17, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (19, 18, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (20, 19, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (21, 20, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (22, 21, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (23, 22, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (24, 23, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (25, 25, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (26, 28, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (27, 29, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (28, 30, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (29, 31, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (30, 35, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (31, 36, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (32, 38, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (33, 39, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (34, 41, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (35, 42, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (36, 43, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (37, 44, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (38, 45, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (39, 47, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (40, 48, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (41, 49, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (42, 57, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (43, 59, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (44, 60, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (45, 67, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (46, 68, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (47, 69, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (48, 70, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (49, 71, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (50, 73, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (51, 80, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (52, 83, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (53, 87, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (54, 91, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (55, 93, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (56, 94, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (57, 95, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (58, 97, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (59, 98, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (60, 102, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (61, 104, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (62, 106, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (63, 107, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (64, 109, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (65, 110, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (66, 112, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (67, 113, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (68, 114, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (69, 115, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (70, 116, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (71, 117, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (72, 118, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (73, 119, 1, CURRENT_TIMESTAMP);
INSERT INTO goose_db_version VALUES (74, 120, 1, CURRENT_TIMESTAMP);
INSERT INTO history_indexed VALUES (1, 0);
INSERT INTO link_failures VALUES (1, 0, 0);
INSERT INTO pairing_failures VALUES (1, 0, 0);
INSERT INTO store VALUES (1, 0, unixepoch() * 1000, 0, 0, '', 0, '', 0, X'');
INSERT INTO vector_state VALUES (1, '', 0, 0, 0, 0, 0);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES ('goose_db_version', 74);
INSERT INTO sqlite_sequence VALUES ('memory_pages', 0);
