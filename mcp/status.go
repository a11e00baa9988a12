package mcp

import (
	"encoding/json"
	"time"
)

// State is the state of a server's connection. Scripts read the values, so they never change.
type State string

const (
	Connecting State = "connecting" // for the first time, or again
	Connected  State = "connected"
	Resting    State = "resting"  // connected, but its calls failed: it gets no call for a while
	Failed     State = "failed"   // not connected; Corebot tries again after a while
	Disabled   State = "disabled" // by its entry, or by mcp.allowed_servers
	Stopped    State = "stopped"  // Corebot does not run
)

// Status is one server as it is now.
type Status struct {
	Name      string    `json:"name"`
	Transport string    `json:"transport"`
	State     State     `json:"state"`
	Since     time.Time `json:"since"`     // when the state began
	LastError string    `json:"lastError"` // or which of its tools are not offered, and why; empty if all is well
	Tools     []string  `json:"tools"`     // the names under which models are offered them

	// Unapproved are those of Tools whose present description no operator has approved. A turn that is offered one is
	// tainted.
	Unapproved []string `json:"unapproved"`
}

// Description is what a server says of one of its tools, in the form that a model is shown.
type Description struct {
	Name    string `json:"name"`    // the name under which models are offered it
	Tool    string `json:"tool"`    // the server's name for it
	Trusted bool   `json:"trusted"` // an operator has vouched for it: see [corebot.ToolPin.Vouched]
	// ReadOnly: the operator declares that the tool only reads. Hint: the server says so, which decides nothing.
	ReadOnly bool `json:"readOnly"`
	Hint     bool `json:"readOnlyHint,omitempty"`
	// Egress: the tool can carry data to an address that its arguments choose.
	Egress bool            `json:"egress"`
	Text   string          `json:"text"`
	Schema json.RawMessage `json:"schema"` // JSON Schema of the arguments

	Fingerprint string `json:"fingerprint,omitempty"` // of all that the server says of the tool: what an approval takes
	// why the tool is not offered, whatever is approved; then there is no fingerprint
	Unusable string `json:"unusable,omitempty"`
}

// Fingerprints gives the fingerprint of each tool that can be approved, by the server's name for the tool. whole is one
// fingerprint over all of them.
func Fingerprints(all []Description) (each map[string]string, whole string) {
	each = map[string]string{}
	for _, d := range all {
		if d.Unusable == "" {
			each[d.Tool] = d.Fingerprint
		}
	}
	return each, digest(each)
}

// Overview is all servers, by name. If their file has an error, the servers are those of the last good file.
type Overview struct {
	Servers   []Status `json:"servers"`
	FileError string   `json:"fileError,omitempty"`
	Hint      string   `json:"hint,omitempty"` // what to do about the file's error
	Warnings  []string `json:"warnings,omitempty"`
}

// Describe lists the servers of a file without connecting to any of them.
func (f File) Describe() []Status {
	all := make([]Status, len(f.Servers))
	for i, s := range f.Servers {
		all[i] = Status{Name: s.Name, Transport: s.Transport, State: Stopped, Tools: []string{}, Unapproved: []string{}}
		if s.Disabled {
			all[i].State = Disabled
		}
	}
	return all
}
