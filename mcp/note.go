package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// noteTime is how long the audit may take for an event.
const noteTime = 10 * time.Second

// note leaves an event of the server in the audit.
func (s *server) note(event string, outcome corebot.AuditOutcome, about map[string]any) {
	all := map[string]any{"server": s.spec.Name}
	maps.Copy(all, about)
	note(s.opts.Trail, s.opts.Log, event, outcome, all)
}

// note leaves an event in the audit. That it cannot be noted stops nothing.
func note(trail Trail, log zerolog.Logger, event string, outcome corebot.AuditOutcome, about map[string]any) {
	if trail == nil {
		return
	}
	args, err := json.Marshal(about)
	if err == nil {
		ctx, stop := context.WithTimeout(context.Background(), noteTime)
		defer stop()
		err = trail.Note(ctx, corebot.AuditEvent{
			At: time.Now(), Event: event, Entry: corebot.EntryServers, Outcome: outcome, Args: string(args),
		})
	}
	if err != nil {
		log.Warn().Err(err).Str("event", event).Msg("an event of an MCP server was not noted in the audit")
	}
}
