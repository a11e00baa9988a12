package corebot

import "time"

// ToolPin is what is known of a tool of an MCP server: how it was when it was pinned, when an operator approved it, and when it was seen last. All
// three are hashes of all that its server says of the tool, in hexadecimal digits.
type ToolPin struct {
	Server    string    `json:"server"`
	Tool      string    `json:"tool"`               // as the server calls it
	Pinned    string    `json:"pinned,omitempty"`   // by the first listing of its server, or by an approval; empty: it came later and waits for one
	Approved  string    `json:"approved,omitempty"` // by an operator; empty: never
	Seen      string    `json:"seen"`
	ChangedAt time.Time `json:"changedAt"` // when Seen became what it is
}

// Changed says whether the tool is not what it is pinned to.
func (p ToolPin) Changed() bool { return p.Pinned != p.Seen }

// Vouched says whether the operator stands for what the tool says of itself now: he has approved it, or, with trustFirst, it is what it was when it was
// pinned: he wrote down the server. Of a tool that nobody knows it is trustFirst.
func (p ToolPin) Vouched(trustFirst bool) bool {
	return p.Approved != "" && p.Approved == p.Seen || trustFirst && !p.Changed()
}
