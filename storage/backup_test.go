package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/swap"
)

func TestACopyBesideABusyWriterIsOfOneMomentAndSaysWhatItHas(t *testing.T) {
	db := openTest(t, t.TempDir())
	askTest(t, db, "asked") // its lane is leased no longer, and its event begins the audit
	must(t, NewMailbox(db).Post(t.Context(), outboundTest("a", "r")))
	stop, published := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				published <- n
				return
			default:
				publishTest(t, db, "chat-"+strconv.Itoa(n%3), strconv.Itoa(n))
			}
		}
	}()
	dir := t.TempDir()
	var before int64
	for i := range 5 {
		path := filepath.Join(dir, strconv.Itoa(i)+".db")
		has, err := db.Copy(t.Context(), path)
		must(t, err)
		c := has.Counts
		if c.Messages < max(before, 1) || c.Waiting != c.Messages || c.Approvals != 1 || c.Mailbox != 1 ||
			c.AuditEvents < 1 {
			t.Errorf("copy %d, after one of %d messages, has %+v", i, before, c)
		}
		if n := int64(count(t, path, "message_life")); n != c.Messages {
			t.Errorf("copy %d has %d messages, and says %d", i, n, c.Messages)
		}
		if int64(len(has.Lanes)) != c.Lanes || has.Lanes[0].Direction != "inbound" ||
			has.Audit.Event != c.AuditEvents || len(has.Audit.Hash) != 64 || has.Schema != SchemaVersion() ||
			len(has.Database) != 36 || time.Since(has.LastCommit) > time.Minute {
			t.Errorf("copy %d: %+v", i, has)
		}
		if left, err := filepath.Glob(path + "-*"); err != nil || len(left) > 0 {
			t.Errorf("beside copy %d are %v (%v)", i, left, err)
		}
		before = c.Messages
	}
	close(stop)
	if n := int64(<-published); n < before-1 {
		t.Errorf("%d messages were published, the last copy has %d", n, before)
	}
}

func TestTheLanesOfACopyAreThoseWithMessages(t *testing.T) {
	db := openTest(t, t.TempDir())
	publishTest(t, db, "busy", "first")
	publishTest(t, db, "busy", "second")
	publishTest(t, db, "idle", "third")
	d := claimTest(t, db)
	has, err := db.Copy(t.Context(), filepath.Join(t.TempDir(), "copy.db"))
	must(t, err)
	running := corebot.LaneHead{
		Direction: "inbound", Key: d.Message.Key.String(), Message: d.Message.ID, Depth: 2,
		Running: true,
	}
	waiting := corebot.LaneHead{Direction: "inbound", Key: testKey("idle").String(), Message: "third", Depth: 1}
	if fmt.Sprint(has.Lanes) != fmt.Sprint([]corebot.LaneHead{waiting, running}) || has.Counts.Running != 1 ||
		has.Counts.Waiting != 3 {
		t.Errorf("%+v", has)
	}
}

func TestACopyWithAProblemIsAnErrorThatNamesIt(t *testing.T) {
	for statement, says := range map[string]string{
		`UPDATE audit_events SET args = '{}' WHERE id = 1`: "audit",
		`UPDATE lanes SET depth = 7`:                       "says it has 7 messages",
	} {
		db := openTest(t, t.TempDir())
		askTest(t, db, "asked")
		sideQuery(t, db.path, statement)
		_, err := db.Copy(t.Context(), filepath.Join(t.TempDir(), "copy.db"))
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(corebot.HintOf(err), "db check") {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

func TestACopyNeverOverwritesAFile(t *testing.T) {
	db := openTest(t, t.TempDir())
	path := filepath.Join(t.TempDir(), "copy.db")
	must(t, os.WriteFile(path, []byte("mine"), 0o600))
	if _, err := db.Copy(t.Context(), path); !errors.Is(err, os.ErrExist) {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the file is %q (%v)", b, err)
	}
}

// A check of a large file takes a minute. A stop of Corebot does not wait for it.
func TestACheckOfTheWholeFileEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	wholeDatabase(t, dir)
	db, err := OpenReader(t.Context(), dir)
	must(t, err)
	defer db.Close() //nolint:errcheck // only read
	endless := &query{`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n`}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errors.New("it was told to stop"))
	defer cancel()
	err = db.reader.whole(ctx, endless, func(scanner) error { return nil })
	if err == nil || err.Error() != "it was told to stop" {
		t.Errorf("%v", err)
	}
	if problems, err := db.Problems(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("the connection is of no use any more: %v %v", problems, err)
	}
}

// backedUp is a directory and a copy of its database, with one approval and one reply in the mailbox.
func backedUp(t *testing.T) (dir, backup string) {
	t.Helper()
	dir, backup = t.TempDir(), filepath.Join(t.TempDir(), "backup.db")
	must(t, Seed(dir))
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	stop := runWriter(db)
	askTest(t, db, "before")
	must(t, NewMailbox(db).Post(t.Context(), outboundTest("a", "r1")))
	_, err = db.Copy(t.Context(), backup)
	must(t, err)
	stop()
	must(t, db.Close())
	return dir, backup
}

func TestNumbersGivenSinceTheCopyNeverMeanAnotherThing(t *testing.T) {
	dir, backup := backedUp(t)
	_, err := Restore(t.Context(), dir, backup, nil)
	must(t, err)
	db := openTest(t, dir)
	publishTest(t, db, "b", "after")
	d := claimTest(t, db)
	for d.Message.ID != "after" {
		d = claimTest(t, db)
	}
	a, err := askAgain(t, db, d)
	must(t, err)
	must(t, NewMailbox(db).Post(t.Context(), outboundTest("a", "r2")))
	mail, err := NewMailbox(db).After(t.Context(), testKey("a"), 1, 10)
	must(t, err)
	rule := sideQuery(t, dir, `SELECT seq FROM sqlite_sequence WHERE name = 'approval_rules'`)
	if a.ID <= jumpOfPeople || len(mail) != 1 || mail[0].Cursor <= jumpOfPrograms || d.Life <= jumpOfLives ||
		len(rule) != 1 || rule[0] != "10000" {
		t.Errorf("approval %d, cursors of the mailbox %+v, life %d, rules behind %v", a.ID, mail, d.Life, rule)
	}
	healthy(t, db)
}

func TestTheAuditSaysFromWhereADatabaseWasRestored(t *testing.T) {
	dir, backup := backedUp(t)
	r, err := Restore(t.Context(), dir, backup, nil)
	must(t, err)
	db := openTest(t, dir)
	events, err := NewAudit(db).List(t.Context(), corebot.AuditFilter{})
	must(t, err)
	if len(events) < 2 || events[0].Event != "db.restore" || events[0].Entry != corebot.EntryOperator ||
		!strings.Contains(events[0].Args, `"auditHead":"`+strconv.FormatInt(events[1].ID, 10)+":") {
		t.Errorf("the newest events are %+v", events)
	}
	if _, err := NewAudit(db).Verify(t.Context(), noting(r.Has.Audit)); err != nil || len(r.Problems) > 0 {
		t.Errorf("%v %v", err, r.Problems)
	}
}

func TestACopyOfAnOlderSchemaIsRestoredWithThisOne(t *testing.T) {
	dir := t.TempDir()
	r, err := Restore(t.Context(), dir, olderDatabase(t, 1), nil)
	must(t, err)
	if r.Has.Schema != SchemaVersion() || r.Aside != "" {
		t.Errorf("%+v", r)
	}
	_, err = OpenReader(t.Context(), dir)
	must(t, err)
}

// A restore must not fail for a mistake in the books: it is the way out of worse.
func TestACopyWithWrongBooksIsRestoredAndItsProblemsAreTold(t *testing.T) {
	dir, backup := backedUp(t)
	sideQuery(t, backup, `UPDATE lanes SET depth = 7`)
	r, err := Restore(t.Context(), dir, backup, nil)
	must(t, err)
	if len(r.Problems) == 0 || !strings.Contains(r.Problems[0], "says it has 7 messages") {
		t.Errorf("the problems are %q", r.Problems)
	}
}

func TestWhatIsBesideADatabaseTakesItsPlaceInTheSameSwap(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "data")
	must(t, os.Mkdir(dir, 0o700))
	wholeDatabase(t, dir)
	must(t, os.Mkdir(filepath.Join(home, "workspace"), 0o700))
	_, backup := backedUp(t)
	var in string
	beside := func(room string) ([]swap.Move, error) {
		in = room
		fresh := filepath.Join(filepath.Base(room), "workspace")
		err := errors.Join(os.Mkdir(filepath.Join(dir, fresh), 0o700),
			os.WriteFile(filepath.Join(dir, fresh, "new"), nil, 0o600))
		return []swap.Move{{Fresh: fresh, Place: "../workspace", Aside: "workspace"}}, err
	}
	r, err := Restore(t.Context(), dir, backup, beside)
	must(t, err)
	for _, path := range []string{
		filepath.Join(home, "workspace", "new"), filepath.Join(r.Aside, "workspace"), filepath.Join(r.Aside, FileName),
	} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(in); err == nil {
		t.Error("the room stays")
	}
	before := everything(t, home)
	failed := errors.New("no")
	fails := func(string) ([]swap.Move, error) { return nil, failed }
	if _, err := Restore(t.Context(), dir, backup, fails); !errors.Is(err, failed) || everything(t, home) != before {
		t.Errorf("%v; changed: %v", err, everything(t, home) != before)
	}
}

// A kill between two moves is played by a note of moves that nobody has made. cmd/corebot kills the program there.
func TestARestoreThatWasCutShortIsRefusedToReadersAndEndedByTheNextOpen(t *testing.T) {
	dir, backup := backedUp(t)
	room := filepath.Join(dir, roomPrefix+"x")
	must(t, os.Mkdir(room, 0o700))
	replaceBy(t, filepath.Join(room, FileName), backup)
	must(t, os.WriteFile(filepath.Join(dir, "swap.json"), []byte(
		`[{"fresh":"new-database-x/corebot.db","place":"corebot.db","aside":"set-aside-x/corebot.db"},
		{"place":"database.json","aside":"set-aside-x/database.json"}]`), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "set-aside-x"), 0o700))
	if _, err := OpenReader(t.Context(), dir); err == nil || !strings.Contains(corebot.HintOf(err), "db migrate") {
		t.Errorf("a reader: %v", err)
	}
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	must(t, db.Close())
	if _, err := os.Stat(filepath.Join(dir, "set-aside-x", FileName)); err != nil || swap.Pending(dir) {
		t.Errorf("%v, pending %v", err, swap.Pending(dir))
	}
	reader, err := OpenReader(t.Context(), dir)
	must(t, err)
	must(t, reader.Close())
}

func TestRoomsOfKilledRestoresAreRemoved(t *testing.T) {
	dir, backup := backedUp(t)
	left := filepath.Join(dir, roomPrefix+"left")
	must(t, os.Mkdir(left, 0o700))
	_, err := Restore(t.Context(), dir, backup, nil)
	must(t, err)
	if rooms, err := filepath.Glob(filepath.Join(dir, roomPrefix+"*")); err != nil || len(rooms) > 0 {
		t.Errorf("%v %v", rooms, err)
	}
}

func TestTheNewestBackupIsNamedWhateverItsKind(t *testing.T) {
	dir, _ := usedHome(t)
	whole := filepath.Join(dir, backupsName, "corebot-x")
	must(t, os.Mkdir(whole, 0o700))
	if got := newestBackup(dir); !strings.HasSuffix(got, "before-schema-2-y.db") {
		t.Errorf("a directory without a manifest counts: %s", got)
	}
	must(t, os.WriteFile(filepath.Join(whole, "manifest.json"), []byte("{"), 0o600))
	if got := newestBackup(dir); got != whole {
		t.Errorf("%s", got)
	}
}
