-- +goose Up

-- Agents may have MCP servers of one name that are not the same.
CREATE TABLE mcp_tools_of (
  agent      TEXT    NOT NULL,
  server     TEXT    NOT NULL,
  tool       TEXT    NOT NULL, -- as the server calls it
  pinned     TEXT    NOT NULL, -- SHA-256 of all that the server says of it, at the first listing or at an approval; '' never
  approved   TEXT    NOT NULL, -- the same, by an operator; '' never
  seen       TEXT    NOT NULL, -- the same, of what was seen last
  changed_at INTEGER NOT NULL, -- when seen became what it is
  PRIMARY KEY (agent, server, tool)
) STRICT, WITHOUT ROWID;
INSERT INTO mcp_tools_of (agent, server, tool, pinned, approved, seen, changed_at)
  SELECT 'main', server, tool, pinned, approved, seen, changed_at FROM mcp_tools;
DROP TABLE mcp_tools;
ALTER TABLE mcp_tools_of RENAME TO mcp_tools;

CREATE TABLE mcp_servers_of (
  agent     TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  listed_at INTEGER NOT NULL, -- for the first time
  PRIMARY KEY (agent, name)
) STRICT, WITHOUT ROWID;
INSERT INTO mcp_servers_of (agent, name, listed_at) SELECT 'main', name, listed_at FROM mcp_servers;
DROP TABLE mcp_servers;
ALTER TABLE mcp_servers_of RENAME TO mcp_servers;

-- +goose Down
CREATE TABLE mcp_servers_of (
  name      TEXT    NOT NULL PRIMARY KEY,
  listed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO mcp_servers_of (name, listed_at) SELECT name, listed_at FROM mcp_servers WHERE agent = 'main';
DROP TABLE mcp_servers;
ALTER TABLE mcp_servers_of RENAME TO mcp_servers;

CREATE TABLE mcp_tools_of (
  server     TEXT    NOT NULL,
  tool       TEXT    NOT NULL,
  pinned     TEXT    NOT NULL,
  seen       TEXT    NOT NULL,
  changed_at INTEGER NOT NULL,
  approved   TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (server, tool)
) STRICT, WITHOUT ROWID;
INSERT INTO mcp_tools_of (server, tool, pinned, seen, changed_at, approved)
  SELECT server, tool, pinned, seen, changed_at, approved FROM mcp_tools WHERE agent = 'main';
DROP TABLE mcp_tools;
ALTER TABLE mcp_tools_of RENAME TO mcp_tools;
