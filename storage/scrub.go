package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// The bytes of a deleted row stay in its file until something else is written there. Within a page that stays in use,
// the writer writes zeros at once (the pragma secure_delete). Pages that became free keep what they held, and so do
// parts of the search index that are not merged yet, and the write-ahead log. An overwriting replaces them by zeros.
//
// It writes the free pages where they are, by SQLite's table of pages, and takes none of them: other commits use them
// meanwhile. A page that is all zeros is not written, so an overwriting that was cut off goes on where it was.
//
// SQLite keeps the free pages in a list of trunks (section 1.5 of its format). A trunk names the next trunk, and
// has the numbers of its leaves, which are free pages without content.

var (
	pageData  = &query{`SELECT data FROM sqlite_dbpage WHERE pgno = ?`}
	pageHolds = &query{`SELECT 1 FROM sqlite_dbpage WHERE pgno = ?1 AND data <> zeroblob(length(data))`}
	writePage = &query{`UPDATE sqlite_dbpage SET data = ?2 WHERE pgno = ?1`}
	zeroPage  = &query{`UPDATE sqlite_dbpage SET data = zeroblob(length(data)) WHERE pgno = ?1`}

	allChanges = &query{`SELECT total_changes()`}
	// The index of the history drops the terms of deleted entries when it merges its parts. A negative number begins a
	// merge of all parts.
	mergeAll  = &query{`INSERT INTO history_terms (history_terms, rank) VALUES ('merge', -256)`}
	mergeMore = &query{`INSERT INTO history_terms (history_terms, rank) VALUES ('merge', 256)`}
)

// scrubPages is how many pages one commit overwrites: a mebibyte.
const scrubPages = 256

// commits makes one operation of the writer, as [DB.write] does.
type commits func(ctx context.Context, name string, fn func(*tx) error) error

// overwriting is one pass over all that deleted rows have left.
type overwriting struct {
	db    *DB
	log   *Checkpoints
	write commits
}

// Overwrite writes zeros over what deleted rows have left in the files of the database, and gives the number of the
// pages. It works in small commits, and it can be cut off and called again at any time. A reader that stays for long,
// such as a backup, makes it fail, because the write-ahead log cannot begin anew.
func (f *Forgetting) Overwrite(ctx context.Context) (pages int64, err error) {
	log, err := NewCheckpoints(f.db, CheckpointOptions{})
	if err != nil {
		return 0, err
	}
	o := overwriting{f.db, log, f.db.write}
	if pages, err = o.free(ctx); err == nil {
		err = log.Empty(ctx)
	}
	return pages, errors.Join(err, log.Close())
}

// free overwrites all but the write-ahead log.
func (o overwriting) free(ctx context.Context) (pages int64, err error) {
	if err := o.mergeTerms(ctx); err != nil {
		return 0, fmt.Errorf("merge the search index: %w", err)
	}
	var trunks []uint32
	if err := o.db.reader.view(ctx, func(c *prepared) (err error) {
		trunks, err = freeTrunks(c, nil)
		return err
	}); err != nil {
		return 0, fmt.Errorf("read the list of free pages: %w", err)
	}
	for _, no := range trunks {
		n, err := o.trunk(ctx, no)
		if pages += n; err != nil {
			return pages, fmt.Errorf("overwrite free pages: %w", err)
		}
	}
	return pages, nil
}

// trunk overwrites the leaves of one trunk, and what the trunk itself has behind their numbers. A page that was
// allocated meanwhile is left alone.
func (o overwriting) trunk(ctx context.Context, no uint32) (pages int64, err error) {
	var left []uint32
	if err := o.db.reader.view(ctx, func(c *prepared) (err error) {
		left, err = leftIn(c, no)
		return err
	}); err != nil {
		return 0, err
	}
	for len(left) > 0 {
		if err := o.shorten(ctx); err != nil {
			return pages, err
		}
		some := left[:min(len(left), scrubPages)]
		left = left[len(some):]
		if err := o.write(ctx, "scrub", func(t *tx) error {
			n, err := zeroTx(t, no, some)
			pages += n
			return err
		}); err != nil {
			return pages, err
		}
	}
	return pages, nil
}

// shorten has the write-ahead log begin anew when it has become too long. The log of an overwriting has no other bound
// where somebody reads for long.
func (o overwriting) shorten(ctx context.Context) error {
	if o.db.wal.frames.Load() <= o.log.opts.Mark {
		return nil
	}
	return o.log.again(ctx, false)
}

// leftIn are the pages of a trunk that have something to overwrite: leaves, and the trunk itself. The page of a trunk
// that was allocated meanwhile says nothing that [zeroTx] would believe.
func leftIn(c *prepared, no uint32) (left []uint32, err error) {
	t, err := readTrunk(c, no)
	if err != nil {
		return nil, err
	}
	if !t.clean() {
		left = append(left, no)
	}
	for i := range t.leaves {
		holds := false
		leaf := t.leaf(i)
		if err := c.each(pageHolds, func(scanner) error { holds = true; return nil }, int64(leaf)); err != nil {
			return nil, err
		}
		if holds {
			left = append(left, leaf)
		}
	}
	return left, nil
}

// zeroTx overwrites those of some pages that are a trunk now, or one of its leaves.
func zeroTx(t *tx, no uint32, some []uint32) (pages int64, err error) {
	if trunks, err := freeTrunks(t.conn, &no); err != nil || len(trunks) == 0 || trunks[len(trunks)-1] != no {
		return 0, t.fail(err)
	}
	trunk, err := readTrunk(t.conn, no)
	if err != nil {
		return 0, t.fail(err)
	}
	free := make(map[uint32]bool, trunk.leaves)
	for i := range trunk.leaves {
		free[trunk.leaf(i)] = true
	}
	for _, page := range some {
		q, args := zeroPage, []any{int64(page)}
		switch {
		case page == no:
			clear(trunk.data[trunk.end():])
			q, args = writePage, append(args, trunk.data)
		case !free[page]:
			continue
		}
		n, err := t.exec(q, args...)
		if pages += n; err != nil {
			return pages, err
		}
	}
	return pages, nil
}

// trunk is a page of the list of free pages.
type trunk struct {
	data   []byte
	leaves int
}

// readTrunk reads a page as a trunk. A page that cannot be one has no leaves.
func readTrunk(c *prepared, no uint32) (t trunk, err error) {
	err = c.each(pageData, func(s scanner) error { return s.Scan(&t.data) }, int64(no))
	if len(t.data) >= 8 {
		if t.leaves = int(binary.BigEndian.Uint32(t.data[4:])); t.leaves > len(t.data)/4-2 {
			t.leaves = 0
		}
	}
	return t, err
}

func (t trunk) leaf(i int) uint32 { return binary.BigEndian.Uint32(t.data[8+4*i:]) }

// end is where the numbers of the leaves end.
func (t trunk) end() int { return min(8+4*t.leaves, len(t.data)) }

func (t trunk) clean() bool {
	for _, b := range t.data[t.end():] {
		if b != 0 {
			return false
		}
	}
	return true
}

// freeTrunks are the numbers of all trunks, in the order of the list, or up to one of them.
func freeTrunks(c *prepared, upTo *uint32) (all []uint32, err error) {
	var header []byte
	if err := c.each(pageData, func(s scanner) error { return s.Scan(&header) }, int64(1)); err != nil {
		return nil, err
	}
	if len(header) < 100 {
		return nil, errors.New("the first page of the database has no header")
	}
	free := binary.BigEndian.Uint32(header[36:])
	for no := binary.BigEndian.Uint32(header[32:]); no != 0; {
		if all = append(all, no); upTo != nil && *upTo == no {
			return all, nil
		}
		t, err := readTrunk(c, no)
		if err != nil {
			return nil, err
		}
		if len(t.data) < 8 || len(all) > int(free) {
			return nil, fmt.Errorf("the list of free pages is damaged at page %d", no)
		}
		no = binary.BigEndian.Uint32(t.data)
	}
	return all, nil
}

// mergeTerms merges the search index until nothing is left to merge.
func (o overwriting) mergeTerms(ctx context.Context) error {
	q := mergeAll
	for more := true; more; q = mergeMore {
		if err := o.shorten(ctx); err != nil {
			return err
		}
		if err := o.write(ctx, "scrub.terms", func(t *tx) error {
			var before, after int64
			if _, err := t.one(allChanges, []any{&before}); err != nil {
				return err
			}
			if _, err := t.exec(q); err != nil {
				return err
			}
			_, err := t.one(allChanges, []any{&after})
			more = after-before >= 2 // the statement itself counts as one
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

var (
	overwrittenAt  = &query{`SELECT overwritten_at FROM store WHERE id = 1`}
	setOverwritten = &query{`UPDATE store SET overwritten_at = ? WHERE id = 1`}
)

// overwrite has an overwriting once a day if some chats have a time of their own. The bytes of turns that their commit
// deleted are among what it reaches. The database keeps when an overwriting began that has ended, so a restart makes no
// further one.
//
// It waits for a later pass while the disk is low, because it makes the write-ahead log longer. If only the log could
// not be emptied, the next pass only does that.
func (r *Retention) overwrite(ctx context.Context) error {
	if !r.opts.Keeper.Distinguishes() || r.db.diskLow.Load() {
		return nil
	}
	var done time.Time
	if _, err := r.db.reader.one(ctx, overwrittenAt, []any{moment{&done}}); err != nil {
		return err
	}
	now := r.db.clock.now()
	if lately(done, now) {
		return nil
	}
	log, err := NewCheckpoints(r.db, r.cuts)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // it has written what it was asked to, or said why not
	if !lately(r.scrubbed, now) {
		if _, err := (overwriting{r.db, log, r.gently}).free(ctx); err != nil {
			return err
		}
		r.scrubbed = now
	}
	if err := log.Empty(ctx); err != nil {
		return err
	}
	return r.db.write(ctx, "scrub.done", func(t *tx) error {
		_, err := t.exec(setOverwritten, r.scrubbed)
		return err
	})
}

// lately says whether a time is of the last day. One of the future was made under a wrong clock.
func lately(at, now time.Time) bool { return !at.After(now) && now.Sub(at) < wholeTurn }

// gently is [DB.write], and leaves the writer alone as after each operation of a pass. It begins nothing while the disk
// is low.
func (r *Retention) gently(ctx context.Context, name string, fn func(*tx) error) error {
	if r.db.diskLow.Load() {
		return fmt.Errorf("it goes on when there is room again: %w", corebot.ErrDiskFull)
	}
	began := time.Now()
	if err := r.db.write(ctx, name, fn); err != nil {
		return err
	}
	return rest(ctx, max(leastRest, restShare*time.Since(began)))
}
