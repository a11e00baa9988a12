package operate

import (
	"context"
	"encoding/json"
	"time"
)

// The operations on the MCP servers of an agent.
var (
	ListServers   = ofFiles("mcp.list", (*Service).ListServers)
	ShowServer    = runs("mcp.show", (*Service).ShowServer)
	ReloadServers = runs("mcp.reload", (*Service).ReloadServers)
	ApproveTools  = changes("mcp.approve", (*Service).ApproveTools)
)

// maxServerTools bounds a page of tools: each has a text and a schema that its server chose.
const maxServerTools = 50

type (
	// ServersQuery asks for a part of the MCP servers of an agent.
	ServersQuery struct {
		ByAgent
		Part
	}
	// MCPServer is one server as it is now.
	MCPServer struct {
		Name      string    `json:"name"`
		Transport string    `json:"transport"`
		State     string    `json:"state"`
		Since     time.Time `json:"since"`     // when the state began
		LastError string    `json:"lastError"` // also what of it is not offered, and why; empty if all is well
		Tools     []string  `json:"tools"`     // as models are offered them

		// Unapproved are those of Tools that no operator has approved as they are: a turn that is offered them is
		// tainted.
		Unapproved []string `json:"unapproved"`
	}
	// MCPServers is a page of servers, and what is wrong with their file. Servers of a file that is wrong are those of
	// the last good one.
	MCPServers struct {
		Page[MCPServer]
		FileError string   `json:"fileError,omitempty"`
		Hint      string   `json:"hint,omitempty"` // what to do about the file's error
		Warnings  []string `json:"warnings,omitempty"`
	}
	// ToolsQuery asks for a part of the tools of a server.
	ToolsQuery struct {
		ByAgent
		Server string `json:"server"`
		Part
	}
	// MCPTool is what a server says of one of its tools, as a model is shown it.
	MCPTool struct {
		Name    string `json:"name"`    // as models are offered it
		Tool    string `json:"tool"`    // as the server calls it
		Trusted bool   `json:"trusted"` // an operator approved it, or it is as the first listing had it
		// ReadOnly: the operator declares that the tool only reads. Hint: the server says so, which decides nothing.
		ReadOnly bool `json:"readOnly"`
		Hint     bool `json:"readOnlyHint,omitempty"`
		// Egress: the tool can carry data to an address that its arguments choose.
		Egress bool            `json:"egress"`
		Text   string          `json:"text"`
		Schema json.RawMessage `json:"schema"` // JSON Schema of the arguments

		// of all that the server says of the tool: what an approval takes
		Fingerprint string `json:"fingerprint,omitempty"`
		Unusable    string `json:"unusable,omitempty"` // why the tool is not offered; such a tool has no fingerprint
	}
	// MCPTools is a page of the tools of a server.
	MCPTools struct {
		Page[MCPTool]
		Whole string `json:"whole,omitempty"` // one fingerprint over those of all tools, also of other pages
	}
	// ToolApproval approves tools of a server, as the server calls them. Each has the fingerprint of what the operator
	// has read.
	ToolApproval struct {
		ByAgent
		Server       string            `json:"server"`
		Fingerprints map[string]string `json:"fingerprints"`
		ReadOnly     []string          `json:"readOnly,omitempty"` // those of them that are declared to only read
	}
)

// ListServers tells how the MCP servers of an agent are doing, by name.
func (s *Service) ListServers(ctx context.Context, q ServersQuery) (MCPServers, error) {
	all, err := s.stores.Agents.Servers(ctx, q.Agent)
	if err != nil {
		return MCPServers{}, err
	}
	return all.part(q.Part)
}

func (s MCPServers) part(p Part) (_ MCPServers, err error) {
	s.Page, err = partOf(s.Rows, p, func(s MCPServer) string { return s.Name })
	return s, err
}

// ShowServer gives what a server says of its tools now, those that wait for an approval included, by name. A server
// that the file does not list is [corebot.ErrNotFound].
func (s *Service) ShowServer(ctx context.Context, q ToolsQuery) (MCPTools, error) {
	all, whole, err := s.running.ServerTools(ctx, q.Agent, q.Server)
	if err != nil {
		return MCPTools{}, err
	}
	q.Limit = min(q.size(), maxServerTools)
	page, err := partOf(all, q.Part, func(t MCPTool) string { return t.Tool })
	return MCPTools{page, whole}, err
}

// ReloadServers reads the file of MCP servers again, waits a while for new servers, and gives the first page of them.
func (s *Service) ReloadServers(ctx context.Context, q ServersQuery) (MCPServers, error) {
	all, err := s.running.ReloadServers(ctx, q.Agent)
	if err != nil {
		return MCPServers{}, err
	}
	return all.part(q.Part)
}

// ApproveTools takes tools as they were read, if they are so still. A running Corebot offers them to the turns that
// begin from then on.
func (s *Service) ApproveTools(ctx context.Context, a ToolApproval) (Done, error) {
	n, err := s.stores.Agents.ApproveTools(ctx, a.Agent, a.Server, a.Fingerprints, a.ReadOnly)
	return Done{Changed: n}, err
}
