package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// MCPServe is Corebot as an MCP server.
type MCPServe struct {
	Principal   string        `mapstructure:"principal" doc:"the sender id for which MCP clients act, at corebot mcp serve and over HTTP: the principal mcp::ID, normal until corebot admin grant mcp::ID"`
	HTTP        bool          `mapstructure:"http" doc:"answer MCP clients at /mcp of the webhook's listener, with its token or secret; the webhook must be enabled"`
	MaxWait     time.Duration `mapstructure:"max_wait" min:"1s" doc:"the longest that a call may wait for a reply"`
	MaxSessions int           `mapstructure:"max_sessions" min:"1" doc:"sessions over HTTP at once; the one that was idle the longest makes room for another"`
	SessionIdle time.Duration `mapstructure:"session_idle" min:"1s" doc:"a session over HTTP that is not used for longer ends"`
}

func defaultMCPServe() MCPServe {
	return MCPServe{Principal: "client", MaxWait: 10 * time.Minute, MaxSessions: 256, SessionIdle: 30 * time.Minute}
}

func (c Config) validateMCPServe() error {
	s := c.MCP.Serve
	if s.HTTP && !c.Webhook.Enabled {
		return corebot.WithHint(errors.New("mcp.serve.http is true, and webhook.enabled is not"), "MCP clients come through the webhook's listener: set webhook.enabled and webhook.token")
	}
	if err := (corebot.Principal{Channel: "mcp", ID: s.Principal}).Validate(); err != nil {
		return corebot.WithHint(fmt.Errorf("mcp.serve.principal: %w", err), "it is the id of a sender, such as editor")
	}
	return nil
}
