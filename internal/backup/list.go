package backup

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/lazy"
	"github.com/corebot/corebot/internal/sorted"
)

// Found is a backup in a directory of backups. Its manifest has no list of files.
type Found struct {
	Path string
	Manifest
}

// List lists the backups in a directory, the newest first. A directory that is missing has none. A directory
// without a readable manifest is no backup.
func List(dir string) (all []Found, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if m, err := header(filepath.Join(dir, e.Name())); err == nil {
			all = append(all, Found{filepath.Join(dir, e.Name()), m})
		}
	}
	sorted.By(all, func(a, b Found) int {
		return cmp.Or(b.MadeAt.Compare(a.MadeAt), cmp.Compare(b.Path, a.Path))
	})
	return all, nil
}

// header reads the beginning of a manifest.
func header(dir string) (m Manifest, err error) {
	f, err := os.Open(filepath.Join(dir, ManifestName))
	if err != nil {
		return m, err
	}
	defer f.Close() //nolint:errcheck // only read
	return readManifest(bufio.NewReader(f), nil)
}

// NameOf is the name of a backup in a directory of backups. It says when the backup was made, and of which database.
func NameOf(at time.Time, database string) string {
	return "corebot-" + at.UTC().Format("20060102T150405.000Z") + "-" + short(database)
}

var ownName = lazy.Regexp(`^corebot-\d{8}T\d{6}\.\d{3}Z-[0-9a-f]{8}$`)

// short tells databases apart: the last digits of an id, which are random.
func short(database string) string {
	digits := strings.ReplaceAll(database, "-", "")
	if len(digits) < 8 {
		return strings.Repeat("0", 8-len(digits)) + digits
	}
	return digits[len(digits)-8:]
}

// partPrefix begins the names of backups of a database that are being made, or removed.
func partPrefix(database string) string { return ".corebot-part-" + short(database) + "-" }

// removeParts removes what a killed process has left of such backups. At most one process works on a database.
func removeParts(dir, database string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for backups that were cut short: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), partPrefix(database)) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("remove a backup that was cut short: %w", err)
			}
		}
	}
	return nil
}

// Prune removes the oldest backups of a database that have a name of [NameOf], so that keep of them are left, at least
// one. A backup that is removed has no name of a backup any more: a kill leaves none that lacks files.
func Prune(dir, database string, keep int) (removed []string, err error) {
	all, err := List(dir)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(all, func(f Found) bool {
		return f.Database != database || !ownName().MatchString(filepath.Base(f.Path))
	})
	for _, f := range own[min(max(keep, 1), len(own)):] {
		if err := remove(dir, f); err != nil {
			return removed, corebot.WithHint(fmt.Errorf("remove an old backup: %w", err), "remove "+f.Path+" by hand")
		}
		removed = append(removed, f.Path)
	}
	return removed, nil
}

func remove(dir string, f Found) error {
	gone := filepath.Join(dir, partPrefix(f.Database)+filepath.Base(f.Path))
	return errors.Join(os.Rename(f.Path, gone), os.RemoveAll(gone))
}
