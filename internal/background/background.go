// Package background runs programs of chats beside their turns, and keeps what they print until somebody asks.
//
// Guarantees of a [Set]:
//
//   - A chat has so many programs at once, and all chats together have so many. One too many is refused.
//   - A program has a life time. Of its output the newest part is kept, and a reader learns what was dropped. The last
//     ended programs are kept with their output, until newer ones have ended.
//   - A program belongs to its chat: no other chat reads, stops or lists it.
//   - [Set.Close] returns when no program is left.
//
// Limit: programs are in memory. After a restart none is left, and their names mean nothing.
package background

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// Limits of a [Set].
type Limits struct {
	PerChat, Total int           // programs at once
	Life           time.Duration // of one program
	Output         int           // bytes that are kept of what one prints
}

// keptEnded is how many ended programs are remembered, of all chats, with their output.
const keptEnded = 32

// Errors that callers decide on. They are compared with errors.Is.
var (
	ErrTooMany = errors.New("too many programs in the background")
	ErrUnknown = errors.New("no such program in the background")
	errStopped = errors.New("it was stopped")
	errLife    = errors.New("its life time is over")
	errClosed  = errors.New("this Corebot stops")
)

// Run runs a program until it ends or ctx does, and says how it ended. It returns when nothing of it is left.
type Run func(ctx context.Context, out *Output) (how string)

// Set are the programs in the background. It is safe for use by several goroutines.
type Set struct {
	limits Limits

	mu      sync.Mutex
	closed  bool
	chats   map[corebot.Key][]*program // the oldest first
	running int
	all     sync.WaitGroup
}

// program is one of them.
type program struct {
	id    string
	owner corebot.Principal
	what  string
	began time.Time
	out   *Output
	stop  context.CancelCauseFunc
	ended chan struct{}
	how   string    // once ended is closed
	at    time.Time // the same
}

// New makes a set. Close ends it.
func New(l Limits) (*Set, error) {
	if l.PerChat < 0 || l.Total < 0 || l.Life <= 0 || l.Output <= 0 {
		return nil, fmt.Errorf("%w: limits of programs in the background", corebot.ErrInvalid)
	}
	return &Set{limits: l, chats: map[corebot.Key][]*program{}}, nil
}

// Start runs a program for a chat and gives its name. The error is [ErrTooMany] where there is no place.
func (s *Set) Start(k corebot.Key, owner corebot.Principal, what string, run Run) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := len(s.runningOf(k, owner, true))
	switch {
	case s.closed:
		return "", errClosed
	case running >= s.limits.PerChat:
		return "", corebot.WithHint(fmt.Errorf("%w: this chat has %d, the limit is %d", ErrTooMany, running,
			s.limits.PerChat), "stop one, or raise tools.shell.background_per_chat")
	case s.running >= s.limits.Total:
		return "", corebot.WithHint(fmt.Errorf("%w: all chats have %d, the limit is %d", ErrTooMany, s.running,
			s.limits.Total), "try again later, or raise tools.shell.background_total")
	}
	life, stopLife := context.WithTimeoutCause(context.Background(), s.limits.Life, errLife)
	ctx, stop := context.WithCancelCause(life)
	p := &program{
		id: strings.ToLower("p-" + rand.Text()[:8]), owner: owner, what: what, began: time.Now(),
		out: &Output{limit: s.limits.Output}, stop: stop, ended: make(chan struct{}),
	}
	s.forget()
	s.chats[k] = append(s.chats[k], p)
	s.running++
	s.all.Go(func() {
		defer stopLife()
		how := run(ctx, p.out)
		if cause := context.Cause(ctx); cause != nil {
			how = cause.Error()
		}
		stop(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		p.how, p.at = how, time.Now()
		s.running--
		close(p.ended)
	})
	return p.id, nil
}

// forget drops the oldest ended programs of all chats, with their output.
func (s *Set) forget() {
	var ended []*program
	for _, ps := range s.chats {
		for _, p := range ps {
			if p.over() {
				ended = append(ended, p)
			}
		}
	}
	slices.SortFunc(ended, func(a, b *program) int { return a.at.Compare(b.at) })
	old := ended[:max(0, len(ended)-keptEnded)]
	for k, ps := range s.chats {
		ps = slices.DeleteFunc(ps, func(p *program) bool { return slices.Contains(old, p) })
		if s.chats[k] = ps; len(ps) == 0 {
			delete(s.chats, k)
		}
	}
}

func (p *program) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (s *Set) find(k corebot.Key, id string) (*program, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.chats[k] {
		if p.id == id {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w: %.40q; a program ends when Corebot stops", ErrUnknown, id)
}

// State is a program as it is now.
type State struct {
	ID    string
	What  string
	Began time.Time
	Ended time.Time // zero: it runs
	How   string    // it ended
}

func (p *program) state() State {
	s := State{ID: p.id, What: p.what, Began: p.began}
	if p.over() {
		s.Ended, s.How = p.at, p.how
	}
	return s
}

// Read gives what a program has printed from a place on, and how it is. It waits for a while where there is nothing new
// and the program runs. A negative place means: where the last reader ended.
func (s *Set) Read(ctx context.Context, k corebot.Key, id string, from int64, wait time.Duration) (State, Text, error) {
	p, err := s.find(k, id)
	if err != nil {
		return State{}, Text{}, err
	}
	for timer := time.NewTimer(wait); ; {
		more := p.out.more()
		state := p.state() // before the text, so that an ended program's text is whole
		if t := p.out.read(from); t.Text != "" || !state.Ended.IsZero() || wait <= 0 {
			timer.Stop()
			p.out.readTo(t.Next)
			return state, t, nil
		}
		select {
		case <-more:
		case <-p.ended:
		case <-timer.C:
			wait = 0
		case <-ctx.Done():
			timer.Stop()
			return State{}, Text{}, context.Cause(ctx)
		}
	}
}

// Wait waits until a program has ended, for a while.
func (s *Set) Wait(ctx context.Context, k corebot.Key, id string, most time.Duration) (State, error) {
	p, err := s.find(k, id)
	if err != nil {
		return State{}, err
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.state(), nil
}

// Stop ends a program and waits until nothing of it is left.
func (s *Set) Stop(k corebot.Key, id string) (State, error) {
	p, err := s.find(k, id)
	if err != nil {
		return State{}, err
	}
	p.stop(errStopped)
	<-p.ended
	return p.state(), nil
}

// RunningOf counts the programs of a chat that run and that a principal has started, or all of the chat.
func (s *Set) RunningOf(k corebot.Key, owner corebot.Principal, all bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runningOf(k, owner, all))
}

func (s *Set) runningOf(k corebot.Key, owner corebot.Principal, all bool) (running []*program) {
	for _, p := range s.chats[k] {
		if (all || p.owner == owner) && !p.over() {
			running = append(running, p)
		}
	}
	return running
}

// StopOf has the programs of a chat end that a principal has started, or all of the chat. It does not wait for their
// ends, and says how many ran.
func (s *Set) StopOf(k corebot.Key, owner corebot.Principal, all bool) (stopped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := s.runningOf(k, owner, all)
	for _, p := range running {
		p.stop(errStopped)
	}
	return len(running)
}

// Drop ends all programs of a chat, waits until nothing of them is left, and forgets them with their output.
func (s *Set) Drop(k corebot.Key) {
	s.mu.Lock()
	dropped := s.chats[k]
	delete(s.chats, k)
	for _, p := range dropped {
		p.stop(errStopped)
	}
	s.mu.Unlock()
	for _, p := range dropped {
		<-p.ended
	}
}

// List gives the programs of a chat, the oldest first.
func (s *Set) List(k corebot.Key) (all []State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.chats[k] {
		all = append(all, p.state())
	}
	return all
}

// Close ends all programs, and waits until nothing of them is left.
func (s *Set) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, ps := range s.chats {
		for _, p := range ps {
			p.stop(errClosed)
		}
	}
	s.mu.Unlock()
	s.all.Wait()
	return nil
}
