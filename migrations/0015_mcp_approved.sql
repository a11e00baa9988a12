-- +goose Up

-- A tool that was only seen is not approved: what an operator has approved is kept apart from what a tool is pinned to. Of older rows nobody knows which.
ALTER TABLE mcp_tools RENAME COLUMN approved TO pinned; -- by being seen for the first time, or by an operator
ALTER TABLE mcp_tools ADD COLUMN approved TEXT NOT NULL DEFAULT ''; -- by an operator; '' never

-- +goose Down
ALTER TABLE mcp_tools DROP COLUMN approved;
ALTER TABLE mcp_tools RENAME COLUMN pinned TO approved;
