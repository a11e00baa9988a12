-- +goose Up

-- The MCP servers that have listed their tools. A tool that such a server lists for the first time came later.
CREATE TABLE mcp_servers (
  name      TEXT    NOT NULL PRIMARY KEY,
  listed_at INTEGER NOT NULL -- for the first time
) STRICT, WITHOUT ROWID;
INSERT INTO mcp_servers (name, listed_at) SELECT server, MIN(changed_at) FROM mcp_tools GROUP BY server;

-- All calls of one answer that need an approval are one request. Of older calls nobody knows how far they reach.
ALTER TABLE approvals ADD COLUMN request INTEGER NOT NULL DEFAULT 0; -- the id of its first call
ALTER TABLE approvals ADD COLUMN answer INTEGER NOT NULL DEFAULT 0; -- the position of the answer's first call
ALTER TABLE approvals ADD COLUMN beyond INTEGER NOT NULL DEFAULT 0; -- only an admin everywhere may approve it
UPDATE approvals SET request = id, answer = position, beyond = 1;
CREATE INDEX approvals_request ON approvals (request);

-- A position that a call did not take, because it was not run, is that of a later answer's call.
DROP INDEX approvals_step;
CREATE UNIQUE INDEX approvals_step ON approvals (life_id, run, position, answer);

-- +goose Down
DELETE FROM approvals WHERE id NOT IN (SELECT MAX(id) FROM approvals GROUP BY life_id, run, position);
DROP INDEX approvals_step;
CREATE UNIQUE INDEX approvals_step ON approvals (life_id, run, position);
DROP INDEX approvals_request;
ALTER TABLE approvals DROP COLUMN beyond;
ALTER TABLE approvals DROP COLUMN answer;
ALTER TABLE approvals DROP COLUMN request;
DROP TABLE mcp_servers;
