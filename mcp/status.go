package mcp

import (
	"encoding/json"
	"time"
)

// State is how a server is doing. The values are part of what scripts read.
type State string

const (
	Connecting State = "connecting" // for the first time, or again
	Connected  State = "connected"
	Resting    State = "resting"  // connected; its calls failed, and none is made for a while
	Failed     State = "failed"   // it is tried again after a while
	Disabled   State = "disabled" // by its entry, or by mcp.allowed_servers
	Stopped    State = "stopped"  // Corebot does not run
)

// Status is one server as it is now.
type Status struct {
	Name      string    `json:"name"`
	Transport string    `json:"transport"`
	State     State     `json:"state"`
	Since     time.Time `json:"since"`     // when the state began
	LastError string    `json:"lastError"` // also what of it is not offered, and why; empty if all is well
	Tools     []string  `json:"tools"`     // as models are offered them

	// Unapproved are those of Tools that no operator has approved as they are: a turn that is offered them is tainted.
	Unapproved []string `json:"unapproved"`
}

// Description is what a server says of one of its tools, as a model is shown it.
type Description struct {
	Name    string          `json:"name"`    // as models are offered it
	Tool    string          `json:"tool"`    // as the server calls it
	Trusted bool            `json:"trusted"` // the operator stands for it: see [corebot.ToolPin.Vouched]
	Text    string          `json:"text"`
	Schema  json.RawMessage `json:"schema"` // JSON Schema of the arguments

	Fingerprint string `json:"fingerprint,omitempty"` // of all that the server says of the tool: what an approval takes
	Unusable    string `json:"unusable,omitempty"`    // why the tool is not offered, whatever is approved; then there is no fingerprint
}

// Fingerprints are those of the tools that can be approved, by the names that their server gives them, and one over all
// of them.
func Fingerprints(all []Description) (each map[string]string, whole string) {
	each = map[string]string{}
	for _, d := range all {
		if d.Unusable == "" {
			each[d.Tool] = d.Fingerprint
		}
	}
	return each, digest(each)
}

// Overview is all servers, by name, and what is wrong with their file: then the servers are those of the last good one.
type Overview struct {
	Servers   []Status `json:"servers"`
	FileError string   `json:"fileError,omitempty"`
	Hint      string   `json:"hint,omitempty"` // what to do about the file's error
	Warnings  []string `json:"warnings,omitempty"`
}

// Describe gives the servers of a file without reaching any of them.
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
