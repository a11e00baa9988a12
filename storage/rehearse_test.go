package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// rootOf is the number of the first page of a table or an index.
func rootOf(t *testing.T, dir, name string) int64 {
	t.Helper()
	rows := sideQuery(t, dir, `SELECT rootpage FROM sqlite_schema WHERE name = ?`, name)
	if len(rows) != 1 {
		t.Fatalf("there is no %s", name)
	}
	n, err := strconv.ParseInt(rows[0], 10, 64)
	must(t, err)
	return n
}

// spoilPage writes over a page of a database file, and gives how to put it back.
func spoilPage(t *testing.T, dir string, page int64) (repair func()) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, FileName), os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	const size = 4096
	before := make([]byte, size)
	_, err = f.ReadAt(before, (page-1)*size)
	must(t, err)
	write := func(b []byte) {
		_, err := f.WriteAt(b, (page-1)*size)
		must(t, err)
	}
	write([]byte(strings.Repeat("\xa5", size)))
	return func() { write(before) }
}

// Damage on the way of the next message makes the store not ready, even while nobody sends a message. A repair makes
// the store ready again.
func TestReadySaysWhichWayOfAMessageIsDamaged(t *testing.T) {
	for name, says := range map[string]string{
		"message_queue": "cannot accept a message", "message_life": "cannot accept a message",
		"message_life_key": "cannot accept a message", "execution_steps": "cannot journal a turn",
		"chats": "cannot", "chats_key": "cannot", "history": "cannot keep the history",
		"waits_open": "cannot end what a turn waits for",
		"usage_days": "cannot book what was used",
		"mailbox":    "cannot deliver a reply", "mailbox_chat": "cannot deliver a reply",
		"grants": "cannot read the roles",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := seeded(t)
				earlier(t, dir, func(db *DB) { usedTest(t, db, "a", "1") })
				repair := spoilPage(t, dir, rootOf(t, dir, name))
				db, err := Open(t.Context(), dir, Options{})
				must(t, err)
				runTest(t, db)
				for range 3 {
					if err := db.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
						t.Fatalf("it says %v, want %q", err, says)
					}
					time.Sleep(rehearseEvery)
				}
				repair()
				if err := db.Ready(t.Context()); err != nil {
					t.Errorf("after the repair: %v", err)
				}
				usedTest(t, db, "a", "2")
				wantWhole(t, db)
			})
		})
	}
}

// If one of these tables is damaged while Corebot runs, the error names the table and the command that repairs it. A
// repair makes the store ready again.
func TestReadyNamesTheDamagedTableThatAllChatsNeed(t *testing.T) {
	for _, name := range []string{"lanes", "totals", "store"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := seeded(t)
				earlier(t, dir, func(db *DB) { usedTest(t, db, "a", "1") })
				db, err := Open(t.Context(), dir, Options{})
				must(t, err)
				runTest(t, db)
				must(t, db.Ready(t.Context()))
				must(t, db.SharedDamage(t.Context()))
				time.Sleep(rehearseEvery)
				repair := spoilPage(t, dir, rootOf(t, dir, name))
				// they are in the cache
				must(t, db.betweenTransactions(t.Context(), func(w *writer) { w.forgetPages() }))
				err = db.Ready(t.Context())
				if err == nil || !strings.Contains(err.Error(), "damaged, and all chats need it: the table "+name) ||
					!strings.Contains(corebot.HintOf(err), "corebot db restore") {
					t.Errorf("it says %v (%s)", err, corebot.HintOf(err))
				}
				repair()
				time.Sleep(rehearseEvery)
				if err := errors.Join(db.Ready(t.Context()), db.SharedDamage(t.Context())); err != nil {
					t.Errorf("after the repair: %v", err)
				}
				usedTest(t, db, "a", "2")
				wantWhole(t, db)
			})
		})
	}
}

// A page that only one chat needs stops nobody else.
func TestReadyIsNotAboutOneChat(t *testing.T) {
	dir := seeded(t)
	earlier(t, dir, func(db *DB) {
		m := testMessage("a", "1")
		m.Parts[0].Text = strings.Repeat("long ", 8<<10)
		_, err := offer(db, m)
		must(t, err)
	})
	pages := sideQuery(t, dir,
		`SELECT pageno FROM dbstat WHERE name = 'message_queue' AND pagetype = 'overflow' LIMIT 1`)
	page, err := strconv.ParseInt(pages[0], 10, 64)
	must(t, err)
	spoilPage(t, dir, page)
	db := openTest(t, dir)
	must(t, db.Ready(t.Context()))
}

func TestARehearsalLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		usedTest(t, db, "a", "1")
		state := func() string {
			return fmt.Sprint(sideQuery(t, dir, `SELECT batch, last_life FROM store`),
				rowsOf(t, dir, "lanes", "message_life", "chats", "history",
					"mailbox", "audit_events", "usage_days", "execution_steps", "message_queue"))
		}
		before := state()
		for range 3 {
			must(t, db.Ready(t.Context()))
			time.Sleep(rehearseEvery)
		}
		if after := state(); after != before {
			t.Errorf("the store has %s, and had %s", after, before)
		}
		usedTest(t, db, "a", "2")
		wantWhole(t, db)
	})
}

// An operation that fails again and again is a reason of its own, until one succeeds or nobody has tried for a while.
func TestReadyCountsOperationsThatFailInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		broken := ""
		db.conn.trouble = func(sql string, after bool) error {
			if !after && broken != "" && strings.Contains(sql, broken) {
				return fakeDamage{}
			}
			return nil
		}
		fails := func(n int) {
			broken = "UPDATE chats SET registered"
			for range n {
				if err := NewChats(db).Register(t.Context(), testKey("a"), true, ""); err == nil {
					t.Fatal("it did not fail")
				}
			}
			broken = ""
		}
		fails(faultTimes - 1)
		must(t, db.Ready(t.Context()))
		fails(1)
		if err := db.Ready(t.Context()); err == nil || !strings.Contains(err.Error(),
			`"register" of the store has failed 3 times`) {
			t.Errorf("it says %v", err)
		}
		must(t, NewChats(db).Register(t.Context(), testKey("b"), true, ""))
		must(t, db.Ready(t.Context()))
		fails(faultTimes)
		time.Sleep(faultTime)
		must(t, db.Ready(t.Context()))
	})
}

// fakeDamage is what SQLite says of a damaged page.
type fakeDamage struct{}

func (fakeDamage) Error() string { return "database disk image is malformed" }
func (fakeDamage) Code() int     { return 11 }
