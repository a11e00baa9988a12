package serve

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// sessions are those of clients over HTTP, so many and no more, and none that is idle for long. They hold nothing but
// what the library keeps for each: what a client may do says its credential, in every request.
type sessions struct {
	max    int
	idle   time.Duration
	forget func(id string) // has the library forget one; it calls Terminate

	mu   sync.Mutex
	open map[string]*held
}

// held is one session.
type held struct {
	used time.Time
	busy int // requests under way
}

var _ server.SessionIdManager = (*sessions)(nil)

var errNoSession = errors.New("there is no such session")

func newSessions(most int, idle time.Duration, forget func(string)) *sessions {
	return &sessions{max: most, idle: idle, forget: forget, open: map[string]*held{}}
}

// Generate begins a session.
func (s *sessions) Generate() string {
	id := uuid.NewString() // random: nobody guesses one
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[id] = &held{used: time.Now()}
	return id
}

// Validate says whether a session goes on.
func (s *sessions) Validate(id string) (terminated bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[id] == nil {
		return false, errNoSession
	}
	return false, nil
}

// Terminate ends a session.
func (s *sessions) Terminate(id string) (notAllowed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
	return false, nil
}

// use marks a session as used until done is called. One that was idle for too long ends instead.
func (s *sessions) use(id string) (done func()) {
	s.mu.Lock()
	h := s.open[id]
	over := h != nil && s.over(h, time.Now())
	if h == nil || over {
		s.mu.Unlock()
		if over {
			s.forget(id)
		}
		return func() {}
	}
	h.busy++
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		h.busy--
		h.used = time.Now()
	}
}

func (s *sessions) over(h *held, now time.Time) bool { return h.busy == 0 && now.Sub(h.used) > s.idle }

// room makes place for one more session. It ends the sessions that were idle for too long. If that is not enough, it
// ends the session that was idle the longest.
func (s *sessions) room() bool {
	for _, id := range s.surplus(time.Now()) {
		s.forget(id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) < s.max
}

// surplus are the sessions that make room.
func (s *sessions) surplus(now time.Time) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := ""
	for id, h := range s.open {
		switch {
		case s.over(h, now):
			ids = append(ids, id)
		case h.busy == 0 && (longest == "" || h.used.Before(s.open[longest].used)):
			longest = id
		}
	}
	if len(s.open)-len(ids) >= s.max && longest != "" {
		ids = append(ids, longest)
	}
	return ids
}

func (s *sessions) endAll() {
	s.mu.Lock()
	var ids []string
	for id := range s.open {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		s.forget(id)
	}
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// waitingNotes is how many notifications wait for a client that reads slowly; more are dropped.
const waitingNotes = 64

// session is the one client on standard input and output. The library has one for this purpose, which all of a process
// share.
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
