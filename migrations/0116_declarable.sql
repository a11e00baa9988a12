-- +goose Up

-- 1: the request tells that the operator can declare that the tool of an MCP server only reads.
ALTER TABLE approvals ADD COLUMN declarable INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE approvals DROP COLUMN declarable;
