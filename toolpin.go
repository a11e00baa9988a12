package corebot

import "time"

// ToolPin is what is known of a tool of an MCP server: how it was when it was approved, by being seen for the first time or by an operator, and
// how it was seen last. Both are hashes of name, description and schema, in hexadecimal digits.
type ToolPin struct {
	Server    string    `json:"server"`
	Tool      string    `json:"tool"`               // as the server calls it
	Approved  string    `json:"approved,omitempty"` // empty: never
	Seen      string    `json:"seen"`
	ChangedAt time.Time `json:"changedAt"` // when Seen became what it is
}

// Changed says whether the tool is not what was approved.
func (p ToolPin) Changed() bool { return p.Approved != p.Seen }
