package main

import (
	"bytes"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/storage"
)

// meter counts lines, and now and then how much the process has in memory.
type meter struct {
	lines, sampled int
	most           uint64
}

func (m *meter) Write(p []byte) (int, error) {
	m.lines += bytes.Count(p, []byte{'\n'})
	if m.lines >= m.sampled+500 {
		m.sampled, m.most = m.lines, max(m.most, inMemory())
	}
	return len(p), nil
}

func inMemory() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func TestALongListIsNeverInMemoryAsAWhole(t *testing.T) {
	const rows, bytesEach, bound = 2_500, 4_000, 14 << 20 // 10 MB in all, and more than twice that in memory
	home := t.TempDir()
	if err := app.WithStore(t.Context(), home, func(*storage.DB) error { return nil }); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(app.DataDir(home), storage.FileName))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO audit_events (hash, at, event, tool, agent, channel, account, chat, thread, sender, role, entry,
			outcome, rule, args, duration_ms, step_id)
		SELECT zeroblob(32), i, 'tool.result', 'fs.read', 'main', 'cli', 'local', 'main', '', '7', 'admin', 'direct',
			'success', '', ?, 1, '' FROM n`,
		rows, `{"path":"`+string(bytes.Repeat([]byte{'x'}, bytesEach))+`"}`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"JSON": {"--json"}, "table": nil} {
		t.Run(name, func(t *testing.T) {
			m := &meter{}
			before := inMemory()
			cmd := newAudit(&shell{home: home})
			cmd.SetOut(m)
			cmd.SetArgs(append(args, "--limit", "1000000"))
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if m.lines < rows || m.most == 0 || m.most > before+bound {
				t.Errorf("%d lines with %d bytes in memory, before %d", m.lines, m.most, before)
			}
		})
	}
}
