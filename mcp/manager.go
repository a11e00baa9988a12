package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/tools"
)

// Registry is where the tools of the servers are put: all of them at once, in the place of those that were put there
// before.
type Registry interface {
	Replace(guests ...tools.Tool) error
}

// Manager runs the servers of a file and keeps their tools in a registry.
type Manager struct {
	path     string
	registry Registry
	opts     Options
	metrics  *metrics

	reading sync.Mutex // one reading of the file at a time

	mu       sync.Mutex
	life     context.Context // of the servers; nil until Run
	slots    map[string]*slot
	held     map[*server]int // by how many turns
	leaving  []*server       // that left, and are held by a turn that runs
	stopping sync.WaitGroup
	seen     stamp // of the file that was read last, good or bad
	fileErr  error
	settleBy time.Time // until then a turn waits for servers that were just started
}

// slot is a name of the file: the server whose tools are in use, and one that is to take its place once it is
// connected.
type slot struct {
	active *server
	next   *server // nil: none
}

// New reads the file and starts nothing. A file that is wrong is no error: it is said in the log and in
// [Manager.Overview], and is read again when it has changed.
func New(path string, r Registry, o Options) (*Manager, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Redactor == nil {
		var err error
		if o.Redactor, err = redact.New(nil); err != nil {
			return nil, err
		}
	}
	metrics, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		path: path, registry: r, opts: o, metrics: metrics, slots: map[string]*slot{},
		held: map[*server]int{},
	}
	_ = m.read(false)                   // it has said what is wrong
	m.settleBy = time.Now().Add(moment) // Run comes soon
	return m, nil
}

// Run keeps the servers connected until ctx ends, and then ends them all and whatever they started.
func (m *Manager) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	m.mu.Lock()
	m.life, m.settleBy = life, time.Now().Add(moment)
	for _, s := range m.slots {
		s.active.start(life)
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.reading.Lock() // nothing is started any more
	defer m.reading.Unlock()
	end()
	m.mu.Lock()
	all := append(slices.Clone(m.leaving), m.started()...)
	m.mu.Unlock()
	for _, s := range all {
		<-s.done
	}
	m.stopping.Wait()
	return nil
}

// Begin looks whether the file has changed, waits a moment for servers that were just started, and calls take while no
// tool can change. It hands over whether a tool is of a server that has not been tried yet. The servers whose tools
// there are then stay until end is called, whatever becomes of the file.
func (m *Manager) Begin(ctx context.Context, take func(late func(tool string) bool)) (end func()) {
	m.notice()
	m.settled(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	take(m.late())
	var mine []*server
	for _, s := range m.slots {
		m.held[s.active]++
		mine = append(mine, s.active)
	}
	return sync.OnceFunc(func() { m.release(mine) })
}

func (m *Manager) release(servers []*server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range servers {
		if m.held[s]--; m.held[s] > 0 {
			continue
		}
		delete(m.held, s)
		if i := slices.Index(m.leaving, s); i >= 0 {
			m.leaving = slices.Delete(m.leaving, i, i+1)
			m.stopSoon(s)
		}
	}
}

// settled waits until every server has been tried once, but not beyond the moment that they are given.
func (m *Manager) settled(ctx context.Context) {
	m.mu.Lock()
	ctx, stop := context.WithDeadline(ctx, m.settleBy)
	waiting := m.started()
	m.mu.Unlock()
	defer stop()
	awaitSettled(ctx, waiting)
}

// late says of a tool whether its server has not been tried at this moment: what the server offers is not known. The
// lock is held.
func (m *Manager) late() func(tool string) bool {
	var late []string
	for name, s := range m.slots {
		if !s.active.wasTried() {
			late = append(late, toolPrefix(name))
		}
	}
	return func(tool string) bool {
		return slices.ContainsFunc(late, func(prefix string) bool { return strings.HasPrefix(tool, prefix) })
	}
}

// Lacking tells a model what stands between it and a tool that is not there: the state of the tool's server. It says
// nothing of a tool of no server, and nothing that only the operator is to read, such as the server's error.
func (m *Manager) Lacking(tool string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, s := range m.slots {
		if !strings.HasPrefix(tool, toolPrefix(name)) {
			continue
		}
		switch state := s.active.status().State; state {
		case Connected, Resting:
			return fmt.Sprintf("the MCP server %s is connected and offers no such tool", name)
		case Disabled, Stopped:
			return fmt.Sprintf("the MCP server %s is %s", name, state)
		default:
			return fmt.Sprintf("the MCP server %s is not connected (%s); Corebot goes on trying, and a later turn has "+
				"its tools once it is. An operator can see why with `corebot mcp list`", name, state)
		}
	}
	return ""
}

// awaitSettled waits until each of the servers has been tried once, or ctx ends.
func awaitSettled(ctx context.Context, servers []*server) {
	for _, s := range servers {
		select {
		case <-s.settled:
		case <-ctx.Done():
			return
		}
	}
}

// started are the servers that run. The lock is held.
func (m *Manager) started() []*server {
	var all []*server
	for _, s := range m.slots {
		all = append(all, s.active)
		if s.next != nil {
			all = append(all, s.next)
		}
	}
	return all
}

// maxLeaving is how many servers that left stay for turns that hold them; beyond, the one that left first is stopped
// all the same.
const maxLeaving = 16

// leave ends a server, now or once no turn holds it. The lock is held.
func (m *Manager) leave(s *server) {
	if m.held[s] == 0 {
		m.stopSoon(s)
		return
	}
	m.leaving = append(m.leaving, s)
	if len(m.leaving) > maxLeaving {
		m.stopSoon(m.leaving[0])
		m.leaving = slices.Delete(m.leaving, 0, 1)
	}
}

// stopSoon stops a server that was started, without waiting for it.
func (m *Manager) stopSoon(s *server) {
	if s.cancel != nil {
		m.stopping.Go(s.stop)
	}
}

// publish puts the tools that there are now into the registry. A server that has just connected takes the place of the
// one before it.
func (m *Manager) publish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []tools.Tool
	for _, name := range slices.Sorted(maps.Keys(m.slots)) {
		s := m.slots[name]
		if s.next != nil && s.next.wasConnected() {
			m.leave(s.active)
			s.active, s.next = s.next, nil
		}
		all = append(all, s.active.offered()...)
	}
	if err := m.registry.Replace(all...); err != nil {
		m.opts.Log.Error().Err(err).Msg("the tools of the MCP servers were not taken; the old ones stay")
	}
}

// Overview is how the servers are doing.
func (m *Manager) Overview() Overview {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := Overview{Servers: []Status{}}
	for _, name := range slices.Sorted(maps.Keys(m.slots)) {
		s := m.slots[name]
		st := s.active.status()
		if s.next != nil { // its tools are not there yet
			now := s.next.status()
			now.Tools, now.Unapproved = st.Tools, st.Unapproved
			st = now
		}
		o.Servers = append(o.Servers, st)
	}
	if m.fileErr != nil {
		o.FileError, o.Hint = m.fileErr.Error(), corebot.HintOf(m.fileErr)
	}
	return o
}

// Describe gives what a server says of its tools now, those that wait for an approval included. A server that the file
// does not list is [corebot.ErrNotFound].
func (m *Manager) Describe(server string) ([]Description, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slots[server]
	if s == nil {
		return nil, fmt.Errorf("the MCP server %q: %w", server, corebot.ErrNotFound)
	}
	return s.active.descriptions(), nil
}

// Reconsider looks again at what a server, or every server if the name is empty, said last of its tools, after an
// approval. The servers are not asked: what nobody has seen yet is not approved. The turns that begin after it have
// what was approved.
func (m *Manager) Reconsider(ctx context.Context, name string) error {
	m.mu.Lock()
	var all []*server
	for of, s := range m.slots {
		if name == "" || name == of {
			all = append(all, s.active)
		}
	}
	m.mu.Unlock()
	var err error
	for _, s := range all {
		err = errors.Join(err, s.reconsider(ctx))
	}
	m.publish()
	return err
}

// reloadTime is how long Reload waits for servers that it has started.
const reloadTime = 10 * time.Second

// Reload reads the file again, also if it has not changed, and waits a while for new servers. A server that was tried
// in vain and waits is tried again at once. A file that is wrong changes nothing, and is the error.
func (m *Manager) Reload(ctx context.Context) (Overview, error) {
	err := m.read(true)
	ctx, stop := context.WithTimeout(ctx, reloadTime)
	defer stop()
	m.mu.Lock()
	waiting, runs := m.started(), m.life != nil
	m.mu.Unlock()
	if runs {
		awaitSettled(ctx, waiting)
	}
	return m.Overview(), err
}

// Check reads a file and connects to each of its servers once, beside whatever runs. It changes nothing: what is known
// of tools is only looked at. The error is that of the file.
func Check(ctx context.Context, path string, o Options) (Overview, error) {
	o.Metrics, o.Trail = nil, nil
	if o.Pins != nil {
		o.Pins = onlooker{o.Pins}
	}
	m, err := New(path, nowhere{}, o)
	if err != nil {
		return Overview{}, err
	}
	if m.fileErr != nil {
		return m.Overview(), m.fileErr
	}
	running, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.Run(running) // which has no error
	}()
	m.mu.Lock()
	waiting := m.started()
	m.mu.Unlock()
	awaitSettled(ctx, waiting)
	found := m.Overview()
	end()
	<-ended
	return found, nil
}

// nowhere is a registry for nobody.
type nowhere struct{}

func (nowhere) Replace(...tools.Tool) error { return nil }
