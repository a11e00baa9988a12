-- +goose Up

-- How the tools of MCP servers looked: when they were approved, by being seen for the first time or by an operator, and when they were seen last.
CREATE TABLE mcp_tools (
  server     TEXT    NOT NULL,
  tool       TEXT    NOT NULL, -- as the server calls it
  approved   TEXT    NOT NULL, -- SHA-256 of name, description and schema; '' never
  seen       TEXT    NOT NULL, -- the same, of what was seen last
  changed_at INTEGER NOT NULL, -- when seen became what it is
  PRIMARY KEY (server, tool)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE mcp_tools;
