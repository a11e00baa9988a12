package serve

import (
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// waitingNotes is how many notifications wait for a client that reads slowly; more are dropped.
const waitingNotes = 64

// session is the one client on standard input and output. The library has one for this purpose, which all of a process share.
type session struct {
	notes chan mcp.JSONRPCNotification
	ready atomic.Bool
}

var _ server.ClientSession = (*session)(nil)

func newSession() *session { return &session{notes: make(chan mcp.JSONRPCNotification, waitingNotes)} }

// SessionID implements [server.ClientSession].
func (*session) SessionID() string { return "stdio" }

// NotificationChannel implements [server.ClientSession].
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.notes }

// Initialize implements [server.ClientSession].
func (s *session) Initialize() { s.ready.Store(true) }

// Initialized implements [server.ClientSession].
func (s *session) Initialized() bool { return s.ready.Load() }
