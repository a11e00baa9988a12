package mcp

import "time"

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
		all[i] = Status{Name: s.Name, Transport: s.Transport, State: Stopped, Tools: []string{}}
		if s.Disabled {
			all[i].State = Disabled
		}
	}
	return all
}
