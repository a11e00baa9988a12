-- +goose Up

-- The MCP servers that have listed their tools. A tool that such a server lists for the first time came later.
CREATE TABLE mcp_servers (
  name      TEXT    NOT NULL PRIMARY KEY,
  listed_at INTEGER NOT NULL -- for the first time
) STRICT, WITHOUT ROWID;
INSERT INTO mcp_servers (name, listed_at) SELECT server, MIN(changed_at) FROM mcp_tools GROUP BY server;

-- +goose Down
DROP TABLE mcp_servers;
