-- +goose Up

-- The fingerprint of an MCP tool that an operator has declared as one that only reads; '' none. The declaration holds
-- for that description alone.
ALTER TABLE mcp_tools ADD COLUMN read_only TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE mcp_tools DROP COLUMN read_only;
