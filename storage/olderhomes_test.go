package storage

import (
	"compress/gzip"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/corebot/corebot"
)

// olderHomes put databases into place that earlier builds left behind when they were killed at work, by the commits of
// the builds.
//
//   - a265abd has schema 15. The tests of the router tell what is in it.
//   - 1a7f9ce has schema 59. A program of a turn is at work, with a message behind it. A call waits for an approval,
//     and an answer for a time. There are two dead letters, a task, and replies in a mailbox and on their way. There
//     are also a remembered line, a changed file and a role.
var olderHomes = map[string]func(t *testing.T, path string){
	"a265abd": func(t *testing.T, path string) {
		text, err := os.ReadFile(filepath.Join("..", "router", "testdata", "a265abd.sql"))
		must(t, err)
		db, err := sql.Open("sqlite", path)
		must(t, err)
		defer db.Close() //nolint:errcheck // what was not written fails the test
		// every build has a write-ahead log
		_, err = db.Exec(string(text) + "; PRAGMA journal_mode = WAL")
		must(t, err)
	},
	"1a7f9ce": func(t *testing.T, path string) {
		packed, err := os.Open(filepath.Join("testdata", "1a7f9ce.db.gz"))
		must(t, err)
		defer packed.Close() //nolint:errcheck // only read
		content, err := gzip.NewReader(packed)
		must(t, err)
		bytes, err := io.ReadAll(content)
		must(t, err)
		must(t, os.WriteFile(path, bytes, 0o600))
	},
}

// keeps reads of each table what a migration must not change.
var keeps = map[string]string{
	"message_life":    `SELECT id, message_id, end, reason FROM message_life ORDER BY id`,
	"message_queue":   `SELECT life_id, seq, hex(body) FROM message_queue ORDER BY life_id`,
	"execution_steps": `SELECT life_id, run, position, kind, state FROM execution_steps ORDER BY life_id, position`,
	"history":         `SELECT id, message_id FROM history ORDER BY id`,
	"approvals":       `SELECT id, life_id, position FROM approvals ORDER BY id`,
	"audit_events":    `SELECT id, event, tool, hex(hash) FROM audit_events ORDER BY id`,
	"waits":           `SELECT id, life_id, kind, state, due_at FROM waits ORDER BY id`,
	"tasks":           `SELECT id, prompt, state, next_run FROM tasks ORDER BY id`,
	"mailbox":         `SELECT cursor, message_id FROM mailbox ORDER BY cursor`,
	"grants":          `SELECT account, sender, role FROM grants`,
	"memory_sources":  `SELECT chat_id, notes FROM memory_sources`,
	"file_versions":   `SELECT id, path, hex(before) FROM file_versions`,
	"chats":           `SELECT id, chat FROM chats ORDER BY id`,
}

// keptOf reads what must stay, of the tables that a database has.
func keptOf(t *testing.T, path string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for table, query := range keeps {
		if len(sideQuery(t, path, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name = ?`, table)) > 0 {
			all[table] = sideQuery(t, path, query)
		}
	}
	return all
}

// TestAHomeThatAnEarlierBuildLeftIsMigratedWhereverThatIsCutShort migrates each, and cuts that short at many moments:
// the next start ends it. Nothing is missing then, the books are right, and the audit is unbroken.
func TestAHomeThatAnEarlierBuildLeftIsMigratedWhereverThatIsCutShort(t *testing.T) {
	for commit, put := range olderHomes {
		t.Run(commit, func(t *testing.T) {
			dir := inMemory(t)
			path := filepath.Join(dir, FileName)
			put(t, path)
			want := keptOf(t, path)
			for table := range keeps {
				if commit == "1a7f9ce" && len(want[table]) == 0 {
					t.Errorf("the home has nothing in %s", table)
				}
			}
			if len(want["execution_steps"]) == 0 || len(want["message_queue"]) == 0 || len(want["approvals"]) == 0 {
				t.Fatalf("nothing was at work in the home: %v", want)
			}
			cutShort(t, recordMigration(t, dir), *migrationKills/4, func(dir string) {
				got := keptOf(t, filepath.Join(dir, FileName))
				for table, rows := range want {
					if table == "audit_events" { // a start adds to the trail
						got[table] = got[table][:min(len(rows), len(got[table]))]
					}
					if !slices.Equal(got[table], rows) {
						t.Fatalf("%s has\n%q\nand had\n%q", table, got[table], rows)
					}
				}
				db, err := OpenReader(t.Context(), dir)
				must(t, err)
				if _, err := NewAudit(db).Verify(t.Context(), corebot.AuditProof{}); err != nil {
					t.Errorf("the audit: %v", err)
				}
			})
		})
	}
}
