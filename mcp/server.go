package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/breaker"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/tools"
)

const (
	breakAfter  = 5               // calls in a row without an answer
	steady      = time.Minute     // a connection that lasted so long was no failure
	relistEvery = 2 * time.Second // however often the server says that its tools have changed
	pingsMissed = 2               // in a row until the connection counts as lost
	// that a turn waits for servers that were just started, and a call for one that is not connected
	moment = 3 * time.Second
)

// server is one entry of the file, supervised: it is connected again whenever the connection is lost.
type server struct {
	spec    Spec
	opts    *Options
	metrics *metrics
	breaker *breaker.Breaker
	slots   chan struct{} // one for each call that runs
	relist  chan struct{} // the tools have changed; it has room for one
	off     string        // why the server is not used at all; empty: it is
	publish func()        // says that the tools or the state have changed

	settled chan struct{} // closed after the first attempt to connect
	settle  sync.Once
	cancel  context.CancelFunc
	done    chan struct{} // closed when the server has stopped

	relists telling // of lists that it has given anew; only the goroutine of the connection has it

	looking sync.Mutex   // guards what follows, and is taken before mu
	defs    []definition // that the server gave last
	more    bool         // it has more
	told    telling      // of changes of its tools

	mu      sync.Mutex
	state   State
	since   time.Time
	lastErr error
	session *session      // nil while there is no connection
	moved   chan struct{} // closed at the next change of the session
	catalog catalog       // of the last connection
	listed  bool          // there was one
}

func newServer(s Spec, o *Options, m *metrics, publish func()) *server {
	srv := &server{
		spec: s, opts: o, metrics: m, publish: publish, breaker: breaker.New(breakAfter,
			backoff.Policy{Base: 15 * time.Second, Max: 5 * time.Minute}),
		slots: make(chan struct{}, cmp.Or(s.MaxCalls, o.MaxCalls)), relist: make(chan struct{}, 1),
		settled: make(chan struct{}), done: make(chan struct{}), moved: make(chan struct{}), state: Connecting,
		since: time.Now(),
	}
	switch {
	case s.Disabled:
		srv.off = "its entry says disabled"
	case !matchesAny(o.AllowedServers, s.Name):
		srv.off = "mcp.allowed_servers does not name it"
	case !matchesAny(o.AgentServers, s.Name):
		srv.off = "the agent's own list, agents[].mcp, does not name it"
	}
	if srv.off != "" {
		srv.state = Disabled
		srv.settle.Do(func() { close(srv.settled) })
	}
	return srv
}

// start lets the server run until stop, or until ctx ends.
func (s *server) start(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(ctx)
	go func() {
		defer close(s.done)
		if s.off == "" {
			s.supervise(ctx)
		}
	}()
}

// stop ends a server that was started, and waits until nothing of it is left.
func (s *server) stop() {
	s.cancel()
	<-s.done
}

// supervise keeps the server connected.
func (s *server) supervise(ctx context.Context) {
	again := backoff.Policy{Base: time.Second, Max: 5 * time.Minute}
	for failures := 0; ctx.Err() == nil; {
		s.to(Connecting, nil)
		began := time.Now()
		err := s.once(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > steady {
			failures = 0
		}
		failures++
		s.to(Failed, err)
		s.settle.Do(func() { close(s.settled) }) // whoever waits for the first attempt finds how it ended
		s.publish()
		wait := again.After(failures)
		s.opts.Log.Warn().Err(err).Str("server", s.spec.Name).Dur("again_in_ms",
			wait).Msg("an MCP server is not connected")
		if failures == 1 {
			s.note("mcp.lost", corebot.OutcomeError, map[string]any{"error": clip(err.Error(), 300)})
		}
		backoff.Sleep(ctx, wait)
	}
	s.settle.Do(func() { close(s.settled) })
	s.to(Stopped, nil)
}

// once connects and serves until the connection ends; it returns why.
func (s *server) once(ctx context.Context) error {
	session, err := s.open(ctx)
	s.metrics.connectEnded(s.spec.Name, err)
	if err != nil {
		return err
	}
	defer session.close()
	s.attach(session)
	defer s.attach(nil)
	s.publish()
	s.to(Connected, nil) // whoever sees that, or waits for the first attempt, finds the tools
	s.settle.Do(func() { close(s.settled) })
	s.opts.Log.Info().Str("server", s.spec.Name).Int("tools", len(s.names())).Str("left_out",
		s.problem()).Msg("an MCP server is connected")
	s.note("mcp.connect", corebot.OutcomeSuccess, map[string]any{"tools": len(s.names())})
	return s.serve(ctx, session)
}

// open connects and asks for the tools.
func (s *server) open(ctx context.Context) (*session, error) {
	limit := s.connectTime()
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the server was not ready within %v", limit))
	defer stop()
	session, err := connect(ctx, dialing{
		spec: s.spec, version: s.opts.Version, passEnv: s.opts.PassEnv, env: s.opts.Env, maxMessage: s.opts.MaxMessage,
		grace: s.opts.Grace,
		log:   s.opts.Log.With().Str("server", s.spec.Name).Logger(), redactor: s.opts.Redactor,
		changed: s.toolsChanged,
	})
	if err != nil {
		return nil, err
	}
	if err := s.refresh(ctx, session); err != nil {
		session.close()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	return session, nil
}

// refresh asks for the tools anew. The old ones stay if that fails.
func (s *server) refresh(ctx context.Context, session *session) error {
	defs, more, err := session.list(ctx, 4*maxTools)
	if err != nil {
		return err
	}
	s.looking.Lock()
	defer s.looking.Unlock()
	s.defs, s.more = defs, more
	return s.look(ctx)
}

// reconsider looks again at what the server said last, without asking it.
func (s *server) reconsider(ctx context.Context) error {
	s.looking.Lock()
	defer s.looking.Unlock()
	if !s.wasConnected() {
		return nil
	}
	return s.look(ctx)
}

// look makes the catalog of what the server said last. The lock looking is held: what is noted of the tools follows the
// order in which the server said it.
func (s *server) look(ctx context.Context) error {
	c, err := s.makeCatalog(ctx, s.defs, s.more)
	if err != nil {
		return err
	}
	s.mu.Lock()
	was := s.catalog
	s.catalog, s.listed = c, true
	s.mu.Unlock()
	s.sayChanged(slices.DeleteFunc(slices.Clone(c.changed), func(tool string) bool {
		return slices.Contains(was.changed, tool)
	}))
	s.metrics.tools.WithLabelValues(s.spec.Name).Set(float64(len(c.tools)))
	return nil
}

// toolsChanged notes that the list of tools must be asked for again. It does not block.
func (s *server) toolsChanged() {
	select {
	case s.relist <- struct{}{}:
	default:
	}
}

// serve watches a connection until it ends, and returns why.
func (s *server) serve(ctx context.Context, session *session) error {
	ping := time.NewTicker(s.opts.PingEvery)
	defer ping.Stop()
	missed, listedAt := 0, time.Now()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-session.life.Done():
			return context.Cause(session.life)
		case <-s.relist:
			backoff.Sleep(ctx, relistEvery-time.Since(listedAt))
			s.relisted(ctx, session)
			listedAt = time.Now()
		case <-ping.C:
			if err := s.ping(ctx, session); err == nil {
				missed = 0
			} else if missed++; missed >= pingsMissed {
				return fmt.Errorf("the server does not answer: %w", err)
			}
		}
	}
}

func (s *server) ping(ctx context.Context, session *session) error {
	ctx, stop := context.WithTimeout(ctx, s.opts.PingTime)
	defer stop()
	return session.ping(ctx)
}

// relisted takes the tools that the server has now.
func (s *server) relisted(ctx context.Context, session *session) {
	ctx, stop := context.WithTimeout(ctx, s.connectTime())
	defer stop()
	if err := s.refresh(ctx, session); err != nil {
		s.opts.Log.Warn().Err(err).Str("server",
			s.spec.Name).Msg("an MCP server said that its tools have changed, and did not give them; the old ones stay")
		return
	}
	s.publish()
	if s.relists.take(time.Now()) {
		s.opts.Log.Info().Str("server", s.spec.Name).Int("tools", len(s.names())).Str("left_out",
			s.problem()).Msg("the tools of an MCP server have changed")
	}
}

// attach says which connection there is now; nil: none.
func (s *server) attach(session *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = session
	close(s.moved)
	s.moved = make(chan struct{})
	up := 0.0
	if session != nil {
		up = 1
	}
	s.metrics.up.WithLabelValues(s.spec.Name).Set(up)
}

// to changes the state. An error stays known until the next connection.
func (s *server) to(state State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.since = state, time.Now()
	if err != nil || state == Connected {
		s.lastErr = err
	}
}

// connected is the connection, which is waited for a moment if there is none.
func (s *server) connected(ctx context.Context) (*session, error) {
	late := time.NewTimer(moment)
	defer late.Stop()
	for {
		s.mu.Lock()
		session, moved, state, why := s.session, s.moved, s.state, s.lastErr
		s.mu.Unlock()
		if session != nil && session.life.Err() == nil {
			return session, nil
		}
		select {
		case <-moved:
		case <-s.done:
			return nil, errors.New("the server was taken out of the configuration")
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late.C:
			if why == nil {
				why = errors.New("it has not answered yet")
			}
			// which may be of a call; this one was not made
			return nil, fmt.Errorf("the server is not connected (%s): %v", state, why)
		}
	}
}

func (s *server) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catalog.names
}

// offered are the tools of the last connection: they stay while the server is connected again, and say so when they are
// called.
func (s *server) offered() []tools.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catalog.tools
}

func (s *server) descriptions() []Description {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catalog.described
}

func (s *server) problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catalog.problem()
}

// wasConnected says whether the server has ever given its tools.
func (s *server) wasConnected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed
}

// failed says whether the server was tried in vain, also if it is just being tried again.
func (s *server) failed() bool {
	if !s.wasTried() {
		return false // for the first time
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off == "" && s.session == nil
}

// wasTried says whether the first attempt to connect has ended.
func (s *server) wasTried() bool {
	select {
	case <-s.settled:
		return true
	default:
		return false
	}
}

// status is how the server is doing.
func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Name: s.spec.Name, Transport: s.spec.Transport, State: s.state, Since: s.since,
		Tools: append([]string{}, s.catalog.names...), Unapproved: append([]string{}, s.catalog.unapproved...),
	}
	until, cause := s.breaker.Why()
	switch {
	case s.off != "":
		st.LastError = s.off
	case s.lastErr != nil:
		st.LastError = s.lastErr.Error()
	case s.state == Connected && cause != nil && s.breaker.State(time.Now()) == breaker.Open:
		st.State, st.LastError = Resting, fmt.Sprintf("no calls until %s: %v", until.UTC().Format(time.RFC3339), cause)
	default:
		st.LastError = s.catalog.problem()
	}
	st.LastError = clip(s.opts.Redactor.Text(redact.Visible(st.LastError)), 2_000)
	return st
}
