package storage

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// openTest opens the database of a directory with a running writer, until the test ends.
func openTest(t testing.TB, dir string) *DB {
	t.Helper()
	must(t, Seed(dir))
	db, err := Open(context.Background(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	runTest(t, db)
	return db
}

// runTest runs the writer of an open database until the test ends, or until stop is called.
func runTest(t testing.TB, db *DB) (stop func()) {
	t.Helper()
	stop = runWriter(db)
	t.Cleanup(func() {
		stop()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return stop
}

// runWriter runs the writer of an open database until stop is called.
func runWriter(db *DB) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = db.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testMessage(chat, id string) corebot.Message {
	return corebot.Message{
		ID: id, Direction: corebot.Inbound, Kind: corebot.KindPrompt, Key: testKey(chat),
		Sender: corebot.Principal{Channel: "test", ID: "someone"}, Parts: corebot.TextPart("text of " + id),
	}
}

func testKey(chat string) corebot.Key {
	return corebot.Key{Agent: corebot.DefaultAgent, Channel: "test", Chat: chat}
}

func publishTest(t testing.TB, db *DB, chat, id string) {
	t.Helper()
	r, err := NewQueue(db).Publish(context.Background(), []corebot.Message{testMessage(chat, id)}, corebot.Limits{})
	must(t, err)
	must(t, r[0].Err)
}

func claimTest(t testing.TB, db *DB) corebot.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ds, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute})
	must(t, err)
	return ds[0]
}

// besides is a connection of its own to a database. The connection waits for a commit that is under way.
func besides(path string) (*sql.DB, error) {
	return sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
}

// sideQuery runs one statement on a connection of its own and gives its rows, columns joined by "|".
func sideQuery(t testing.TB, path, query string, args ...any) (rows []string) {
	t.Helper()
	sideQueries(t, path, func(ask asker) { rows = ask(query, args...) })
	return rows
}

// asker is sideQuery on a connection that is open.
type asker func(query string, args ...any) []string

// sideQueries lends fn a connection of its own. Each connection first reads the whole schema, which takes two
// milliseconds: a test that asks many things asks them here.
func sideQueries(t testing.TB, path string, fn func(ask asker)) {
	t.Helper()
	if filepath.Ext(path) == "" {
		path = filepath.Join(path, FileName)
	}
	db, err := besides(path)
	must(t, err)
	defer db.Close() //nolint:errcheck // a test's own connection
	db.SetMaxOpenConns(1)
	fn(func(query string, args ...any) []string {
		t.Helper()
		return askRows(t, db, query, args...)
	})
}

func askRows(t testing.TB, db *sql.DB, query string, args ...any) []string {
	t.Helper()
	rows, err := db.Query(query, args...)
	must(t, err)
	defer rows.Close() //nolint:errcheck // rows.Err has the error
	columns, err := rows.Columns()
	must(t, err)
	var out []string
	for rows.Next() {
		row := make([]sql.NullString, len(columns))
		dest := make([]any, len(columns))
		for i := range row {
			dest[i] = &row[i]
		}
		must(t, rows.Scan(dest...))
		line := ""
		for i, c := range row {
			if i > 0 {
				line += "|"
			}
			line += c.String
		}
		out = append(out, line)
	}
	must(t, rows.Err())
	return out
}

// count is the number of rows of a table.
func count(t testing.TB, path, table string) int {
	t.Helper()
	n := 0
	if _, err := fmt.Sscan(sideQuery(t, path, "SELECT COUNT(*) FROM "+table)[0], &n); err != nil {
		t.Fatal(err)
	}
	return n
}
