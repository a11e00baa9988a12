package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backup"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/lazy"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/swap"
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/storage"
)

// newKeeper makes what makes the backups of a home.
func newKeeper(ctx context.Context, db *storage.DB, c config.Config, scheduled bool, log zerolog.Logger,
	r prometheus.Registerer,
) (*backup.Keeper, error) {
	o := backup.Options{
		Dir: backupDir(c), Keep: c.Backup.Keep, Log: log, Metrics: r,
		Note: func(ctx context.Context, path string, m backup.Manifest, scheduled bool) error {
			return db.NoteBackup(ctx, path, m.Inventory, scheduled)
		},
	}
	if scheduled {
		o.Every = c.Backup.Every
	}
	return backup.NewKeeper(ctx, backup.Home{
		Version: Version(), Database: db, Trees: trees(c), Free: freeFor(c),
		SettingsFiles: func() ([]backup.SettingsFile, error) { return texts(c) },
	}, o)
}

// Version is what Go has stamped into the program: the tag or the commit, with "+dirty" if files had changed since.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev" // a test, or a build without version control
	}
	return info.Main.Version
}

// onRequest makes backups of a home on which no Corebot of this process runs.
type onRequest struct {
	db     *storage.DB
	config config.Config
}

// Make implements [operate.Backups].
func (o onRequest) Make(ctx context.Context, to string) (backup.Made, error) {
	k, err := newKeeper(ctx, o.db, o.config, false, zerolog.Nop(), nil)
	if err != nil {
		return backup.Made{}, err
	}
	return k.Make(ctx, to)
}

// AuditFile is the file of the published heads of the audit trail; empty: there is none.
func AuditFile(c config.Config) string { return inHome(c.Home, c.Audit.File) }

// backupDir is where the backups of a home are kept.
func backupDir(c config.Config) string { return inHome(c.Home, c.Backup.Dir) }

// trees are the directories of a home that a backup has: those of all agents that the settings name, or have named.
func trees(c config.Config) []backup.Tree {
	all := []backup.Tree{{Path: backup.FilesPath, Dir: filepath.Join(c.Home, filepath.FromSlash(backup.FilesPath))}}
	for _, p := range homePlaces(c) {
		rel, err := filepath.Rel(c.Home, p.workspace())
		if err == nil {
			all = append(all, backup.Tree{Path: filepath.ToSlash(rel), Dir: p.workspace()})
		}
	}
	return all
}

// homePlaces are the places of agents in a home, also of agents that the settings do not have any more.
func homePlaces(c config.Config) []place {
	all := places(c)
	if !slices.Contains(all, place{c.Home, corebot.DefaultAgent}) {
		all = append(all, place{c.Home, corebot.DefaultAgent})
	}
	entries, _ := os.ReadDir(filepath.Join(c.Home, "agents")) // where it cannot be read, the settings name them
	for _, e := range entries {
		p := place{c.Home, e.Name()}
		if e.IsDir() && agentName().MatchString(e.Name()) && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

var agentName = lazy.Regexp(`^[a-z0-9][a-z0-9-]{0,31}$`)

// freeFor says how much room a backup can take. On the disk of the home the floor stays free: below it no message is
// accepted.
func freeFor(c config.Config) func(string) (int64, error) {
	return func(path string) (int64, error) {
		disk, err := storage.DiskAt(path)
		if err != nil {
			return 0, err
		}
		var there, home syscall.Stat_t
		if err := errors.Join(syscall.Stat(path, &there), syscall.Stat(DataDir(c.Home), &home)); err != nil {
			return 0, fmt.Errorf("look at the disk of the backup: %w", err)
		}
		if there.Dev == home.Dev {
			return disk.Free - disk.Floor(c.Storage.DiskFloor), nil
		}
		return disk.Free, nil
	}
}

// texts are the files of settings as they are now, without their secrets. A file that cannot be read is left out, and
// the backup says so: a mistake in the settings must not keep the database from being backed up.
func texts(c config.Config) ([]backup.SettingsFile, error) {
	if now, err := LoadConfig(c.Home); err == nil {
		c = now
	}
	hide, err := redact.New(append(c.Secrets(), MCPSecrets(c)...))
	if err != nil {
		return nil, err
	}
	var all []backup.SettingsFile
	add := func(path string, in backup.Settings, by backup.Stripper, err error) error {
		if err != nil {
			all = append(all, backup.SettingsFile{Path: path, Fault: err.Error()})
			return nil
		}
		if in.Text == nil {
			return nil
		}
		by.Hide = hide.Text
		text, err := by.Strip(in)
		all = append(all, text)
		return err
	}
	said, err := config.Said(c.Home)
	name := filepath.Base(said.Path)
	if err := add("corebot.yaml", backup.Settings{
		Path: name, Text: said.Text, Tree: said.Tree(), As: "corebot.json",
	}, ofSettings, err); err != nil {
		return nil, err
	}
	for _, p := range homePlaces(c) {
		in, err := readMCP(c.Home, p)
		if err := add(in.Path, in, ofMCP, err); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ofSettings takes the secrets out of the settings file. A file of the home takes the place of each.
var ofSettings = backup.Stripper{
	Secret: func(path []string) bool { return config.IsSecret(path, networkSettings(Networks())...) },
	Refers: config.IsReference,
	Refer:  func(path []string) string { return "file:secrets/" + plainName(path, ".") },
}

// ofMCP takes the secrets out of a list of MCP servers. A variable takes the place of each.
var ofMCP = backup.Stripper{
	Secret: func(path []string) bool {
		if len(path) < 2 {
			return false
		}
		section, name := path[len(path)-2], path[len(path)-1]
		return section == "headers" || section == "env" && redact.Sensitive(name)
	},
	Refers: func(text string) bool { return strings.Contains(text, "${") && !strings.Contains(text, ":-") },
	Refer: func(path []string) string {
		return "${" + strings.ToUpper(plainName(slices.DeleteFunc(slices.Clone(path), func(name string) bool {
			return name == "mcpServers" || name == "env" || name == "headers"
		}), "_")) + "}"
	},
}

// plainName joins names to one that is fit for a file, or with "_" for a variable.
func plainName(path []string, by string) string {
	return strings.Map(func(r rune) rune {
		if r == rune(by[0]) || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, strings.Join(path, by))
}

// readMCP reads the file of MCP servers that an agent has of its own.
func readMCP(home string, p place) (backup.Settings, error) {
	path := filepath.Join(p.dir(), mcp.FileName)
	rel, err := filepath.Rel(home, path)
	if err != nil {
		return backup.Settings{}, err
	}
	in := backup.Settings{Path: filepath.ToSlash(rel), As: filepath.ToSlash(rel)}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return in, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &in.Tree)
	}
	in.Text = text
	return in, err
}

// Restored says what a restore has done, or would do.
type Restored struct {
	Backup   string            `json:"backup"`
	Manifest *backup.Manifest  `json:"manifest,omitempty"` // nil: the backup is the file of a database
	Has      corebot.Inventory `json:"has"`
	Home     string            `json:"home"`
	Aside    string            `json:"setAside"` // where what was there is; empty: nothing was there
	Settings []string          `json:"settings"` // files of settings that the home had not, and has now
	Kept     []string          `json:"kept"`     // those that the home had, and keeps
	Secrets  []backup.Secret   `json:"secrets"`  // which the new settings name, and the home has not
	Problems []string          `json:"problems"` // of the database
	// Newer is what the home has from after the copy was made. It is nil where the home has no database that can be
	// read, and where the backup is the file of a database.
	Newer *corebot.Newer `json:"newer,omitempty"`
}

// Restore replaces the database, the files and the workspaces of a home by those of a backup. It checks every file
// first. Settings of the home stay; files of settings that it has not are taken from the backup. Where from is a file,
// only the database is replaced. With dry nothing is changed.
func Restore(ctx context.Context, home, from string, dry bool) (r Restored, err error) {
	r = Restored{Backup: from, Home: home, Settings: []string{}, Kept: []string{}, Problems: []string{}}
	database := from
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		m, err := backup.Check(ctx, from)
		if err != nil {
			return r, err
		}
		database, r.Manifest, r.Has = filepath.Join(from, filepath.FromSlash(backup.DatabasePath)), &m, m.Inventory
	}
	if err := storage.Restorable(ctx, database); err != nil {
		return r, err
	}
	u := &unpacking{home: home, from: from}
	if r.Manifest != nil {
		if err := u.look(&r); err != nil {
			return r, err
		}
		r.Newer = newer(ctx, home, r.Has.LastCommit)
	}
	if dry {
		return r, nil
	}
	var done storage.Replacement
	err = Locked(ctx, home, func() (err error) {
		var beside func(string) ([]swap.Move, error)
		if r.Manifest != nil {
			beside = func(room string) ([]swap.Move, error) { return u.unpack(ctx, room) }
		}
		done, err = storage.Restore(ctx, DataDir(home), database, beside)
		return err
	})
	r.Aside = done.Aside
	if err != nil {
		return r, err
	}
	r.Has, r.Problems = done.Has, append(r.Problems, done.Problems...)
	// the home remembers its database from then on
	return r, WithStore(ctx, home, func(*storage.DB) error { return nil })
}

// newer counts what a home has from after a moment. A restore is what mends a database that cannot be read, so nothing
// depends on it.
func newer(ctx context.Context, home string, than time.Time) *corebot.Newer {
	db, err := storage.OpenReader(ctx, DataDir(home))
	if err != nil {
		return nil
	}
	defer db.Close() //nolint:errcheck // it was only read
	n, err := db.Newer(ctx, than)
	if err != nil {
		return nil
	}
	return &n
}

// unpacking is a backup on its way into a home.
type unpacking struct {
	home, from string
	wants      func(path string) bool
}

// look finds out which settings the home takes.
func (u *unpacking) look(r *Restored) error {
	said, err := config.FileOf(u.home)
	if err != nil {
		return err
	}
	u.wants = func(path string) bool {
		if !backup.IsSettingsFile(path) {
			return true
		}
		if strings.HasSuffix(path, mcp.FileName) {
			_, err := os.Lstat(filepath.Join(u.home, filepath.FromSlash(path)))
			return errors.Is(err, fs.ErrNotExist)
		}
		return said == ""
	}
	texts, err := backup.SettingsFiles(u.from)
	for _, path := range texts {
		if u.wants(path) {
			r.Settings = append(r.Settings, path)
		} else if strings.HasSuffix(path, mcp.FileName) {
			r.Kept = append(r.Kept, path)
		} else {
			r.Kept = append(r.Kept, filepath.Base(said))
		}
	}
	r.Secrets = slices.DeleteFunc(slices.Clone(r.Manifest.Secrets), func(s backup.Secret) bool {
		return !slices.Contains(r.Settings, s.File) || u.isThere(s)
	})
	return err
}

// isThere says whether a secret is where the settings look for it.
func (u *unpacking) isThere(s backup.Secret) bool {
	_, err := config.Reveal(u.home, s.Reference)
	return config.IsReference(s.Reference) && err == nil
}

// unpack puts what the home takes into a directory of its data, and gives the moves into place.
func (u *unpacking) unpack(ctx context.Context, room string) (moves []swap.Move, err error) {
	into := filepath.Join(room, "home")
	if err := os.Mkdir(into, 0o700); err != nil {
		return nil, err
	}
	var texts []string
	m, err := backup.Unpack(ctx, u.from, into, func(path string) bool {
		wants := u.wants(path)
		if wants && backup.IsSettingsFile(path) {
			texts = append(texts, path)
		}
		return wants
	})
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Concat(m.Trees, texts) {
		fresh := filepath.Join(filepath.Base(room), "home", filepath.FromSlash(path))
		moves = append(moves, swap.Move{Fresh: fresh, Place: u.place(path), Aside: path})
	}
	if !slices.Contains(m.Trees, backup.FilesPath) { // then the database refers to none
		moves = append(moves, swap.Move{Place: u.place(backup.FilesPath), Aside: backup.FilesPath})
	}
	return moves, nil
}

// place is where a path of a backup belongs, as seen from the data directory. A link of the operator stays.
func (u *unpacking) place(path string) string {
	place := filepath.Join(u.home, filepath.FromSlash(path))
	if real, err := filepath.EvalSymlinks(place); err == nil && real != place {
		if info, err := os.Lstat(place); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return real
		}
	}
	return filepath.Join("..", filepath.FromSlash(path))
}
