package backup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
)

// Database is the database of a home.
type Database interface {
	// Copy writes a checked copy to a new file, which is on disk then, and says what it has.
	Copy(ctx context.Context, to string) (corebot.Inventory, error)
	// Size is how many bytes a copy takes.
	Size(ctx context.Context) (int64, error)
	// Identity is the id of the database.
	Identity(ctx context.Context) (string, error)
}

// Tree is a directory of a home that is copied with all that is in it.
type Tree struct {
	Path string // in the home and in the backup, such as workspace
	Dir  string // where it is; it may be missing
}

// SettingsFile is a file of settings without its secrets.
type SettingsFile struct {
	Path    string
	Data    []byte
	Secrets []Secret
	Fault   string // why it is left out; empty: it is not
}

// Home is what a backup is made of.
type Home struct {
	Version  string // of Corebot
	Database Database
	Trees    []Tree
	// SettingsFiles gives the settings as they are now.
	SettingsFiles func() ([]SettingsFile, error)
	// Free is how many bytes a backup can take on the disk of a path. Nil: any number.
	Free func(path string) (int64, error)
}

// Make makes a backup in a directory that is not there yet, or is empty. It removes what a killed process has left of
// backups of the same database beside it.
func Make(ctx context.Context, h Home, to string) (m Manifest, err error) {
	parent := filepath.Dir(to)
	if err := h.fits(to); err != nil {
		return m, err
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return m, corebot.WithHint(fmt.Errorf("make the directory of backups: %w", err),
			"name a directory that the user who runs Corebot can make")
	}
	id, err := h.Database.Identity(ctx)
	if err != nil {
		return m, err
	}
	if err := removeParts(parent, id); err != nil {
		return m, err
	}
	if err := h.hasRoom(ctx, parent); err != nil {
		return m, err
	}
	part, err := os.MkdirTemp(parent, partPrefix(id))
	if err != nil {
		return m, corebot.WithHint(fmt.Errorf("make the directory of the backup: %w", err),
			"make "+parent+" writable for the user who runs Corebot")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	if m, err = h.fill(ctx, part); err != nil {
		return m, fmt.Errorf("make the backup: %w", err)
	}
	fault.Point("backup", "made")
	if err := syscall.Rename(part, to); err != nil { // package os refuses an empty directory in the place
		return m, corebot.WithHint(fmt.Errorf("put the backup in place: %w", err), elsewhere)
	}
	fault.Point("backup", "after")
	return m, syncDir(parent)
}

const elsewhere = "name a directory that is not there yet, on the disk of the directory above it"

// fits refuses a place for a backup before anything is made.
func (h Home) fits(to string) error {
	entries, err := os.ReadDir(to)
	switch {
	case err == nil && len(entries) > 0:
		return corebot.WithHint(fmt.Errorf("%s is not empty", to), elsewhere)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return corebot.WithHint(fmt.Errorf("look at the place of the backup: %w", err), elsewhere)
	}
	return Outside(h.Trees, to)
}

// Outside refuses a path within what is copied: each backup would have all earlier ones in it, and tools could read the
// database there. A relative path is one of the working directory, as it is for whoever makes a directory there.
func Outside(trees []Tree, path string) error {
	at, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for _, t := range trees {
		dir, err := filepath.Abs(t.Dir)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(resolved(dir), resolved(at))
		if err != nil || filepath.IsLocal(inside) {
			err := fmt.Errorf("%w: %s lies in %s: the next backup would copy it, and the tools of an agent could "+
				"read it there", corebot.ErrInvalid, path, t.Dir)
			return corebot.WithHint(err, "name a directory that lies elsewhere, such as /var/backups/corebot")
		}
	}
	return nil
}

// resolved is a path without links, as far as it is there.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}

// hasRoom refuses to begin what the disk has no room for.
func (h Home) hasRoom(ctx context.Context, dir string) error {
	if h.Free == nil {
		return nil
	}
	need, err := h.Database.Size(ctx)
	if err != nil {
		return err
	}
	for _, t := range h.Trees {
		size, err := sizeOf(ctx, t.Dir)
		if err != nil {
			return err
		}
		need += size
	}
	free, err := h.Free(dir)
	if err != nil {
		return err
	}
	if free < need {
		return corebot.WithHint(fmt.Errorf("make the backup: %w: it needs %d MiB, and %s has %d MiB for it",
			corebot.ErrDiskFull, need>>20, dir, max(free, 0)>>20),
			"make room there, keep fewer backups (backup.keep), or name a directory on another disk")
	}
	return nil
}

// fill makes all files of a backup, the manifest last.
func (h Home) fill(ctx context.Context, dir string) (m Manifest, err error) {
	m = Manifest{
		Format: format, Corebot: h.Version, MadeAt: time.Now().UTC(),
		Trees: []string{}, Secrets: []Secret{}, LeftOut: []LeftOut{},
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	list, err := root.OpenFile(listName, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, list.Close()) }()
	c := newCopier(ctx, root, list)
	if err := h.copyDatabase(ctx, c, &m); err != nil {
		return m, err
	}
	fault.Point("backup", "database")
	for _, t := range h.Trees {
		there, err := c.tree(t.Dir, t.Path)
		if err != nil {
			return m, fmt.Errorf("copy %s: %w", t.Path, err)
		}
		if there {
			m.Trees = append(m.Trees, t.Path)
		}
	}
	texts, err := h.SettingsFiles()
	if err != nil {
		return m, err
	}
	for _, t := range texts {
		if t.Fault != "" {
			m.LeftOut = append(m.LeftOut, LeftOut{t.Path, t.Fault})
			continue
		}
		if err := c.text(t); err != nil {
			return m, fmt.Errorf("copy %s: %w", t.Path, err)
		}
		m.Secrets = append(m.Secrets, t.Secrets...)
	}
	m.Total = c.total
	if err := c.manifest(m); err != nil {
		return m, fmt.Errorf("write the manifest: %w", err)
	}
	return m, syncDirs(dir)
}

func (h Home) copyDatabase(ctx context.Context, c *copier, m *Manifest) error {
	if err := c.to.MkdirAll(filepath.Dir(DatabasePath), 0o700); err != nil {
		return err
	}
	has, err := h.Database.Copy(ctx, filepath.Join(c.to.Name(), DatabasePath))
	if err != nil {
		return err
	}
	m.Inventory = has
	f, err := c.to.Open(DatabasePath)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size, sum, err := c.pour(io.Discard, f, info.Size())
	if err != nil {
		return err
	}
	return c.note(File{Path: DatabasePath, Size: size, SHA256: sum, Modified: info.ModTime().UTC()})
}

// listName is the file in which the manifest's list of files is gathered.
const listName = "files.part"

// manifest writes the manifest behind all other files: the header, and the list that was gathered.
func (c *copier) manifest(m Manifest) error {
	if err := c.list.Flush(); err != nil {
		return err
	}
	header, err := m.headerOf()
	if err != nil {
		return err
	}
	list, err := c.to.Open(listName)
	if err != nil {
		return err
	}
	defer list.Close() //nolint:errcheck // only read
	out, err := c.to.OpenFile(ManifestName, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.MultiReader(strings.NewReader(string(header)), bufio.NewReader(list),
		strings.NewReader("\n  ]\n}\n")))
	return errors.Join(err, out.Sync(), out.Close(), c.to.Remove(listName))
}

// note adds a file to the list.
func (c *copier) note(f File) error {
	if f.Link == nil {
		c.total.Files++
		c.total.Bytes += f.Size
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	between := ",\n    "
	if c.noted++; c.noted == 1 {
		between = "\n    "
	}
	_, err = c.list.WriteString(between + string(text))
	return err
}

// syncDirs has the names of all files be on disk. The files themselves are.
func syncDirs(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return syncDir(path)
	})
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
