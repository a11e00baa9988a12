package storage

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
	"github.com/corebot/corebot/internal/swap"
	"github.com/corebot/corebot/migrations"
)

// backupsName is the directory of the backups, beside the database.
const backupsName = "backups"

// newestBackup is the path of the newest backup, the file of a database or the directory of a whole home; empty: there
// is none.
func newestBackup(dir string) (newest string) {
	var latest time.Time
	for _, pattern := range backupPatterns {
		paths, err := filepath.Glob(filepath.Join(dir, backupsName, pattern))
		if err != nil {
			return ""
		}
		for _, path := range paths {
			info, err := os.Lstat(path)
			if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || !info.ModTime().After(latest) {
				continue
			}
			if latest, newest = info.ModTime(), path; filepath.Ext(path) != ".db" {
				newest = filepath.Dir(path)
			}
		}
	}
	return newest
}

// backupPatterns find the backups of data/backups: those before migrations, and those of `corebot db backup`.
var backupPatterns = []string{"*.db", "*/manifest.json"}

// makeBackup writes a copy of the database at path to a new file and checks the copy: SQLite's integrity check, and the
// same schema version as the original. The copy gets its name only when it is whole and on disk. makeBackup never
// overwrites a file.
func makeBackup(ctx context.Context, path, to string) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s: %w", to, os.ErrExist)
	}
	part := to + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIfThere(part))
		}
	}()
	if err := copyDatabase(ctx, path, part); err != nil {
		return err
	}
	if err := verify(ctx, path, part); err != nil {
		return fmt.Errorf("check the backup: %w", err)
	}
	return putInPlace(part, to)
}

// putInPlace gives a whole file its final name once the file is on disk. It replaces a file that had the name.
func putInPlace(part, to string) error {
	if err := syncFile(part); err != nil {
		return err
	}
	if err := os.Rename(part, to); err != nil {
		return err
	}
	return syncFile(filepath.Dir(to))
}

func copyDatabase(ctx context.Context, path, to string) (err error) {
	db, err := openReadOnly(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := makeFile(to); err != nil {
		return err
	}
	// VACUUM INTO reads one snapshot, even beside a running writer. Its result has neither WAL nor free pages.
	if _, err := db.ExecContext(ctx, `VACUUM INTO ?`, to); err != nil {
		return fmt.Errorf("copy the database: %w", classify(err))
	}
	return nil
}

func verify(ctx context.Context, path, backup string) (err error) {
	db, err := openReadOnly(backup)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var result string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&result); err != nil {
		return classify(err)
	}
	if result != "ok" {
		return errors.New(result)
	}
	want, err := schemaVersion(path, migrations.FS)
	if err != nil {
		return err
	}
	if got, err := schemaVersion(backup, migrations.FS); err != nil || got != want {
		return errors.Join(err, fmt.Errorf("it has schema %d, the original %d", got, want))
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Copy writes a copy of the database to a new file, checks the copy, and says what it has. The copy is of one moment,
// and on disk. Neither the writer nor a reader waits for it; see [CheckCopy] for the checks.
//
// Limits: the write-ahead log cannot be cut while the file is read. A copy with a problem is an error, and stays.
func (db *DB) Copy(ctx context.Context, to string) (corebot.Inventory, error) {
	if _, err := os.Lstat(to); err == nil {
		return corebot.Inventory{}, fmt.Errorf("%s: %w", to, os.ErrExist)
	}
	if err := copyDatabase(ctx, db.path, to); err != nil {
		return corebot.Inventory{}, err
	}
	if err := syncFile(to); err != nil {
		return corebot.Inventory{}, err
	}
	has, problems, err := CheckCopy(ctx, to)
	if err == nil && len(problems) > 0 {
		err = corebot.WithHint(fmt.Errorf("it has %d problems, the first is: %s", len(problems), problems[0]),
			"`corebot db check` says what is wrong with the database; no backup was made")
	}
	if err != nil {
		return has, fmt.Errorf("check the copy of the database: %w", err)
	}
	return has, nil
}

// Size is how many bytes a copy of the database takes.
func (db *DB) Size(ctx context.Context) (bytes int64, err error) {
	_, err = db.reader.one(ctx, usedPages, []any{&bytes})
	return bytes, err
}

var usedPages = &query{`SELECT (p.page_count - f.freelist_count) * s.page_size
	FROM pragma_page_count p, pragma_freelist_count f, pragma_page_size s`}

// Identity is the id of the database.
func (db *DB) Identity(ctx context.Context) (id string, err error) {
	_, err = db.reader.one(ctx, selectIdentity, []any{&id, new(int64)})
	return id, err
}

// NoteBackup writes into the audit that a backup was made, and where. A scheduled one was made by Corebot itself.
func (db *DB) NoteBackup(ctx context.Context, path string, has corebot.Inventory, scheduled bool) error {
	by := byOperator()
	if scheduled {
		by = corebot.AuditEvent{Entry: corebot.EntryItself}
	}
	return db.write(ctx, "backup.note", func(t *tx) error {
		return changeTx(t, by, "db.backup", homeItself, map[string]any{
			"path": path, "commit": has.Commits, "auditHead": has.Audit.String(),
		})
	})
}

// homeItself stands in the audit for what a change of the whole home is about.
var homeItself = corebot.Key{Channel: corebot.TerminalChannel, Account: corebot.TerminalAccount}

// CheckCopy checks a file that is a copy of a database, of this version's schema. It says what the copy has, and what
// is wrong with it. It runs SQLite's integrity check and the checks of [DB.Problems], and follows the audit trail from
// its beginning to its head.
func CheckCopy(ctx context.Context, path string) (has corebot.Inventory, problems []string, err error) {
	r, err := openReader(path, 1, nil)
	if err != nil {
		return has, nil, err
	}
	db := readOnly(path, r)
	defer func() { err = errors.Join(err, db.Close()) }()
	if problems, err = db.Problems(ctx); err != nil {
		return has, problems, err
	}
	chain, err := NewAudit(db).Verify(ctx, corebot.AuditProof{})
	if broken := (*corebot.BrokenChain)(nil); errors.As(err, &broken) {
		problems = append(problems, err.Error())
	} else if err != nil {
		return has, problems, err
	}
	has, err = db.inventory(ctx)
	has.Audit, has.Counts.AuditEvents = chain.Head, chain.Events
	return has, problems, err
}

var (
	storeRow = &query{`SELECT identity, batch, at, (SELECT MAX(version_id) FROM goose_db_version)
		FROM store WHERE id = 1`}
	allRows = &query{`SELECT (SELECT COUNT(*) FROM message_life),
		(SELECT COALESCE(SUM(depth), 0) FROM lanes WHERE direction = 1),
		(SELECT COUNT(*) FROM lanes WHERE direction = 1 AND leased = 1),
		(SELECT COUNT(*) FROM message_parked),
		(SELECT COALESCE(SUM(depth), 0) FROM lanes WHERE direction = 2),
		(SELECT COUNT(*) FROM lanes WHERE depth > 0),
		(SELECT COUNT(*) FROM message_life WHERE "end" = 'dead'),
		(SELECT COUNT(*) FROM chats), (SELECT COUNT(*) FROM history), (SELECT COUNT(*) FROM mailbox),
		(SELECT COUNT(*) FROM tasks WHERE state <> 'done'), (SELECT COUNT(*) FROM approvals WHERE state = 'awaiting'),
		(SELECT COUNT(DISTINCT hash) FROM attached_files WHERE fault = ''),
		(SELECT COALESCE(SUM(size), 0) FROM (SELECT DISTINCT hash, size FROM attached_files WHERE fault = ''))`}
	laneHeads = &query{`SELECT l.direction, l.agent, l.channel, l.account, l.chat, l.thread, l.depth, l.leased,
		COALESCE((SELECT m.message_id FROM message_queue q JOIN message_life m ON m.id = q.life_id
			WHERE q.lane_id = l.id AND q.seq > l.past ORDER BY q.seq LIMIT 1), '')
		FROM lanes l WHERE l.depth > 0 ORDER BY l.wake_at, l.id LIMIT ? + 0`}
)

// inventory counts what a database has that nobody writes.
func (db *DB) inventory(ctx context.Context) (has corebot.Inventory, err error) {
	c := &has.Counts
	_, err = db.reader.one(ctx, storeRow, []any{&has.Database, &has.Commits, moment{&has.LastCommit}, &has.Schema})
	if err != nil {
		return has, err
	}
	if _, err = db.reader.one(ctx, allRows, []any{
		&c.Messages, &c.Waiting, &c.Running, &c.Deferred, &c.Outbound, &c.Lanes, &c.DeadLetters, &c.Chats, &c.History,
		&c.Mailbox, &c.Tasks, &c.Approvals, &c.Files, &c.FileBytes,
	}); err != nil {
		return has, err
	}
	has.Lanes = []corebot.LaneHead{}
	err = db.reader.each(ctx, laneHeads, func(s scanner) error {
		var h corebot.LaneHead
		var k corebot.Key
		var direction int
		err := s.Scan(&direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &h.Depth, &h.Running,
			&h.Message)
		h.Direction, h.Key = corebot.Direction(direction).String(), k.String() //nolint:gosec // one of three
		has.Lanes = append(has.Lanes, h)
		return err
	}, corebot.MaxLaneHeads)
	return has, err
}

var newerRows = &query{`SELECT COUNT(*) FILTER (WHERE l.direction = 1),
		COUNT(DISTINCT CASE WHEN l.direction = 1 THEN l.id END), COUNT(*) FILTER (WHERE l.direction = 2)
	FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE m.published_at > ?`}

// Newer counts the messages that the database has accepted after a moment, for whoever is about to go back to it. It
// looks at each message whose life is kept.
func (db *DB) Newer(ctx context.Context, than time.Time) (n corebot.Newer, err error) {
	_, err = db.reader.one(ctx, newerRows, []any{&n.Messages, &n.Chats, &n.Replies}, than.UnixMilli())
	return n, err
}

// asidePrefix begins the names of the directories for replaced databases.
const asidePrefix = "set-aside-"

// roomPrefix begins the names of the directories in which new databases are made.
const roomPrefix = "new-database-"

// Replacement is what took the place of a database.
type Replacement struct {
	Aside    string            // where the old database is; empty: there was none
	Has      corebot.Inventory // of the new one
	Problems []string          // of the new one; it can be read all the same
}

// Restore replaces the database of a data directory by a copy: a backup, or a file from elsewhere. It checks the copy
// first, and brings it to this version's schema. It moves the old database to a directory of its own. No Corebot may
// run on the directory meanwhile. The function beside makes further
// files in a directory that it is given. They take their places in the same swap. It can be nil.
//
// A kill at any time leaves all old, or all new once the directory is locked the next time; see package swap.
//
// The numbers of what people and programs name by number go on far behind those of the copy. So a number that was given
// since the copy was made, such as that of an approval, never means another thing.
func Restore(ctx context.Context, dir, from string,
	beside func(room string) ([]swap.Move, error),
) (r Replacement, err error) {
	r.Aside, err = replace(dir, func(path string) error {
		if err := Restorable(ctx, from); err != nil {
			return err
		}
		if err := copyDatabase(ctx, from, path); err != nil {
			return err
		}
		if err := verify(ctx, from, path); err != nil {
			return err
		}
		if err := goOn(ctx, path); err != nil {
			return err
		}
		r.Has, r.Problems, err = CheckCopy(ctx, path)
		return err
	}, beside)
	return r, err
}

// Restorable refuses a file that is no database of Corebot, or a newer Corebot's.
func Restorable(ctx context.Context, path string) error {
	state, err := checkFile(path)
	if err == nil && state != "" {
		err = corebot.WithHint(fmt.Errorf("%s %s", path, state),
			"name the directory or the file of a backup; those of a home are in its data/backups")
	}
	if err != nil {
		return err
	}
	version, err := schemaVersion(path, migrations.FS)
	switch {
	case err != nil:
		return err
	case version > SchemaVersion():
		return newer(version, SchemaVersion())
	case version == 0:
		return fmt.Errorf("%s is not a database of Corebot", path)
	}
	return nil
}

// The jumps of numbers in a restored database. People say the numbers of approvals, of their rules and of tasks.
// Programs keep the cursors of the mailbox and the numbers of dead letters.
const (
	jumpOfPeople   = 10_000
	jumpOfLives    = 1_000_000
	jumpOfPrograms = 1 << 32
)

var (
	beginNumbers = &query{`INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0
		WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)`}
	jumpNumbers = &query{`UPDATE sqlite_sequence SET seq = seq + ? WHERE name = ?`}
	jumpLives   = &query{`UPDATE store SET last_life = last_life + ? WHERE id = 1`}
)

// goOn makes a copy of a database fit to go on with. It migrates the copy and has its numbers jump. An audit event says
// from when the copy is.
func goOn(ctx context.Context, path string) (err error) {
	if err := migrateTo(ctx, path, migrations.FS, SchemaVersion()); err != nil {
		return err
	}
	c, err := openWriteConn(path)
	if err != nil {
		return classify(err)
	}
	if _, err = c.exec(begin); err == nil {
		err = restoredTx(&tx{now: newClock(nil).now().Truncate(time.Millisecond), conn: c})
	}
	if err == nil {
		_, err = c.exec(commit)
	}
	if err = errors.Join(classify(err), c.Close()); err != nil {
		return err
	}
	if hasContent(path + "-wal") {
		return fmt.Errorf("%s could not be written whole", path)
	}
	return syncFile(path)
}

func restoredTx(t *tx) (err error) {
	var has identity
	var batch int64
	var at time.Time
	if _, err := t.one(storeRow, []any{&has.ID, &batch, moment{&at}, new(int64)}); err != nil {
		return err
	}
	if t.audit, err = readHead(t.conn); err != nil {
		return err
	}
	for name, by := range map[string]int64{
		"approvals": jumpOfPeople, "approval_rules": jumpOfPeople, "tasks": jumpOfPeople, "mailbox": jumpOfPrograms,
	} {
		if _, err := t.exec(beginNumbers, name); err != nil {
			return err
		}
		if _, err := t.exec(jumpNumbers, by, name); err != nil {
			return err
		}
	}
	if _, err := t.exec(jumpLives, jumpOfLives); err != nil {
		return err
	}
	return changeTx(t, byOperator(), restoreEvent, homeItself, map[string]any{
		"database": has.ID, "commit": batch, "committedAt": at.UTC().Format(time.RFC3339Nano),
		"auditHead": corebot.AuditHead{Event: t.audit.id, Hash: hex.EncodeToString(t.audit.hash)}.String(),
	})
}

// BeginAnew gives a data directory a new, empty database. It moves the old database to a directory of its own, as
// [Restore] does.
func BeginAnew(ctx context.Context, dir string) (aside string, err error) {
	return replace(dir, func(path string) error { return migrate(ctx, path, migrations.FS, zerolog.Nop()) }, nil)
}

// replace lets fill make a database, and puts it in the place of the old one, which it moves aside. The home remembers
// the new database when it is first opened.
func replace(dir string, fill func(path string) error,
	beside func(room string) ([]swap.Move, error),
) (aside string, err error) {
	if err := makeDir(dir); err != nil {
		return "", err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := removeRooms(dir); err != nil {
		return "", err
	}
	room, err := os.MkdirTemp(dir, roomPrefix)
	if err != nil {
		return "", corebot.WithHint(fmt.Errorf("make room for a database: %w", err),
			"make "+dir+" writable for the user who runs Corebot")
	}
	defer func() {
		if !swap.Pending(dir) { // otherwise what is in the room has its place yet to take
			err = errors.Join(err, os.RemoveAll(room))
		}
	}()
	if err := fill(filepath.Join(room, FileName)); err != nil {
		return "", fmt.Errorf("make the new database: %w", err)
	}
	fault.Point("restore", "made")
	moves := databaseMoves(filepath.Base(room))
	if beside != nil {
		more, err := beside(room)
		if err != nil {
			return "", err
		}
		moves = append(moves, more...)
	}
	name := asidePrefix + time.Now().UTC().Format("20060102T150405Z") + "-" + filepath.Base(room)[len(roomPrefix):]
	for i, m := range moves {
		moves[i].Aside = filepath.Join(name, m.Aside)
	}
	if err := errors.Join(syncFile(filepath.Join(room, FileName)), syncFile(room), syncFile(dir)); err != nil {
		return "", err
	}
	if err := swap.Do(dir, moves); err != nil {
		return "", fmt.Errorf("put the new database in place: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		aside = filepath.Join(dir, name)
	}
	return aside, nil
}

// databaseMoves put the database of a room in place, and move aside what belongs to the old one.
func databaseMoves(room string) []swap.Move {
	moves := []swap.Move{{Fresh: filepath.Join(room, FileName), Place: FileName, Aside: FileName}}
	for _, name := range []string{FileName + "-wal", FileName + "-shm", FileName + "-journal", rememberedName} {
		moves = append(moves, swap.Move{Place: name, Aside: name})
	}
	return moves
}

// removeRooms removes what a killed process has left of databases in the making. The directory is locked.
func removeRooms(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, roomPrefix+"*"))
	for _, room := range left {
		err = errors.Join(err, os.RemoveAll(room))
	}
	return err
}
