package mcp

import (
	"time"

	"github.com/corebot/corebot"
)

const (
	changesTold = 50        // changes of one server that the log and the audit name in a window
	tellWindow  = time.Hour // in which so many are named
)

// telling bounds how much the log and the audit say of one server. A server can change all its tools every two seconds
// for as long as it runs, and the audit keeps each event for months.
type telling struct {
	since time.Time // when the window began
	said  int
	full  bool // somebody was told that more is not said in this window
}

// take says whether one thing more is said.
func (t *telling) take(now time.Time) bool {
	if now.Sub(t.since) > tellWindow {
		*t = telling{since: now}
	}
	if t.said >= changesTold {
		return false
	}
	t.said++
	return true
}

// sayChanged logs and audits that tools are new since the first listing, or are described differently. All are counted.
// Beyond [changesTold] one event says for the rest of the window that there are more. The lock looking is held.
func (s *server) sayChanged(names []string) {
	s.metrics.changes.Add(float64(len(names)))
	outcome := corebot.OutcomeSuccess
	if s.pinned() {
		outcome = corebot.OutcomeDenied
	}
	for i, tool := range names {
		if !s.told.take(time.Now()) {
			s.sayMore(len(names)-i, outcome)
			return
		}
		s.opts.Log.Warn().Str("server", s.spec.Name).Str("tool", clip(tool, 128)).Bool("pinned",
			s.pinned()).Msg("a tool of an MCP server is not what it was")
		s.note("mcp.tool_changed", outcome, map[string]any{"tool": clip(tool, 128)})
	}
}

// sayMore says once in a window that more tools have changed than are named.
func (s *server) sayMore(tools int, outcome corebot.AuditOutcome) {
	if s.told.full {
		return
	}
	s.told.full = true
	s.opts.Log.Warn().Str("server", s.spec.Name).Int("tools", tools).Dur("window_ms",
		tellWindow).Msg("an MCP server changes more tools than are named; corebot_mcp_tool_changes_total counts all")
	s.note("mcp.tool_changed", outcome, map[string]any{"more": tools})
}
