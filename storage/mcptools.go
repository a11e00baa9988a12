package storage

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
)

// MCPTools keeps how the tools of MCP servers looked when they were approved, and how they look now.
type MCPTools struct{ db *DB }

// NewMCPTools are the tools that a database knows of.
func NewMCPTools(db *DB) *MCPTools { return &MCPTools{db} }

// maxMCPTools is how many tools of one server are remembered. A server that renames its tools without end loses the ones that were seen first.
const maxMCPTools = 2_000

var (
	selectMCPTools = &query{`SELECT server, tool, approved, seen, changed_at FROM mcp_tools WHERE ? IN ('', server) ORDER BY server, tool`}
	insertMCPTool  = &query{`INSERT INTO mcp_tools (server, tool, approved, seen, changed_at) VALUES (?, ?, ?, ?, ?)`}
	seeMCPTool     = &query{`UPDATE mcp_tools SET seen = ?, changed_at = ? WHERE server = ? AND tool = ?`}
	approveMCPTool = &query{`UPDATE mcp_tools SET approved = seen WHERE server = ? AND ? IN ('', tool) AND approved <> seen`}
	countMCPTools  = &query{`SELECT COUNT(*) FROM mcp_tools WHERE server = ? AND ? IN ('', tool)`}
	trimMCPTools   = &query{`DELETE FROM mcp_tools WHERE server = ?1 AND tool IN
		(SELECT tool FROM mcp_tools WHERE server = ?1 ORDER BY changed_at DESC, tool LIMIT -1 OFFSET ?2)`}
)

// Sight notes how the tools of a server look now, by their names, and gives what is known of each. A tool that was not known is approved as it is,
// unless trustNew is false and others of the server were known: a tool that was renamed is a new one.
func (m *MCPTools) Sight(ctx context.Context, server string, fingerprints map[string]string, trustNew bool) (map[string]corebot.ToolPin, error) {
	var known map[string]corebot.ToolPin
	err := m.db.write(ctx, "mcp.sight", func(t *tx) error {
		known = map[string]corebot.ToolPin{}
		err := t.each(selectMCPTools, func(s scanner) error {
			p, err := scanPin(s)
			known[p.Tool] = p
			return err
		}, server)
		if err != nil {
			return err
		}
		return sightTx(t, server, fingerprints, known, trustNew || len(known) == 0)
	})
	if err != nil {
		return nil, fmt.Errorf("note the tools of the MCP server %s: %w", server, err)
	}
	return known, nil
}

// sightTx brings known in line with what is seen.
func sightTx(t *tx, server string, fingerprints map[string]string, known map[string]corebot.ToolPin, trust bool) error {
	grown := false
	for tool, print := range fingerprints {
		p, ok := known[tool]
		if ok && p.Seen == print {
			continue
		}
		p.Seen, p.ChangedAt = print, t.now
		var err error
		if ok {
			_, err = t.exec(seeMCPTool, print, t.now, server, tool)
		} else {
			p.Server, p.Tool, grown = server, tool, true
			if trust {
				p.Approved = print
			}
			_, err = t.exec(insertMCPTool, server, tool, p.Approved, print, t.now)
		}
		if err != nil {
			return err
		}
		known[tool] = p
	}
	if !grown || len(known) <= maxMCPTools {
		return nil
	}
	_, err := t.exec(trimMCPTools, server, maxMCPTools)
	return err
}

// Approve takes a tool, or with an empty name every tool, of a server as it was seen last, and says how many had changed. A tool that was never
// seen is [corebot.ErrNotFound].
func (m *MCPTools) Approve(ctx context.Context, server, tool string) (changed int, err error) {
	err = m.db.write(ctx, "mcp.approve", func(t *tx) error {
		var known int64
		if _, err := t.one(countMCPTools, []any{&known}, server, tool); err != nil {
			return err
		}
		if known == 0 {
			return fmt.Errorf("tools of the MCP server %q called %q: %w", server, tool, corebot.ErrNotFound)
		}
		n, err := t.exec(approveMCPTool, server, tool)
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
	err = s.Scan(&p.Server, &p.Tool, &p.Approved, &p.Seen, moment{&p.ChangedAt})
	return p, err
}
