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
	"github.com/corebot/corebot/internal/long"
)

// olderHomes put databases into place that earlier builds left behind when they were killed at work, by the commits of
// the builds. A program of a turn is at work in all of them but the first, with a message behind it.
//
//   - a265abd has schema 15. The tests of the router tell what is in it.
//   - eaf3614 has schema 28, of before tasks and notices in data.
//   - 0b7b7f6 has schema 47 and lacks seven migrations before it. There is a summary, a task, a message over a budget,
//     a tool of an MCP server, an approval of each state.
//   - 1a7f9ce has schema 59. A call waits for an approval, and an answer for a time. There are two dead letters, a
//     task, and replies in a mailbox and on their way. There are also a remembered line, a changed file and a role.
//   - 4d992fc has schema 71. It also has a sender with a code, a rule, and a cursor of a network. An answer waits for a
//     child turn, another child turn works in the background, and a message came before its time.
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
	"eaf3614": unpacked("eaf3614"),
	"0b7b7f6": unpacked("0b7b7f6"),
	"1a7f9ce": unpacked("1a7f9ce"),
	"4d992fc": unpacked("4d992fc"),
}

// has are tables in which a home must have rows, so that a fixture that lost them fails.
var has = map[string][]string{
	"0b7b7f6": {"summaries", "tasks", "message_parked", "mcp_tools", "approvals", "usage_days", "grants", "mailbox"},
	"1a7f9ce": {"waits", "tasks", "mailbox", "grants", "memory_sources", "file_versions"},
	"4d992fc": {
		"pairings", "approval_rules", "jobs", "waits", "message_parked", "mcp_tools", "mcp_servers", "summaries",
		"tasks", "channel_cursors", "usage_days", "memory_sources", "file_versions", "file_charges", "totals",
		"mailbox",
	},
}

// unpacked puts a database in place that is packed in testdata.
func unpacked(commit string) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		packed, err := os.Open(filepath.Join("testdata", commit+".db.gz"))
		must(t, err)
		defer packed.Close() //nolint:errcheck // only read
		content, err := gzip.NewReader(packed)
		must(t, err)
		bytes, err := io.ReadAll(content)
		must(t, err)
		must(t, os.WriteFile(path, bytes, 0o600))
	}
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
	"pairings":        `SELECT code, sender, state FROM pairings`,
	"approval_rules":  `SELECT * FROM approval_rules`,
	"jobs":            `SELECT id, life_id, kind, state FROM jobs ORDER BY id`,
	"message_parked":  `SELECT life_id, hex(body) FROM message_parked ORDER BY life_id`,
	"mcp_tools":       `SELECT server, tool, seen FROM mcp_tools ORDER BY server, tool`,
	"mcp_servers":     `SELECT name, listed_at FROM mcp_servers`,
	"summaries":       `SELECT chat_id, session, through, text FROM summaries`,
	"channel_cursors": `SELECT * FROM channel_cursors`,
	"usage_days":      `SELECT day, model, input, output FROM usage_days`,
	"file_charges":    `SELECT * FROM file_charges`,
}

// keptOf reads what must stay, of the tables that a database has.
func keptOf(t *testing.T, path string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	sideQueries(t, path, func(ask asker) {
		for table, query := range keeps {
			if len(ask(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name = ?`, table)) > 0 {
				all[table] = ask(query)
			}
		}
	})
	return all
}

// TestAHomeThatAnEarlierBuildLeftIsMigratedWhereverThatIsCutShort migrates each, and cuts that short at many moments:
// the next start ends it. Nothing is missing then, the books are right, and the audit is unbroken.
func TestAHomeThatAnEarlierBuildLeftIsMigratedWhereverThatIsCutShort(t *testing.T) {
	for commit, put := range olderHomes {
		if long.Or(commit != "4d992fc", false) {
			continue // TestNoMigrationLosesARowThatAnySchemaOfTheHistoryHad begins with other ones
		}
		t.Run(commit, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, FileName)
			put(t, path)
			want := keptOf(t, path)
			for _, table := range has[commit] {
				if count(t, path, table) == 0 {
					t.Errorf("the home has nothing in %s", table)
				}
			}
			if len(want["execution_steps"]) == 0 || len(want["message_queue"]) == 0 {
				t.Fatalf("nothing was at work in the home: %v", want)
			}
			cutShort(t, recordMigration(t, dir), max(1, migrationKills()/4), func(dir string) {
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
