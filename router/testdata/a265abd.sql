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
, last_life INTEGER NOT NULL DEFAULT 0) STRICT;
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
, free_at INTEGER NOT NULL DEFAULT 0, swept INTEGER NOT NULL DEFAULT 0, mode TEXT NOT NULL DEFAULT '', quiet_at INTEGER NOT NULL DEFAULT 0, quiet_from INTEGER NOT NULL DEFAULT 0, interrupted INTEGER NOT NULL DEFAULT 0, merge_seq INTEGER NOT NULL DEFAULT 0) STRICT;
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
, queue_mode TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '', model_session INTEGER NOT NULL DEFAULT 0, access TEXT NOT NULL DEFAULT '') STRICT;
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
, hash BLOB NOT NULL DEFAULT x'') STRICT;
CREATE TABLE mailbox (
  cursor      INTEGER PRIMARY KEY AUTOINCREMENT,
  chat_id     INTEGER NOT NULL REFERENCES chats (id),
  message_id  TEXT    NOT NULL,
  in_reply_to TEXT    NOT NULL,
  kind        TEXT    NOT NULL,
  content     TEXT    NOT NULL,
  created_at  INTEGER NOT NULL,
  UNIQUE (chat_id, message_id)
) STRICT;
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
, merged_id INTEGER, cost INTEGER NOT NULL DEFAULT 0, unpriced INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE summaries (
  chat_id INTEGER PRIMARY KEY REFERENCES chats (id),
  session INTEGER NOT NULL,
  through INTEGER NOT NULL, -- the place in the lane of the last turn that it covers
  text    TEXT    NOT NULL,
  model   TEXT    NOT NULL, -- who wrote it; empty: an extract, made without a model
  at      INTEGER NOT NULL
) STRICT;
CREATE TABLE usage_days (
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
  PRIMARY KEY (day, key, sender, model)
) STRICT, WITHOUT ROWID;
CREATE TABLE message_parked (
  life_id   INTEGER PRIMARY KEY REFERENCES message_life (id),
  lane_id   INTEGER NOT NULL,
  reason    TEXT    NOT NULL,
  parked_at INTEGER NOT NULL,
  due_at    INTEGER NOT NULL,
  body      BLOB    NOT NULL
) STRICT;
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
  at         INTEGER NOT NULL, outside INTEGER NOT NULL DEFAULT 0,
  UNIQUE (chat_id, session, seq, ordinal)
) STRICT;
CREATE VIRTUAL TABLE history_terms USING fts5(terms, content='', contentless_delete=1, tokenize='ascii');
CREATE TABLE history_indexed (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  through INTEGER NOT NULL
) STRICT;
CREATE TABLE audit_chain (
  id   INTEGER PRIMARY KEY CHECK (id = 1),
  past INTEGER NOT NULL,
  hash BLOB    NOT NULL
) STRICT;
CREATE TABLE approvals (
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
  resolved_by TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE mcp_tools (
  server     TEXT    NOT NULL,
  tool       TEXT    NOT NULL, -- as the server calls it
  pinned   TEXT    NOT NULL, -- SHA-256 of name, description and schema; '' never
  seen       TEXT    NOT NULL, -- the same, of what was seen last
  changed_at INTEGER NOT NULL, approved TEXT NOT NULL DEFAULT '', -- when seen became what it is
  PRIMARY KEY (server, tool)
) STRICT, WITHOUT ROWID;
CREATE TABLE client_calls (
  id   INTEGER PRIMARY KEY AUTOINCREMENT,
  key  BLOB    NOT NULL UNIQUE, -- SHA-256 over the principal and its key
  call BLOB    NOT NULL,        -- SHA-256 over the tool and its arguments
  at   INTEGER NOT NULL
) STRICT;
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (1, 0, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (2, 1, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (3, 2, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (4, 3, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (5, 4, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (6, 5, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (7, 6, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (8, 7, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (9, 8, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (10, 9, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (11, 10, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (12, 11, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (13, 12, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (14, 13, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (15, 14, 1, '2026-11-22 09:21:14');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (16, 15, 1, '2026-11-22 09:21:14');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence (name, seq) VALUES ('goose_db_version', 16);
INSERT INTO sqlite_sequence (name, seq) VALUES ('audit_events', 6);
INSERT INTO sqlite_sequence (name, seq) VALUES ('lanes', 8);
INSERT INTO sqlite_sequence (name, seq) VALUES ('chats', 1);
INSERT INTO sqlite_sequence (name, seq) VALUES ('approvals', 1);
INSERT INTO store (id, batch, created_at, last_life) VALUES (1, 16, 1795339274000, 9);
INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq, depth, bytes, wake_at, leased, epoch, claimed_at, attempts, lost, lost_at, stop_seq, waiting, free_at, swept, mode, quiet_at, quiet_from, interrupted, merge_seq) VALUES (1, 1, 'main', 'test', '', 'said', '', 'inbound', 2, 0, 0, NULL, 0, 1, 946684800000, 0, 0, 0, 0, '', 0, 0, '', 0, 0, 0, 0);
INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq, depth, bytes, wake_at, leased, epoch, claimed_at, attempts, lost, lost_at, stop_seq, waiting, free_at, swept, mode, quiet_at, quiet_from, interrupted, merge_seq) VALUES (2, 1, 'main', 'test', '', 'dead', '', 'inbound', 2, 0, 0, NULL, 0, 1, 946684800000, 0, 0, 0, 0, '', 0, 0, '', 0, 0, 0, 0);
INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq, depth, bytes, wake_at, leased, epoch, claimed_at, attempts, lost, lost_at, stop_seq, waiting, free_at, swept, mode, quiet_at, quiet_from, interrupted, merge_seq) VALUES (3, 2, 'main', 'test', '', 'said', '', 'outbound:test', 2, 1, 40, 946684800000, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, '', 0, 0, 0, 0);
INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq, depth, bytes, wake_at, leased, epoch, claimed_at, attempts, lost, lost_at, stop_seq, waiting, free_at, swept, mode, quiet_at, quiet_from, interrupted, merge_seq) VALUES (4, 2, 'main', 'test', '', 'dead', '', 'outbound:test', 2, 1, 154, 946684800000, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, '', 0, 0, 0, 0);
INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq, depth, bytes, wake_at, leased, epoch, claimed_at, attempts, lost, lost_at, stop_seq, waiting, free_at, swept, mode, quiet_at, quiet_from, interrupted, merge_seq) VALUES (5, 1, 'main', 'test', '', 'late', '', 'inbound', 2, 1, 45, 946684860000, 0, 1, 946684800000, 1, 0, 0, 0, 'backoff', 0, 0, '', 0, 0, 0, 0);
INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq, depth, bytes, wake_at, leased, epoch, claimed_at, attempts, lost, lost_at, stop_seq, waiting, free_at, swept, mode, quiet_at, quiet_from, interrupted, merge_seq) VALUES (6, 1, 'main', 'test', '', 'paid', '', 'inbound', 2, 1, 41, 946685700000, 0, 1, 946684800000, 0, 0, 0, 0, 'approval', 0, 0, '', 0, 0, 0, 0);
INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq, depth, bytes, wake_at, leased, epoch, claimed_at, attempts, lost, lost_at, stop_seq, waiting, free_at, swept, mode, quiet_at, quiet_from, interrupted, merge_seq) VALUES (7, 2, 'main', 'test', '', 'paid', '', 'outbound:test', 2, 1, 303, 946684800000, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, '', 0, 0, 0, 0);
INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq, depth, bytes, wake_at, leased, epoch, claimed_at, attempts, lost, lost_at, stop_seq, waiting, free_at, swept, mode, quiet_at, quiet_from, interrupted, merge_seq) VALUES (8, 1, 'main', 'test', '', 'a', '', 'inbound', 3, 2, 94, 946684835000, 1, 1, 946684805000, 0, 0, 0, 0, '', 0, 0, '', 0, 0, 0, 0);
INSERT INTO message_queue (life_id, lane_id, seq, body, merge_into) VALUES (3, 3, 1, X'011f057265706c7900000001300104746578740a6f6c6420616e737765720000000005302f312f31', 0);
INSERT INTO message_queue (life_id, lane_id, seq, body, merge_into) VALUES (4, 4, 1, X'018a01066e6f74696365000000013401047465787474536f7272792c204920636f756c64206e6f7420616e737765722074686973206d65737361676520287065726d616e656e74292e204974206973206b657074206173206d65737361676520343a2073656e6420222f726574727920342220746f206861766520697420747269656420616761696e2e000000000b342f312f676176652d7570', 0);
INSERT INTO message_queue (life_id, lane_id, seq, body, merge_into) VALUES (5, 5, 1, X'01230670726f6d707404746573740005616c69636500010474657874056c6174657200000005616c6963650132', 0);
INSERT INTO message_queue (life_id, lane_id, seq, body, merge_into) VALUES (6, 6, 1, X'01200670726f6d707404746573740004726f6f74000104746578740370617900000004726f6f740135', 0);
INSERT INTO message_queue (life_id, lane_id, seq, body, merge_into) VALUES (7, 7, 1, X'019c02066e6f7469636500000001350104746578748502417070726f76616c20313a20616e2061646d696e2068617320746f20617070726f766520746869732063616c6c206265666f72652069742072756e732c206265636175736520746865207475726e20686173207265616420746578742066726f6d206f75747369646520286120726573756c74206f66207765622e736561726368292e0a0a746f6f6c3a206d63702e72656c6f61640a617267756d656e74733a207b2274657874223a226d616c6c6f7279227d0a0a6f6e20626568616c66206f663a20746573743a3a726f6f740a2f617070726f76652031206f72202f64656e7920312c20756e74696c2030303a31353a303020555443206f6e2031204a616e756172792e000000000e352f312f617070726f76616c2d31', 0);
INSERT INTO message_queue (life_id, lane_id, seq, body, merge_into) VALUES (8, 8, 1, X'01230670726f6d707404746573740005616c6963650001047465787405646f20697400000005616c6963650131', 0);
INSERT INTO message_queue (life_id, lane_id, seq, body, merge_into) VALUES (9, 8, 2, X'01270670726f6d707404746573740005616c6963650001047465787409616e64207468656e3f00000005616c6963650133', 0);
INSERT INTO execution_steps (life_id, run, position, kind, state, request, result, started_at, ended_at) VALUES (6, 1, 0, 'model', 'done', '', '{"calls":[{"id":"p1","tool":"web.search","args":{"text":"page"}}],"model":"old-model","usage":{"inputTokens":100,"outputTokens":10}}', 946684800000, 946684800000);
INSERT INTO execution_steps (life_id, run, position, kind, state, request, result, started_at, ended_at) VALUES (6, 1, 1, 'tool', 'done', '{"id":"p1","tool":"web.search","args":{"text":"page"}}', '{"outcome":"success","content":"\u003cdata kind=\"from outside\"\u003e\nfound page\n\u003c/data\u003e","outside":true}', 946684800000, 946684800000);
INSERT INTO execution_steps (life_id, run, position, kind, state, request, result, started_at, ended_at) VALUES (6, 1, 2, 'model', 'done', '', '{"calls":[{"id":"p2","tool":"mcp.reload","args":{"text":"mallory"}}],"model":"old-model","usage":{"inputTokens":100,"outputTokens":10},"taint":"a result of web.search"}', 946684800000, 946684800000);
INSERT INTO execution_steps (life_id, run, position, kind, state, request, result, started_at, ended_at) VALUES (6, 1, 3, 'tool', 'awaiting', '{"id":"p2","tool":"mcp.reload","args":{"text":"mallory"}}', '', 946684800000, 0);
INSERT INTO execution_steps (life_id, run, position, kind, state, request, result, started_at, ended_at) VALUES (8, 1, 0, 'model', 'done', '', '{"text":"I shall.","calls":[{"id":"c1","tool":"web.fetch","args":{"text":"first"}},{"id":"c2","tool":"web.fetch","args":{"text":"second"}},{"id":"c3","tool":"web.search","args":{"text":"third"}}],"model":"old-model","usage":{"inputTokens":100,"outputTokens":10}}', 946684805000, 946684805000);
INSERT INTO execution_steps (life_id, run, position, kind, state, request, result, started_at, ended_at) VALUES (8, 1, 1, 'tool', 'done', '{"id":"c1","tool":"web.fetch","args":{"text":"first"}}', '{"outcome":"success","content":"fetched first"}', 946684805000, 946684805000);
INSERT INTO execution_steps (life_id, run, position, kind, state, request, result, started_at, ended_at) VALUES (8, 1, 2, 'tool', 'intended', '{"id":"c2","tool":"web.fetch","args":{"text":"second"}}', '', 946684805000, 0);
INSERT INTO chats (id, agent, channel, account, chat, thread, display_name, registered, session, created_at, queue_mode, model, model_session, access) VALUES (1, 'main', 'test', '', 'said', '', '', 0, 1, 946684800000, '', '', 0, '');
INSERT INTO grants (channel, account, sender, scope, role, granted_by, granted_at) VALUES ('test', '', 'root', '', 'admin', 'operator', 946684800000);
INSERT INTO audit_events (id, at, event, tool, agent, channel, account, chat, thread, sender, role, entry, outcome, rule, args, duration_ms, step_id, hash) VALUES (1, 946684800000, 'role.grant', '', '', 'test', '', '', '', '', '', 'operator', 'success', '', '{"by":"operator","chat":"","principal":"test::root","role":"admin"}', 0, '', X'081b4e540327f14739fa9b3cdfcd5568c4bd3fb72e2f4cb455ba3b45c60ae634');
INSERT INTO audit_events (id, at, event, tool, agent, channel, account, chat, thread, sender, role, entry, outcome, rule, args, duration_ms, step_id, hash) VALUES (2, 946684800000, 'tool.result', 'web.search', 'main', 'test', '', 'paid', '', 'root', 'admin', 'direct', 'success', 'open', '{"text":"page"}', 0, '5/1/1', X'91213a56de234b89dceba5bb639d02cc351fa00da03320170be6ef1ffe872f0d');
INSERT INTO audit_events (id, at, event, tool, agent, channel, account, chat, thread, sender, role, entry, outcome, rule, args, duration_ms, step_id, hash) VALUES (3, 946684800000, 'approval.request', 'mcp.reload', 'main', 'test', '', 'paid', '', 'root', 'admin', 'direct', 'success', 'approval-tainted', '{"text":"mallory"}', 0, '5/1/3', X'6a4efdd7060615d9dbedf044eb56f3461f9413c5b4c1d31a14e5347bf09455bb');
INSERT INTO audit_events (id, at, event, tool, agent, channel, account, chat, thread, sender, role, entry, outcome, rule, args, duration_ms, step_id, hash) VALUES (4, 946684805000, 'tool.decision', 'web.fetch', 'main', 'test', '', 'a', '', 'alice', 'normal', 'direct', '', 'open', '{"text":"first"}', 0, '1/1/1', X'f3ffb0ce93178a5eaffc6ecff9e14106cd52f6488e6a464165e635faa07bf1d7');
INSERT INTO audit_events (id, at, event, tool, agent, channel, account, chat, thread, sender, role, entry, outcome, rule, args, duration_ms, step_id, hash) VALUES (5, 946684805000, 'tool.result', 'web.fetch', 'main', 'test', '', 'a', '', 'alice', 'normal', 'direct', 'success', 'open', '{"text":"first"}', 0, '1/1/1', X'121074fff9be4df014c16fbb98b05bffe515c03db9a56b8a8d66790f85dbacd0');
INSERT INTO audit_events (id, at, event, tool, agent, channel, account, chat, thread, sender, role, entry, outcome, rule, args, duration_ms, step_id, hash) VALUES (6, 946684805000, 'tool.decision', 'web.fetch', 'main', 'test', '', 'a', '', 'alice', 'normal', 'direct', '', 'open', '{"text":"second"}', 0, '1/1/2', X'a138505b2ad67e9c134a249a1f219ac8932a62233578748867f5a306eabb6c0f');
INSERT INTO message_life (id, lane_id, message_id, kind, checksum, sender, cause_id, run, published_at, claimed_at, ended_at, "end", reason, last_error, attempts, attempt_log, input_tokens, output_tokens, body, merged_id, cost, unpriced) VALUES (1, 1, '0', 'prompt', X'54bfa555d22dc51f8d69492f36123635', 'alice', NULL, 1, 946684800000, 946684800000, 946684800000, 'answered', '', '', 1, '', 100, 10, NULL, NULL, 0, 110);
INSERT INTO message_life (id, lane_id, message_id, kind, checksum, sender, cause_id, run, published_at, claimed_at, ended_at, "end", reason, last_error, attempts, attempt_log, input_tokens, output_tokens, body, merged_id, cost, unpriced) VALUES (2, 2, '4', 'prompt', X'd8a52a0a497bb06541a578aae3689662', 'alice', NULL, 1, 946684800000, 946684800000, 946684800000, 'dead', 'permanent', 'no credit', 1, '', 0, 0, X'01220670726f6d707404746573740005616c69636500010474657874046661696c00000005616c6963650134', NULL, 0, 0);
INSERT INTO message_life (id, lane_id, message_id, kind, checksum, sender, cause_id, run, published_at, claimed_at, ended_at, "end", reason, last_error, attempts, attempt_log, input_tokens, output_tokens, body, merged_id, cost, unpriced) VALUES (3, 3, '0/1/1', 'reply', X'c3cb12c42c1c0b5248fc314d28e1b60d', '', 1, 1, 946684800000, 0, 0, '', '', '', 0, '', 0, 0, NULL, NULL, 0, 0);
INSERT INTO message_life (id, lane_id, message_id, kind, checksum, sender, cause_id, run, published_at, claimed_at, ended_at, "end", reason, last_error, attempts, attempt_log, input_tokens, output_tokens, body, merged_id, cost, unpriced) VALUES (4, 4, '4/1/gave-up', 'notice', X'ec350b6ed136be0c25e5d4ab82950f65', '', 2, 1, 946684800000, 0, 0, '', '', '', 0, '', 0, 0, NULL, NULL, 0, 0);
INSERT INTO message_life (id, lane_id, message_id, kind, checksum, sender, cause_id, run, published_at, claimed_at, ended_at, "end", reason, last_error, attempts, attempt_log, input_tokens, output_tokens, body, merged_id, cost, unpriced) VALUES (5, 5, '2', 'prompt', X'12c7af9426e02108d8bfde5598e39158', 'alice', NULL, 1, 946684800000, 946684800000, 0, '', '', 'slow down', 1, '[{"run":1,"at":"2000-01-01T00:00:00Z","what":"retry","error":"slow down"}]', 0, 0, NULL, NULL, 0, 0);
INSERT INTO message_life (id, lane_id, message_id, kind, checksum, sender, cause_id, run, published_at, claimed_at, ended_at, "end", reason, last_error, attempts, attempt_log, input_tokens, output_tokens, body, merged_id, cost, unpriced) VALUES (6, 6, '5', 'prompt', X'a8687073823cf6d574982e55d0d07c28', 'root', NULL, 1, 946684800000, 0, 0, '', '', '', 0, '', 200, 20, NULL, NULL, 0, 220);
INSERT INTO message_life (id, lane_id, message_id, kind, checksum, sender, cause_id, run, published_at, claimed_at, ended_at, "end", reason, last_error, attempts, attempt_log, input_tokens, output_tokens, body, merged_id, cost, unpriced) VALUES (7, 7, '5/1/approval-1', 'notice', X'3696fd104c1a2fdfce9b31e9209a0160', '', 6, 1, 946684800000, 0, 0, '', '', '', 0, '', 0, 0, NULL, NULL, 0, 0);
INSERT INTO message_life (id, lane_id, message_id, kind, checksum, sender, cause_id, run, published_at, claimed_at, ended_at, "end", reason, last_error, attempts, attempt_log, input_tokens, output_tokens, body, merged_id, cost, unpriced) VALUES (8, 8, '1', 'prompt', X'ed692984384acb56483da3851c994f5e', 'alice', NULL, 1, 946684805000, 0, 0, '', '', '', 0, '', 100, 10, NULL, NULL, 0, 110);
INSERT INTO message_life (id, lane_id, message_id, kind, checksum, sender, cause_id, run, published_at, claimed_at, ended_at, "end", reason, last_error, attempts, attempt_log, input_tokens, output_tokens, body, merged_id, cost, unpriced) VALUES (9, 8, '3', 'prompt', X'7d432fc30c7019952419a0cadca3bd0c', 'alice', NULL, 1, 946684805000, 0, 0, '', '', '', 0, '', 0, 0, NULL, NULL, 0, 0);
INSERT INTO usage_days (day, agent, key, channel, account, sender, model, turns, input, output, cache_read, cache_write, cost, unpriced, estimated) VALUES ('2000-01-01', 'main', 'main:test::a', 'test', '', 'alice', 'old-model', 0, 100, 10, 0, 0, 0, 110, 0);
INSERT INTO usage_days (day, agent, key, channel, account, sender, model, turns, input, output, cache_read, cache_write, cost, unpriced, estimated) VALUES ('2000-01-01', 'main', 'main:test::paid', 'test', '', 'root', 'old-model', 0, 200, 20, 0, 0, 0, 220, 0);
INSERT INTO usage_days (day, agent, key, channel, account, sender, model, turns, input, output, cache_read, cache_write, cost, unpriced, estimated) VALUES ('2000-01-01', 'main', 'main:test::said', 'test', '', 'alice', 'old-model', 1, 100, 10, 0, 0, 0, 110, 0);
INSERT INTO bootstrap (id, failures, locked_at, used) VALUES (1, 0, 0, 0);
INSERT INTO history (id, chat_id, session, seq, ordinal, speaker, sender, name, text, calls, call_id, message_id, at, outside) VALUES (1, 1, 1, 1, 0, 'user', 'alice', 'alice', 'hello', '', '', '0', 946684800000, 0);
INSERT INTO history (id, chat_id, session, seq, ordinal, speaker, sender, name, text, calls, call_id, message_id, at, outside) VALUES (2, 1, 1, 1, 1, 'assistant', '', '', 'old answer', '', '', '0', 946684800000, 0);
INSERT INTO history_indexed (id, through) VALUES (1, 0);
INSERT INTO audit_chain (id, past, hash) VALUES (1, 0, X'');
INSERT INTO approvals (id, life_id, run, position, tool, args, dir, files, digest, rule, taint, step_id, state, created_at, expires_at, resolved_at, resolved_by) VALUES (1, 6, 1, 3, 'mcp.reload', '{"text":"mallory"}', '', '', X'22e513245cf33edbad3196ecf9da59e3b6ce820988cb026559108ca2c86dffd2', 'approval-tainted', 'a result of web.search', '5/1/3', 'awaiting', 946684800000, 946685700000, 0, '');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence (name, seq) VALUES ('goose_db_version', 16);
INSERT INTO sqlite_sequence (name, seq) VALUES ('audit_events', 6);
INSERT INTO sqlite_sequence (name, seq) VALUES ('lanes', 8);
INSERT INTO sqlite_sequence (name, seq) VALUES ('chats', 1);
INSERT INTO sqlite_sequence (name, seq) VALUES ('approvals', 1);
CREATE UNIQUE INDEX lanes_key ON lanes (direction, agent, channel, account, chat, thread);
CREATE INDEX lanes_wake ON lanes (pool, wake_at) WHERE wake_at IS NOT NULL;
CREATE UNIQUE INDEX chats_key ON chats (agent, channel, account, chat, thread);
CREATE INDEX mailbox_chat ON mailbox (chat_id, cursor);
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
CREATE INDEX usage_days_principal ON usage_days (day, channel, account, sender);
CREATE INDEX message_parked_due ON message_parked (due_at, life_id);
CREATE INDEX message_parked_lane ON message_parked (lane_id);
CREATE TRIGGER history_forgotten AFTER DELETE ON history BEGIN
  DELETE FROM history_terms WHERE rowid = old.id;
  UPDATE history_indexed SET through = (SELECT COALESCE(MAX(id), 0) FROM history)
    WHERE through > (SELECT COALESCE(MAX(id), 0) FROM history);
END;
CREATE UNIQUE INDEX approvals_step ON approvals (life_id, run, position);
CREATE INDEX approvals_awaiting ON approvals (life_id) WHERE state = 'awaiting';
CREATE INDEX message_life_dead_of_lane ON message_life (lane_id, ended_at) WHERE "end" = 'dead';
