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
	AllowedServers List[string]  `mapstructure:"allowed_servers" doc:"which servers of .mcp.json are used: names, or beginnings of names and *; an empty list is none"`
	AllowedTools   List[string]  `mapstructure:"allowed_tools" doc:"which of their tools are offered: mcp__SERVER__TOOL, SERVER/TOOL, or TOOL of any server, each with * at its end for all that begin so; an empty list is none. Who may use them says the policy"`
	ReadOnly       List[string]  `mapstructure:"read_only" doc:"tools that only read, such as mail/list or mcp__mail__*: SERVER/TOOL or mcp__SERVER__TOOL, each with * at its end for all that begin so. They run without an approval also in turns that have read text from outside, as long as their description is the approved one; and they run again after a crash"`
	Egress         List[string]  `mapstructure:"egress" doc:"tools that can carry data to an address that their arguments choose, in the same spelling; tools whose schema takes an address count by themselves. In turns that have read text from outside they wait for an approval also if they only read, unless the address stood in the user's words, a search result or a link"`
	PinTools       bool          `mapstructure:"pin_tools" doc:"a tool that has changed since the first listing of its server, or came later, is not offered until corebot mcp approve; otherwise it is offered, and counts as text from outside"`
	TrustFirst     bool          `mapstructure:"trust_on_first_use" doc:"what the first listing of a server says of its tools is taken for the operator's word, who wrote down the server; otherwise, and for tools that change or come later, turns that are offered them count as having read text from outside until corebot mcp approve"`
	ConnectTimeout time.Duration `mapstructure:"connect_timeout" min:"1ms" doc:"how long a server may take from its start to its list of tools; then it is tried again later"`
	Timeout        time.Duration `mapstructure:"timeout" min:"1ms" doc:"how long a call may take, from its beginning or from the last progress that the server reports"`
	MaxTime        time.Duration `mapstructure:"max_time" min:"1ms" doc:"how long a call may take, whatever progress is reported; at least timeout"`
	MaxCalls       int           `mapstructure:"max_calls" min:"1" doc:"calls of one server at once; others wait their turn"`
	MaxMessage     int           `mapstructure:"max_message_bytes" min:"1024" doc:"of one message of a server; a longer one ends the connection, or the call"`
	PingEvery      time.Duration `mapstructure:"ping_every" min:"1s" doc:"how often a server is asked whether it lives; one that does not answer twice is connected again"`

	Serve MCPServe `mapstructure:"serve" doc:"Corebot as an MCP server, for editors and other agents (docs/mcp.md)."`
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
		return corebot.WithHint(errors.New("mcp.serve.http is true, and webhook.enabled is not"),
			"MCP clients come through the webhook's listener: set webhook.enabled and webhook.token")
	}
	if err := (corebot.Principal{Channel: "mcp", ID: s.Principal}).Validate(); err != nil {
		return corebot.WithHint(fmt.Errorf("mcp.serve.principal: %w", err), "it is the id of a sender, such as editor")
	}
	return nil
}
