package storage

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
)

// The bytes of a deleted row stay in its file until something else is written there. Within a page that stays in use,
// the writer writes zeros at once (the pragma secure_delete). Pages that became free keep what they held, and so does
// the write-ahead log. Scrub overwrites both.

var (
	freePages  = &query{`PRAGMA freelist_count`}
	pageSize   = &query{`PRAGMA page_size`}
	fillPages  = &query{`INSERT INTO scrub (zero) VALUES (zeroblob(?))`}
	leavePage  = &query{`DELETE FROM scrub WHERE id = (SELECT MIN(id) FROM scrub)`}
	allChanges = &query{`SELECT total_changes()`}
	// The index of the history drops the terms of deleted entries when it merges its parts. A negative number begins a
	// merge of all parts.
	mergeAll  = &query{`INSERT INTO history_terms (history_terms, rank) VALUES ('merge', -256)`}
	mergeMore = &query{`INSERT INTO history_terms (history_terms, rank) VALUES ('merge', 256)`}
)

// scrubPages is how many pages one commit overwrites: a mebibyte.
const scrubPages = 256

// Scrub overwrites what deleted rows have left in the free pages of the file, and gives the number of the pages. It
// works in small commits. The write-ahead log is overwritten by [Checkpoints.Empty], after it.
func (f *Forgetting) Scrub(ctx context.Context) (pages int64, err error) {
	if err := f.mergeTerms(ctx); err != nil {
		return 0, fmt.Errorf("merge the search index: %w", err)
	}
	for more := true; more; {
		if err := f.db.write(ctx, "scrub", func(t *tx) error {
			var free, size int64
			if _, err := t.one(freePages, []any{&free}); err != nil {
				return err
			}
			if more = free > 0; !more {
				return nil
			}
			if _, err := t.one(pageSize, []any{&size}); err != nil {
				return err
			}
			n := min(free, scrubPages)
			pages += n
			_, err := t.exec(fillPages, n*size)
			return err
		}); err != nil {
			return pages, fmt.Errorf("overwrite free pages: %w", err)
		}
	}
	for n := int64(1); n > 0; {
		if err := f.db.write(ctx, "scrub", func(t *tx) (err error) {
			n, err = t.exec(leavePage)
			return err
		}); err != nil {
			return pages, fmt.Errorf("free the overwritten pages: %w", err)
		}
	}
	return pages, nil
}

// mergeTerms merges the search index until nothing is left to merge.
func (f *Forgetting) mergeTerms(ctx context.Context) error {
	q := mergeAll
	for more := true; more; q = mergeMore {
		if err := f.db.write(ctx, "scrub.terms", func(t *tx) error {
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

// emptied is how often [Checkpoints.Empty] tries, since readers come and go.
const emptied = 50

// Empty copies the write-ahead log into the database, and gives the bytes of its file back. A reader that stays for
// long, such as a backup, makes it fail.
func (c *Checkpoints) Empty(ctx context.Context) error {
	for range emptied {
		cut, err := c.cut(ctx, true)
		if err != nil || cut {
			return err
		}
		if err := rest(ctx, c.opts.Every); err != nil {
			return err
		}
	}
	return corebot.WithHint(fmt.Errorf("the write-ahead log keeps deleted text: somebody reads the database for long"),
		"do it again when no backup and no check runs")
}
