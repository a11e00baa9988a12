package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// MCPTools keeps how the tools of MCP servers looked when they were pinned and when they were approved, and how they look now.
type MCPTools struct{ db *DB }

// NewMCPTools are the tools that a database knows of.
func NewMCPTools(db *DB) *MCPTools { return &MCPTools{db} }

// maxMCPTools is how many tools of one server are remembered. A server that renames its tools without end loses the ones that were seen first.
const maxMCPTools = 2_000

var (
	selectMCPTools = &query{`SELECT server, tool, pinned, approved, seen, changed_at FROM mcp_tools WHERE ? IN ('', server) ORDER BY server, tool`}
	seeMCPTool     = &query{`INSERT INTO mcp_tools (server, tool, pinned, approved, seen, changed_at) VALUES (?, ?, ?, '', ?, ?)
		ON CONFLICT (server, tool) DO UPDATE SET seen = excluded.seen, changed_at = excluded.changed_at`}
	approveMCPTools = &query{`UPDATE mcp_tools SET pinned = seen, approved = seen WHERE ? IN ('', server) AND ? IN ('', tool) AND approved <> seen`}
	countMCPTools   = &query{`SELECT COUNT(*) FROM mcp_tools WHERE ? IN ('', server) AND ? IN ('', tool)`}
	trimMCPTools    = &query{`DELETE FROM mcp_tools WHERE server = ?1 AND tool IN
		(SELECT tool FROM mcp_tools WHERE server = ?1 ORDER BY changed_at DESC, tool LIMIT -1 OFFSET ?2)`}
)

// Sight notes how the tools of a server look now, by their names, and gives what is known of each. A tool that was not known is pinned as it is,
// unless trustNew is false and others of the server were known: a tool that was renamed is a new one. Nothing is approved by being seen.
func (m *MCPTools) Sight(ctx context.Context, server string, fingerprints map[string]string, trustNew bool) (map[string]corebot.ToolPin, error) {
	var known map[string]corebot.ToolPin
	err := m.db.write(ctx, "mcp.sight", func(t *tx) (err error) {
		if known, err = knownTools(t.each, server); err != nil {
			return err
		}
		before := len(known)
		for _, p := range sighted(known, server, fingerprints, trustNew, t.now) {
			if _, err := t.exec(seeMCPTool, p.Server, p.Tool, p.Pinned, p.Seen, p.ChangedAt); err != nil {
				return err
			}
		}
		if len(known) == before || len(known) <= maxMCPTools {
			return nil
		}
		_, err = t.exec(trimMCPTools, server, maxMCPTools)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("note the tools of the MCP server %s: %w", server, err)
	}
	return known, nil
}

// Peek gives what Sight would give, and notes nothing.
func (m *MCPTools) Peek(ctx context.Context, server string, fingerprints map[string]string, trustNew bool) (map[string]corebot.ToolPin, error) {
	known, err := knownTools(func(q *query, scan func(scanner) error, args ...any) error {
		return m.db.reader.each(ctx, q, scan, args...)
	}, server)
	if err != nil {
		return nil, fmt.Errorf("look up the tools of the MCP server %s: %w", server, err)
	}
	sighted(known, server, fingerprints, trustNew, time.Now())
	return known, nil
}

// knownTools reads what is known of a server's tools, by their names.
func knownTools(each func(q *query, scan func(scanner) error, args ...any) error, server string) (map[string]corebot.ToolPin, error) {
	known := map[string]corebot.ToolPin{}
	return known, each(selectMCPTools, func(s scanner) error {
		p, err := scanPin(s)
		known[p.Tool] = p
		return err
	}, server)
}

// sighted brings known in line with what is seen, and gives what has changed in it.
func sighted(known map[string]corebot.ToolPin, server string, fingerprints map[string]string, trustNew bool, now time.Time) (changed []corebot.ToolPin) {
	trust := trustNew || len(known) == 0
	for tool, print := range fingerprints {
		p, ok := known[tool]
		if ok && p.Seen == print {
			continue
		}
		if !ok && trust {
			p.Pinned = print
		}
		p.Server, p.Tool, p.Seen, p.ChangedAt = server, tool, print, now
		known[tool] = p
		changed = append(changed, p)
	}
	return changed
}

// Approve takes a tool of a server, all its tools if tool is empty, or those of all servers if both names are, as they were seen last, for what an
// operator approves, and says how many were not approved so. What was never seen is [corebot.ErrNotFound], a tool without its server [corebot.ErrInvalid].
func (m *MCPTools) Approve(ctx context.Context, server, tool string) (changed int, err error) {
	if server == "" && tool != "" {
		return 0, fmt.Errorf("%w: approve the tool %q: of which MCP server is not said", corebot.ErrInvalid, tool)
	}
	err = m.db.write(ctx, "mcp.approve", func(t *tx) error {
		var known int64
		if _, err := t.one(countMCPTools, []any{&known}, server, tool); err != nil {
			return err
		}
		if known == 0 {
			return fmt.Errorf("tools of the MCP server %q called %q: %w", server, tool, corebot.ErrNotFound)
		}
		n, err := t.exec(approveMCPTools, server, tool)
		if changed = int(n); err != nil || n == 0 {
			return err
		}
		return changeTx(t, byOperator(), "mcp.approve", corebot.Key{}, map[string]any{"server": server, "tool": tool, "changed": n})
	})
	return changed, err
}

// List gives what is known of the tools of a server, or of all servers if the name is empty.
func (m *MCPTools) List(ctx context.Context, server string) ([]corebot.ToolPin, error) {
	var out []corebot.ToolPin
	err := m.db.reader.each(ctx, selectMCPTools, func(s scanner) error {
		p, err := scanPin(s)
		out = append(out, p)
		return err
	}, server)
	return out, err
}

func scanPin(s scanner) (p corebot.ToolPin, err error) {
	err = s.Scan(&p.Server, &p.Tool, &p.Pinned, &p.Approved, &p.Seen, moment{&p.ChangedAt})
	return p, err
}
