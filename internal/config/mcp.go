package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// MCP bounds the MCP servers of .mcp.json.
type MCP struct {
	AllowedServers List[string]  `mapstructure:"allowed_servers"`
	AllowedTools   List[string]  `mapstructure:"allowed_tools"`
	ReadOnly       List[string]  `mapstructure:"read_only"`
	Egress         List[string]  `mapstructure:"egress"`
	PinTools       bool          `mapstructure:"pin_tools"`
	TrustFirst     bool          `mapstructure:"trust_on_first_use"`
	ConnectTimeout time.Duration `mapstructure:"connect_timeout" min:"1ms"`
	Timeout        time.Duration `mapstructure:"timeout" min:"1ms"`
	MaxTime        time.Duration `mapstructure:"max_time" min:"1ms"`
	MaxCalls       int           `mapstructure:"max_calls" min:"1"`
	MaxMessage     int           `mapstructure:"max_message_bytes" min:"1024"`
	PingEvery      time.Duration `mapstructure:"ping_every" min:"1s"`

	Serve MCPServe `mapstructure:"serve"`
}

func defaultMCP() MCP {
	return MCP{
		AllowedServers: NewList("*"), AllowedTools: NewList("*"),
		TrustFirst: true, ConnectTimeout: 30 * time.Second,
		Timeout: time.Minute, MaxTime: 10 * time.Minute,
		MaxCalls: 8, MaxMessage: 4 << 20, PingEvery: time.Minute, Serve: defaultMCPServe(),
	}
}

func (m MCP) validate() error {
	for name, list := range map[string]List[string]{"read_only": m.ReadOnly, "egress": m.Egress} {
		for _, pattern := range list.Values() {
			server := strings.HasPrefix(pattern, "mcp__") || strings.Contains(pattern, "/")
			if !corebot.IsNamePattern(pattern) || !server {
				return corebot.WithHint(fmt.Errorf("mcp.%s has %q, which names no tool of a server", name, pattern),
					"write SERVER/TOOL or mcp__SERVER__TOOL, with * at the end for all that begin so")
			}
		}
	}
	if m.MaxTime < m.Timeout {
		return corebot.WithHint(errors.New("mcp.max_time is shorter than mcp.timeout"),
			"a call that reports no progress has the timeout; max_time is for those that do")
	}
	return nil
}

// MCPServe is Corebot as an MCP server.
type MCPServe struct {
	Principal   string        `mapstructure:"principal"`
	HTTP        bool          `mapstructure:"http"`
	MaxWait     time.Duration `mapstructure:"max_wait" min:"1s"`
	MaxSessions int           `mapstructure:"max_sessions" min:"1"`
	SessionIdle time.Duration `mapstructure:"session_idle" min:"1s"`
}

func defaultMCPServe() MCPServe {
	return MCPServe{Principal: "client", MaxWait: 10 * time.Minute, MaxSessions: 256, SessionIdle: 30 * time.Minute}
}

func (c Config) validateMCPServe() error {
	s := c.MCP.Serve
	if s.HTTP && !c.Webhook.Enabled {
		return corebot.WithHint(errors.New("mcp.serve.http is true, and webhook.enabled is not"),
			"MCP clients come through the webhook's listener: set webhook.enabled and webhook.token")
	}
	if err := (corebot.Principal{Channel: "mcp", ID: s.Principal}).Validate(); err != nil {
		return corebot.WithHint(fmt.Errorf("mcp.serve.principal: %w", err), "it is the id of a sender, such as editor")
	}
	return nil
}
