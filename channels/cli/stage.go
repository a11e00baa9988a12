package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

var errLeft = errors.New("the user has left the terminal")

// session is one run of the terminal, plain or interactive.
type session interface {
	// show writes m and returns when that is done, or a *corebot.Failure.
	show(ctx context.Context, m channels.Outbound) error
	// connection tells the user what became of the connection.
	connection(text string, gone bool)
}

// stage is where Send finds the session, which comes and goes with Run. The zero stage is ready: nobody has come yet.
type stage struct {
	mu      sync.Mutex
	now     session
	left    bool
	entered chan struct{} // closed by the next enter; made by the first who waits
}

func (s *stage) enter(now session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.left = now, false
	if s.entered != nil {
		close(s.entered)
		s.entered = nil
	}
}

func (s *stage) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.left = nil, true
}

// wait returns the session, and blocks while there has been none. After the user left it fails at once, so that a shutdown
// does not wait for replies that nobody will read.
func (s *stage) wait(ctx context.Context) (session, error) {
	for {
		now, left, entered := s.look()
		switch {
		case now != nil:
			return now, nil
		case left:
			return nil, &corebot.Failure{Class: corebot.Cancelled, RetryAfter: patience, Err: errLeft}
		}
		select {
		case <-entered:
		case <-ctx.Done():
			return nil, cancelled(ctx, "wait for the terminal")
		}
	}
}

// session is the one that runs, or nil.
func (s *stage) session() session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *stage) look() (now session, left bool, entered <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entered == nil {
		s.entered = make(chan struct{})
	}
	return s.now, s.left, s.entered
}

func cancelled(ctx context.Context, doing string) error {
	return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: patience, Err: fmt.Errorf("%s: %w", doing, context.Cause(ctx))}
}
