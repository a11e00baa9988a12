package mcp

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/corebot/corebot"
)

// stamp tells one state of a file from another, without reading it.
type stamp struct {
	there    bool
	inode    uint64
	size     int64
	modified time.Time
	mode     fs.FileMode
	owner    uint32
	failed   bool // it could not be looked at
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{failed: !errors.Is(err, fs.ErrNotExist)}
	}
	s := stamp{there: true, size: info.Size(), modified: info.ModTime(), mode: info.Mode()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.owner = sys.Ino, sys.Uid
	}
	return s
}

// notice reads the file again if it has changed. To look costs a microsecond, so that every turn may.
func (m *Manager) notice() {
	m.mu.Lock()
	same := m.seen == stampOf(m.path)
	m.mu.Unlock()
	if !same {
		_ = m.read(false) // it has said what is wrong
	}
}

// read reads the file and brings the servers in line with it. A file that is wrong changes nothing but what is said of it. With again, servers that
// are not connected are begun anew.
func (m *Manager) read(again bool) error {
	m.reading.Lock()
	defer m.reading.Unlock()
	seen := stampOf(m.path)
	f, err := ReadFile(m.path, m.opts.Env)
	if err == nil {
		err = m.opts.Redactor.Learn(f.Secrets())
	}
	m.metrics.reloaded(err)
	m.mu.Lock()
	m.seen, m.fileErr = seen, err
	if err == nil {
		m.adopt(f.Servers, again)
	}
	trail := m.opts.Trail
	if m.life == nil { // nothing runs yet, nor does the store
		trail = nil
	}
	m.mu.Unlock()
	if err != nil {
		m.opts.Log.Error().Err(err).Str("hint", corebot.HintOf(err)).Msg("the file of MCP servers is wrong: what was there before stays")
		note(trail, m.opts.Log, "mcp.reload", corebot.OutcomeError, map[string]any{"error": clip(err.Error(), 300)})
		return err
	}
	m.publish()
	m.opts.Log.Info().Int("servers", len(f.Servers)).Msg("the file of MCP servers was read")
	note(trail, m.opts.Log, "mcp.reload", corebot.OutcomeSuccess, map[string]any{"servers": len(f.Servers)})
	return nil
}

// adopt brings the servers in line with entries. Unchanged ones stay as they are; a changed one is started beside the old, which goes once the
// new one is connected; those that are not there any more go. The lock is held.
func (m *Manager) adopt(specs []Spec, again bool) {
	named := map[string]bool{}
	for _, spec := range specs {
		named[spec.Name] = true
		m.place(spec, again)
	}
	for name, s := range m.slots {
		if named[name] {
			continue
		}
		delete(m.slots, name)
		m.leave(s.active)
		if s.next != nil {
			m.leave(s.next)
		}
		m.metrics.forget(name)
	}
}

func (m *Manager) place(spec Spec, again bool) {
	s := m.slots[spec.Name]
	switch {
	case s == nil:
		m.slots[spec.Name] = &slot{active: m.begin(spec)}
		return
	case s.next != nil && s.next.spec.same(spec) && !(again && s.next.failed()):
		return
	}
	if s.next != nil {
		m.leave(s.next)
		s.next = nil
	}
	switch {
	case s.active.spec.same(spec) && !(again && s.active.failed()):
	case spec.Disabled || !s.active.wasConnected(): // there is nothing to keep
		m.leave(s.active)
		s.active = m.begin(spec)
	default:
		s.next = m.begin(spec)
	}
}

// begin makes a server and, while servers run, starts it.
func (m *Manager) begin(spec Spec) *server {
	s := newServer(spec, &m.opts, m.metrics, m.publish)
	m.metrics.show(spec.Name)
	if m.life != nil {
		s.start(m.life)
		m.settleBy = time.Now().Add(moment)
	}
	return s
}
