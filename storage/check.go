package storage

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"net/url"
	"os"
	"path/filepath"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage/engine"
)

var header = []byte("SQLite format 3\x00")

// headerSize is the size of the header of every SQLite database.
const headerSize = 100

// checkFile refuses a file that is not a database before SQLite opens it. The result state is "is missing" or "is
// empty" if Corebot can create a database there, and "" if there is one.
func checkFile(path string) (state string, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "is missing", nil
	}
	if err != nil {
		return "", fmt.Errorf("look at the database: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", corebot.WithHint(fmt.Errorf("%s is not a regular file", path),
			"choose another home with --home, or move what is there away")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", corebot.WithHint(fmt.Errorf("open the database: %w", err),
			"make the file readable for the user who runs Corebot")
	}
	defer f.Close() //nolint:errcheck // opened only for reading
	got := make([]byte, headerSize)
	n, err := io.ReadFull(f, got)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return "is empty", nil
	case !bytes.HasPrefix(got, header):
		return "", fmt.Errorf("%s is not a SQLite database", path)
	case n < headerSize:
		return "", fmt.Errorf("%s is damaged: it is cut off after %d bytes, inside its header", path, n)
	}
	return "", nil
}

// SQLite reads its write-ahead log up to the first frame whose checksum does not fit, and takes that for the end. So a
// damaged frame silently takes back every commit behind it. After a power cut the end looks alike: the last commit can
// be there in part, and a damaged last commit cannot be told from it. But a commit begins only once the one before it
// is on the disk. So two whole commits in a row behind such a frame are proof of damage.

// logCut is where SQLite stops to read a log, and what is behind.
type logCut struct {
	header  [logHeaderSize]byte
	frame   int // the first frame that does not fit, from 0; -1: the header does not
	commits int // whole commits behind it
}

const (
	logHeaderSize   = 32
	frameHeaderSize = 24
)

// CheckLog refuses a data directory whose write-ahead log has whole commits behind a damaged frame. It changes nothing.
// Another process can be writing the log. Then what does not fit yet fits at a second look. It reads the whole log, so
// that it is not for every reader.
func CheckLog(dir string) error {
	path := filepath.Join(dir, FileName)
	cut, err := readLog(path + "-wal")
	if err != nil || cut.commits == 0 {
		return err
	}
	again, err := readLog(path + "-wal")
	if err != nil || again.commits == 0 || again.frame != cut.frame || again.header != cut.header {
		return err
	}
	where := fmt.Sprintf("in its frame %d", again.frame+1)
	if again.frame < 0 {
		where = "in its header"
	}
	return corebot.WithHint(fmt.Errorf("%s-wal is damaged %s: SQLite would take back %d commits or more behind that",
		path, where, again.commits), "nothing was changed. `corebot db restore "+path+
		"` goes on with what was committed before the damage; "+wayBack(dir))
}

// readLog looks for the first frame that does not fit, and counts the commits in the longest run of frames behind it
// that fit each other. Fewer than two prove nothing, and count as none.
func readLog(path string) (cut logCut, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cut, nil
	}
	if err != nil {
		return cut, corebot.WithHint(fmt.Errorf("open the write-ahead log: %w", err),
			"make the file readable for the user who runs Corebot")
	}
	defer f.Close() //nolint:errcheck // opened only for reading
	r := bufio.NewReaderSize(f, 1<<20)
	if _, err := io.ReadFull(r, cut.header[:]); err != nil {
		return cut, logEnd(err)
	}
	size := int(binary.BigEndian.Uint32(cut.header[8:]))
	if size < 512 || size > 1<<16 || size&(size-1) != 0 {
		size = 4096 // Corebot's own
	}
	last := logSum{big: cut.header[3]&1 == 1}
	fits := last.add(cut.header[:24]) == [8]byte(cut.header[24:])
	salt, whole, run := [8]byte(cut.header[16:24]), fits, 0
	last.set(cut.header[24:])
	if !fits {
		cut.frame = -1
	}
	frame := make([]byte, frameHeaderSize+size)
	for n := 0; ; n++ {
		if _, err := io.ReadFull(r, frame); err != nil {
			return cut.proven(), logEnd(err)
		}
		fits := (cut.frame < 0 || [8]byte(frame[8:16]) == salt) && last.add(frame[:8], frame[frameHeaderSize:]) ==
			[8]byte(frame[16:24])
		last.set(frame[16:24])
		switch {
		case !fits && whole:
			whole, cut.frame = false, n
		case !fits:
			run = 0
		case !whole && binary.BigEndian.Uint32(frame[4:]) != 0:
			run++
			cut.commits = max(cut.commits, run)
		}
	}
}

// proven drops what proves nothing.
func (c logCut) proven() logCut {
	if c.commits < 2 {
		c.commits = 0
	}
	return c
}

// logEnd is nil at the end of a file, which can be in the middle of a frame.
func logEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return fmt.Errorf("read the write-ahead log: %w", err)
}

// logSum is the running checksum of a log.
type logSum struct {
	big    bool // the words are big-endian
	s0, s1 uint32
}

func (c *logSum) set(stored []byte) {
	c.s0, c.s1 = binary.BigEndian.Uint32(stored), binary.BigEndian.Uint32(stored[4:])
}

func (c *logSum) add(parts ...[]byte) (sum [8]byte) {
	for _, b := range parts {
		for ; len(b) >= 8; b = b[8:] {
			first, second := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
			if c.big {
				first, second = bits.ReverseBytes32(first), bits.ReverseBytes32(second)
			}
			c.s0 += first + c.s1
			c.s1 += second + c.s0
		}
	}
	binary.BigEndian.PutUint32(sum[:], c.s0)
	binary.BigEndian.PutUint32(sum[4:], c.s1)
	return sum
}

// Problems checks the whole file, and its write-ahead log first: see [CheckLog]. It runs SQLite's integrity check,
// looks for dangling references, and checks the rules between lanes, queue and lives that no constraint can state. An
// empty list means that there are none.
func (db *DB) Problems(ctx context.Context) ([]string, error) {
	if err := CheckLog(filepath.Dir(db.path)); err != nil {
		return nil, err // nothing that is read is the newest
	}
	var problems []string
	err := db.reader.alone(ctx, func(c *prepared) error {
		for _, q := range checks {
			if err := c.each(q, func(s scanner) error {
				var text string
				if err := s.Scan(&text); err != nil {
					return err
				}
				if text != "ok" {
					problems = append(problems, text)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return problems, err
}

// alone lends fn a connection that has read nothing yet, until ctx ends, and closes it. FTS5 keeps in each connection
// which parts its index has, and looks at the start of a search whether that has changed. Its integrity check does not
// look (fts5IntegrityMethod). On a connection with an earlier search or check, it would report parts as damaged that
// were merged away meanwhile. It would not read the new ones.
func (r *reader) alone(ctx context.Context, fn func(*prepared) error) (err error) {
	r.mu.Lock()
	over := r.over
	r.mu.Unlock()
	if over {
		return corebot.ErrClosed
	}
	c, err := r.open()
	if err != nil {
		return classify(err)
	}
	defer func() {
		if e := c.Close(); err == nil {
			err = classify(e)
		}
	}()
	defer c.db.InterruptWhen(ctx)()
	if err = fn(c); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return classify(err)
}

var checks = []*query{
	{`PRAGMA integrity_check(20)`},
	// FTS5 reads a record of its parts that was cut off, or zeroed, as one of an index without parts, and finds nothing
	// wrong. The record has four bytes that count changes, four of its version, and the numbers of levels and parts.
	{`SELECT 'the search index has parts and its list of parts names none: "corebot db reindex" makes the index anew'
		FROM history_terms_data WHERE id = 10 AND (LENGTH(block) < 10 OR substr(block, 10, 1) = x'00')
		AND EXISTS (SELECT 1 FROM history_terms_data WHERE id > 10)`},
	{`SELECT "table" || ' row ' || rowid || ' refers to a missing row of ' || parent FROM pragma_foreign_key_check
		LIMIT 20`},
	{`SELECT 'lane ' || l.id || ' says it has ' || l.depth || ' messages and has ' || COUNT(q.life_id)
	  FROM lanes l LEFT JOIN message_queue q ON q.lane_id = l.id AND q.seq > l.past
	  GROUP BY l.id HAVING COUNT(q.life_id) <> l.depth LIMIT 20`},
	{`SELECT 'lane ' || l.id || ' says it has ' || l.bytes || ' bytes and has ' || COALESCE(SUM(LENGTH(q.body)), 0)
	  FROM lanes l LEFT JOIN message_queue q ON q.lane_id = l.id AND q.seq > l.past
	  GROUP BY l.id HAVING COALESCE(SUM(LENGTH(q.body)), 0) <> l.bytes LIMIT 20`},
	{`SELECT 'lane ' || id || ' has messages and is never due' FROM lanes
		WHERE depth > 0 AND wake_at IS NULL LIMIT 20`},
	{`SELECT 'lane ' || id || ' is empty and due' FROM lanes WHERE depth = 0 AND (wake_at IS NOT NULL OR leased = 1)
		LIMIT 20`},
	{`SELECT 'message ' || m.id || ' has not ended and is not in the queue' FROM message_life m
	  LEFT JOIN message_queue q ON q.life_id = m.id LEFT JOIN message_parked p ON p.life_id = m.id
	  WHERE m."end" = '' AND q.life_id IS NULL AND p.life_id IS NULL LIMIT 20`},
	{`SELECT 'message ' || p.life_id || ' is deferred, and ' || CASE WHEN q.life_id IS NOT NULL THEN 'in the queue'
		ELSE 'not alive' END FROM message_parked p
	  LEFT JOIN message_queue q ON q.life_id = p.life_id LEFT JOIN message_life m ON m.id = p.life_id
	  WHERE q.life_id IS NOT NULL OR m.id IS NULL OR m."end" <> '' LIMIT 20`},
	{`SELECT 'message ' || m.id || ' is of a lane that is missing' FROM message_life m
	  LEFT JOIN lanes l ON l.id = m.lane_id WHERE l.id IS NULL LIMIT 20`},
	{`SELECT 'message ' || m.id || ' was caused by one that is missing' FROM message_life m
	  LEFT JOIN message_life c ON c.id = m.cause_id WHERE m.cause_id IS NOT NULL AND c.id IS NULL LIMIT 20`},
	{`SELECT DISTINCT 'step of message ' || s.life_id || ', which is missing' FROM execution_steps s
	  LEFT JOIN message_life m ON m.id = s.life_id WHERE m.id IS NULL LIMIT 20`},
	{`SELECT 'lane ' || l.id || ' has had ' || (l.next_seq - 1) || ' places and knows of ' || (l.swept +
		COALESCE(m.places, 0)) FROM lanes l
	  LEFT JOIN (SELECT lane_id, SUM(run) AS places FROM message_life GROUP BY lane_id) m ON m.lane_id = l.id
	  WHERE l.direction <> 3 AND l.next_seq - 1 <> l.swept + COALESCE(m.places, 0) LIMIT 20`},
	{`SELECT 'message ' || m.id || ' has ended and is still in the queue' FROM message_queue q
	  JOIN lanes l ON l.id = q.lane_id AND q.seq > l.past JOIN message_life m ON m.id = q.life_id WHERE m."end" <> ''
	  LIMIT 20`},
}

// readOnlyURI names a file so that nothing can change it, not even the checkpoint of a close.
func readOnlyURI(path string, pragmas ...string) string {
	return fileURI(path, url.Values{"mode": {"ro"}, "_pragma": pragmas})
}

// openReadOnly opens the file for database/sql.
func openReadOnly(path string) (*sql.DB, error) {
	return sql.Open("sqlite", readOnlyURI(path, pragmas...))
}

// openToInspect opens the file as a [reader] does.
func openToInspect(path string) (*prepared, error) {
	c, err := engine.Open(readOnlyURI(path), readPragmas)
	if err != nil && isAtRest(path, err) {
		c, err = openAtRest(path)
	}
	if err != nil {
		return nil, classify(err)
	}
	return newPrepared(c), nil
}

// isAtRest says of a database that could not be opened whether it can be read as it lies there. SQLite wants to write
// files beside the database, also for a reader. It cannot on a file system or in a directory that is only to be read,
// such as a mounted backup. Without a log with commits, the file alone has everything, and no process writes to it.
func isAtRest(path string, err error) bool {
	var e sqliteError
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff
	return (code == sqlite3.SQLITE_READONLY || code == sqlite3.SQLITE_CANTOPEN) && hasContent(path) &&
		!hasContent(path+"-wal")
}

// openAtRest opens a file that nobody changes.
func openAtRest(path string) (*engine.Conn, error) {
	return engine.Open(fileURI(path, url.Values{"mode": {"ro"}, "immutable": {"1"}}), readPragmas)
}
