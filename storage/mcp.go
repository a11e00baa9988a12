package storage

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// MCPTools stores fingerprints of MCP servers' tools: as pinned, as approved, and as seen last.
type MCPTools struct {
	db    *DB
	agent string
}

// NewMCPTools returns the tools of one agent. Another agent's tools with the same names are separate.
func NewMCPTools(db *DB, agent string) *MCPTools { return &MCPTools{db, agent} }

// maxMCPTools bounds the remembered tools of one server. If a server renames its tools without end, the tools that were
// seen first are forgotten.
const maxMCPTools = 2_000

var (
	selectMCPTools = &query{
		`SELECT server, tool, pinned, approved, read_only, seen, changed_at FROM mcp_tools WHERE agent = ? AND ? IN
				('', server)
			ORDER BY server, tool`,
	}
	seeMCPTool = &query{`INSERT INTO mcp_tools (agent, server, tool, pinned, approved, seen, changed_at)
		VALUES (?, ?, ?, ?, '', ?, ?)
		ON CONFLICT (agent, server, tool) DO UPDATE SET seen = excluded.seen, changed_at = excluded.changed_at`}
	approveMCPTool = &query{
		`UPDATE mcp_tools SET pinned = seen, approved = seen, read_only = CASE WHEN ?1 THEN seen ELSE '' END
			WHERE agent = ?2 AND server = ?3 AND tool = ?4
			AND (approved <> seen OR read_only <> CASE WHEN ?1 THEN seen ELSE '' END)`,
	}
	seenMCPTool     = &query{`SELECT seen FROM mcp_tools WHERE agent = ? AND server = ? AND tool = ?`}
	listedMCPServer = &query{`SELECT 1 FROM mcp_servers WHERE agent = ? AND name = ?`}
	listMCPServer   = &query{`INSERT INTO mcp_servers (agent, name, listed_at) VALUES (?, ?, ?)`}
	trimMCPTools    = &query{`DELETE FROM mcp_tools WHERE agent = ?1 AND server = ?2 AND tool IN
		(SELECT tool FROM mcp_tools WHERE agent = ?1 AND server = ?2 ORDER BY changed_at DESC,
		tool LIMIT -1 OFFSET ?3)`}
)

// Sight stores the present fingerprints of a server's tools, by tool name, and returns what is known of each tool. The
// first listing of a server pins its tools. A tool that comes later waits for an approval, even if the first listing
// was empty. A renamed tool is a new tool. A listing approves nothing.
func (m *MCPTools) Sight(ctx context.Context, server string,
	fingerprints map[string]string,
) (map[string]corebot.ToolPin, error) {
	var known map[string]corebot.ToolPin
	err := m.db.write(ctx, "mcp.sight", func(t *tx) (err error) {
		if known, err = m.known(t.each, server); err != nil {
			return err
		}
		first, err := m.firstListing(t.one, server)
		if err == nil && first {
			_, err = t.exec(listMCPServer, m.agent, server, t.now)
		}
		if err != nil {
			return err
		}
		before := len(known)
		for _, p := range sighted(known, server, fingerprints, first, t.now) {
			if _, err := t.exec(seeMCPTool, m.agent, p.Server, p.Tool, p.Pinned, p.Seen, p.ChangedAt); err != nil {
				return err
			}
		}
		if len(known) == before || len(known) <= maxMCPTools {
			return nil
		}
		_, err = t.exec(trimMCPTools, m.agent, server, maxMCPTools)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("note the tools of the MCP server %s: %w", server, err)
	}
	return known, nil
}

// Peek returns what Sight would return, and stores nothing.
func (m *MCPTools) Peek(ctx context.Context, server string,
	fingerprints map[string]string,
) (map[string]corebot.ToolPin, error) {
	known, err := m.known(func(q *query, scan func(scanner) error, args ...any) error {
		return m.db.reader.each(ctx, q, scan, args...)
	}, server)
	first := false
	if err == nil {
		first, err = m.firstListing(func(q *query, into []any, args ...any) (bool, error) {
			return m.db.reader.one(ctx, q, into, args...)
		}, server)
	}
	if err != nil {
		return nil, fmt.Errorf("look up the tools of the MCP server %s: %w", server, err)
	}
	sighted(known, server, fingerprints, first, time.Now())
	return known, nil
}

// firstListing says whether a server has never listed its tools before.
func (m *MCPTools) firstListing(one func(q *query, into []any, args ...any) (bool, error),
	server string,
) (bool, error) {
	var listed int64
	known, err := one(listedMCPServer, []any{&listed}, m.agent, server)
	return !known, err
}

// known reads what is known of a server's tools, by their names.
func (m *MCPTools) known(each func(q *query, scan func(scanner) error, args ...any) error,
	server string,
) (map[string]corebot.ToolPin, error) {
	known := map[string]corebot.ToolPin{}
	return known, each(selectMCPTools, func(s scanner) error {
		p, err := scanPin(s)
		known[p.Tool] = p
		return err
	}, m.agent, server)
}

// sighted updates known by the seen fingerprints and returns the changes. With trust it pins new tools.
func sighted(known map[string]corebot.ToolPin, server string, fingerprints map[string]string, trust bool,
	now time.Time,
) (changed []corebot.ToolPin) {
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

// Approve approves tools of a server, by their names. Each comes with the fingerprint of the description that the
// operator has read. It returns how many were not approved before. A tool that was never seen is [corebot.ErrNotFound].
// If a tool looks different now, the error is [corebot.ErrInvalid], and nothing is approved. The tools that readOnly
// names are declared as tools that only read; any other approved tool is declared so no longer.
func (m *MCPTools) Approve(ctx context.Context, server string, fingerprints map[string]string,
	readOnly ...string,
) (changed int, err error) {
	err = m.db.write(ctx, "mcp.approve", func(t *tx) error {
		changed = 0
		for _, tool := range slices.Sorted(maps.Keys(fingerprints)) {
			n, err := m.approveTx(t, server, tool, fingerprints[tool], slices.Contains(readOnly, tool))
			if err != nil {
				return err
			}
			changed += n
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return changed, nil
}

// approveTx approves one tool with the fingerprint that was read.
func (m *MCPTools) approveTx(t *tx, server, tool, print string, reads bool) (changed int, err error) {
	var seen string
	known, err := t.one(seenMCPTool, []any{&seen}, m.agent, server, tool)
	switch {
	case err != nil:
		return 0, err
	case !known:
		return 0, fmt.Errorf("tool %q of the MCP server %q: %w", tool, server, corebot.ErrNotFound)
	case seen != print:
		return 0, corebot.WithHint(fmt.Errorf("%w: the tool %q of the MCP server %q is not what this fingerprint was "+
			"printed for", corebot.ErrInvalid, tool, server),
			"it has changed since, or the fingerprint is of something else: read `corebot mcp show "+server+"` again")
	}
	n, err := t.exec(approveMCPTool, reads, m.agent, server, tool)
	if err != nil || n == 0 {
		return 0, err
	}
	note := map[string]any{"agent": m.agent, "server": server, "tool": tool, "fingerprint": print}
	if reads {
		note["readOnly"] = true
	}
	return int(n), changeTx(t, byOperator(), "mcp.approve", corebot.Key{}, note)
}

// List returns what is known of the tools of a server; an empty name means all servers.
func (m *MCPTools) List(ctx context.Context, server string) ([]corebot.ToolPin, error) {
	var out []corebot.ToolPin
	err := m.db.reader.each(ctx, selectMCPTools, func(s scanner) error {
		p, err := scanPin(s)
		out = append(out, p)
		return err
	}, m.agent, server)
	return out, err
}

func scanPin(s scanner) (p corebot.ToolPin, err error) {
	err = s.Scan(&p.Server, &p.Tool, &p.Pinned, &p.Approved, &p.ReadOnly, &p.Seen, moment{&p.ChangedAt})
	return p, err
}

// ClientCalls makes the changes that MCP clients ask for, outside of any turn.
type ClientCalls struct{ db *DB }

// NewClientCalls are the calls of a database.
func NewClientCalls(db *DB) *ClientCalls { return &ClientCalls{db} }

// keptClientCalls bounds the remembered calls with keys. An older key counts as new.
const keptClientCalls = 10_000

var (
	selectClientCall = &query{`SELECT call FROM client_calls WHERE key = ?`}
	insertClientCall = &query{`INSERT INTO client_calls (key, call, at) VALUES (?, ?, ?)`}
	trimClientCalls  = &query{`DELETE FROM client_calls WHERE id <= ?`}
)

// Apply applies an effect for the event's principal and writes the event, in one commit: a crash leaves both or
// neither. A repeated call with the same key changes nothing and is no error. The errors are the errors of
// [Ledger.Apply]. If the key was used for another call, the error is a [*corebot.Refused] of [corebot.ErrConflict].
func (c *ClientCalls) Apply(ctx context.Context, call corebot.ClientCall, effect corebot.Effect,
	event corebot.AuditEvent,
) error {
	var denied *corebot.Denied
	err := c.db.write(ctx, "client-call", func(t *tx) error {
		asks := asking{event: event}
		repeated, err := repeatedTx(t, call)
		if err != nil {
			return err
		}
		denied = nil
		if !repeated {
			if denied, err = c.db.applyTx(t, &asks, effect); err != nil {
				return err
			}
		}
		if denied == nil {
			if err := rememberTx(t, call, repeated); err != nil {
				return err
			}
		}
		return auditTx(t, []corebot.AuditEvent{asks.event})
	})
	if err == nil && denied != nil {
		return denied
	}
	return err
}

// repeatedTx says whether the same call was made before.
func repeatedTx(t *tx, c corebot.ClientCall) (bool, error) {
	if c.Key == "" {
		return false, nil
	}
	var was []byte
	found, err := t.one(selectClientCall, []any{&was}, callName(c))
	if err == nil && found && string(was) != string(callDigest(c)) {
		err = &corebot.Refused{Err: fmt.Errorf("%w: the idempotency key was used for another call",
			corebot.ErrConflict)}
	}
	return found, err
}

func rememberTx(t *tx, c corebot.ClientCall, repeated bool) error {
	if c.Key == "" || repeated {
		return nil
	}
	id, err := t.insert(insertClientCall, callName(c), callDigest(c), t.now)
	if err == nil && id > keptClientCalls {
		_, err = t.exec(trimClientCalls, id-keptClientCalls)
	}
	return err
}

func callName(c corebot.ClientCall) []byte { return hashOf(c.Principal.String(), c.Key) }

func callDigest(c corebot.ClientCall) []byte { return hashOf(c.Tool, string(c.Args)) }

// hashOf hashes texts with their lengths, so that different pairs have different hashes.
func hashOf(a, b string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(a), a, b))
	return sum[:]
}
