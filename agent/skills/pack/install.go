package pack

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
	"github.com/corebot/corebot/internal/linediff"
	"github.com/corebot/corebot/internal/sorted"
)

// noteFile is the note in the directory of an installed skill. It is written with the skill, so the two never disagree.
const noteFile = ".corebot.json"

// Note says where an installed skill came from.
type Note struct {
	Source      string    `json:"source"`
	Commit      string    `json:"commit,omitempty"`
	Hash        string    `json:"hash"`
	InstalledAt time.Time `json:"installedAt"`
}

// Installed is a skill of a workspace with the note of its installation.
type Installed struct {
	Pack
	Note    Note
	Noted   bool // [Install] has put it there; others were written by hand
	Changed bool // its files are not those that were installed
}

// Look reads a skill of a directory of skills, whatever is wrong with its page. A name that is not there is
// [corebot.ErrNotFound].
func Look(among, name string) (i Installed, err error) {
	dir := filepath.Join(among, name)
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("skill %q: %w", corebot.Plainly(name), corebot.ErrNotFound)
		}
		return i, err
	}
	if i.Files, err = read(folder(dir), "."); err != nil {
		return i, fmt.Errorf("the skill %s: %w", name, err)
	}
	i.Name, i.Hash = name, HashOf(i.Files)
	text, err := os.ReadFile(filepath.Join(dir, noteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return i, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &i.Note)
	}
	if err != nil {
		return i, fmt.Errorf("the note of the skill %s: %w", name, err)
	}
	i.Noted, i.Changed = true, i.Note.Hash != i.Hash
	return i, nil
}

// Install puts a skill into a directory of skills, in the place of the skill that has its name. The hash was is that of
// the skill as the caller has shown it, and empty where none was there. A skill that somebody has changed meanwhile
// stays. The directory staging is on the same file system, and nobody else works in it. A place that is no skill, or
// has a repository, is not replaced.
func Install(dir, staging string, p Pack, was string, now time.Time) error {
	return install(dir, staging, p, was, now, exchange)
}

func install(dir, staging string, p Pack, was string, now time.Time, swap func(fresh, place string) error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	sweep(staging, now)
	if kept := keptOf(staging, p.Name); kept != "" {
		return corebot.WithHint(fmt.Errorf("%w: an earlier install was killed as it put the skill %s in its place. "+
			"Somebody had changed the one that was there: it is in %s", corebot.ErrInvalid, p.Name, kept),
			"take what was changed from "+kept+", delete it, and give the command again")
	}
	incoming, err := os.MkdirTemp(staging, staged)
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			_ = os.RemoveAll(incoming) // what is left is in the way of nothing
		}
	}()
	fresh := filepath.Join(incoming, p.Name)
	note, err := json.MarshalIndent(Note{p.Source, p.Commit, p.Hash, now.UTC().Truncate(time.Second)}, "", "  ")
	if err != nil {
		return err
	}
	for _, f := range append(slices.Clone(p.Files), File{noteFile, append(note, '\n')}) {
		if err := write(filepath.Join(fresh, filepath.FromSlash(f.Path)), f.Data); err != nil {
			return fmt.Errorf("write the skill %s: %w", p.Name, err)
		}
		fault.Point("skill", "file")
	}
	if err := syncDirs(fresh); err != nil {
		return err
	}
	fault.Point("skill", "before")
	place := filepath.Join(dir, p.Name)
	if err := deletable(place); err != nil {
		return err
	}
	if there, err := Look(dir, p.Name); there.Hash != was || err != nil && !errors.Is(err, corebot.ErrNotFound) {
		return changedMeanwhile(p.Name)
	}
	looked := write(filepath.Join(incoming, lookedAt), []byte(was+"\n"+p.Hash))
	if err := errors.Join(looked, syncDir(incoming)); err != nil {
		return err
	}
	fault.Point("skill", "looked")
	if err := swap(fresh, place); err != nil {
		keep = errors.Is(err, errStranded)
		return fmt.Errorf("put the skill %s in its place: %w", p.Name, err)
	}
	fault.Point("skill", "exchanged")
	if err := putBack(fresh, place, was, swap); err != nil {
		keep = errors.Is(err, errStranded)
		return errors.Join(err, syncDir(dir))
	}
	fault.Point("skill", "after")
	return syncDir(dir)
}

func changedMeanwhile(name string) error {
	return corebot.WithHint(fmt.Errorf("%w: the skill %s was changed meanwhile: nothing was installed",
		corebot.ErrInvalid, name), "give the command again, and look at the difference")
}

// putBack undoes an exchange if what was replaced is not what was looked at before. An editor, or another command, can
// change a skill between that look and the exchange.
func putBack(fresh, place, was string, swap func(fresh, place string) error) (err error) {
	name, old := filepath.Base(place), fresh
	if _, err := os.Lstat(fresh + moved); err == nil {
		old += moved
	}
	_, missing := os.Lstat(old)
	none := errors.Is(missing, fs.ErrNotExist)
	if !none {
		there, err := Look(filepath.Dir(old), filepath.Base(old))
		if err == nil && there.Hash == was && deletable(old) == nil {
			return nil
		}
	} else if was == "" {
		return nil
	}
	switch {
	case none: // somebody has removed it
		err = os.Rename(place, fresh)
	case old == fresh:
		err = swap(fresh, place)
	default:
		err = errors.Join(os.Rename(place, fresh), os.Rename(old, place))
	}
	if err == nil || none {
		return cmp.Or(err, changedMeanwhile(name))
	}
	kept := fresh + moved
	if old == fresh {
		err = errors.Join(err, os.Rename(old, kept))
	}
	_ = os.Mkdir(fresh, 0o700) // beside it, the one that is kept is the only copy: see stranded
	return corebot.WithHint(fmt.Errorf("the skill %s was changed meanwhile, and the new one is in its place: %w, and "+
		"is in %s: %w", name, errStranded, kept, err), "take what was changed from "+kept)
}

// staged begins the names of what lies in the staging directory.
const staged = "skill-"

// deletable refuses a link or a file that has the name of a skill, and a directory with a repository. A repository can
// have work that is nowhere else. Neither the hash nor the difference shows these.
func deletable(place string) error {
	const hint = "move it away or remove it yourself, and give the command again"
	info, err := os.Lstat(place)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return corebot.WithHint(fmt.Errorf("%w: %s is no directory, and so no skill", corebot.ErrInvalid, place),
			hint)
	}
	return filepath.WalkDir(place, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != place && isGit(d.Name()) {
			err = corebot.WithHint(fmt.Errorf("%w: %s is a repository, and would be deleted", corebot.ErrInvalid, path),
				hint)
		}
		return err
	})
}

// sweep deletes what commands have left in the staging directory that were killed an hour ago or earlier.
func sweep(staging string, now time.Time) {
	left, _ := os.ReadDir(staging) // its path is no pattern: a home can be named bot[12]
	for _, d := range left {
		if !d.IsDir() || !strings.HasPrefix(d.Name(), staged) {
			continue
		}
		dir := filepath.Join(staging, d.Name())
		if info, err := d.Info(); err == nil && now.Sub(info.ModTime()) > time.Hour && !stranded(dir) &&
			changedIn(dir) == "" {
			_ = os.RemoveAll(dir) // the next command tries again
		}
	}
}

// lookedAt is a file beside a new skill before the exchange: the hashes of the skill that was looked at, and of the new
// one. A process can be killed between the exchange and the comparison. Then the hashes say whether somebody
// had changed what was replaced, and the change is nowhere else.
const lookedAt = "looked-at"

// changedIn is the path of a skill in a directory that a killed install has left. The skill is neither the one that was
// looked at nor the new one; empty: there is none.
func changedIn(dir string) string {
	hashes, err := os.ReadFile(filepath.Join(dir, lookedAt))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	all, listed := os.ReadDir(dir)
	if err != nil || listed != nil {
		return dir // what cannot be read may be there
	}
	for _, d := range all {
		if d.Name() == lookedAt {
			continue
		}
		there, err := Look(dir, d.Name())
		if err != nil || there.Hash == "" || !slices.Contains(strings.Split(string(hashes), "\n"), there.Hash) {
			return filepath.Join(dir, d.Name())
		}
	}
	return ""
}

// keptOf is what a killed install of a skill has left that somebody had changed; empty: nothing.
func keptOf(staging, name string) string {
	left, _ := os.ReadDir(staging)
	for _, d := range left {
		if !d.IsDir() || !strings.HasPrefix(d.Name(), staged) {
			continue
		}
		kept := changedIn(filepath.Join(staging, d.Name()))
		if strings.TrimSuffix(filepath.Base(kept), moved) == name {
			return kept
		}
	}
	return ""
}

// moved ends the name of a skill that [inTurn] has moved away.
const moved = ".old"

// errStranded is an error of [inTurn] that leaves the only copy of a skill beside the new one.
var errStranded = errors.New("the skill that was there could not be put back")

// stranded says whether a directory has the only copy of a skill: both are in it, so the new one never came into place.
func stranded(dir string) bool {
	all, err := os.ReadDir(dir)
	return err != nil || slices.ContainsFunc(all, func(d fs.DirEntry) bool {
		name, is := strings.CutSuffix(d.Name(), moved)
		return is && slices.ContainsFunc(all, func(d fs.DirEntry) bool { return d.Name() == name })
	})
}

// inTurn moves away what was there, and then puts the directory there. A crash in between leaves no skill of that name:
// only file systems that know no exchange have that moment. Then the old one is kept.
func inTurn(rename func(from, to string) error, fresh, place string) error {
	old := fresh + moved
	if err := rename(place, old); err != nil {
		return err
	}
	err := rename(fresh, place)
	if err == nil {
		return nil
	}
	if back := rename(old, place); back != nil {
		return corebot.WithHint(fmt.Errorf("%w: %w, and is in %s: %w", err, errStranded, old, back),
			"move "+old+" to "+place)
	}
	return err
}

// Remove deletes a skill of a directory of skills: it is gone at once, and its files are deleted then. A place
// that is no skill, or has a repository, stays.
func Remove(dir, staging, name string) error {
	if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("skill %q: %w", corebot.Plainly(name), corebot.ErrNotFound)
		}
		return err
	}
	if err := deletable(filepath.Join(dir, name)); err != nil {
		return err
	}
	gone, err := os.MkdirTemp(staging, staged)
	if err != nil {
		return err
	}
	defer os.RemoveAll(gone) //nolint:errcheck // what is left is in the way of nothing
	if err := os.Rename(filepath.Join(dir, name), filepath.Join(gone, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

func write(path string, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// syncDirs makes the names of files durable, in a directory and below it.
func syncDirs(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return syncDir(path)
	})
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Change is what becomes of a file when one skill takes the place of another.
type Change struct {
	Path string
	Word string // new, gone or changed
	Diff string // of a text that changes, as people know it; empty: it is no text, or too large
}

// maxDiff bounds the difference of one file that is shown, in bytes.
const maxDiff = 16 << 10

// Compare lists the files that differ between two skills.
func Compare(old, fresh []File) (all []Change) {
	was := map[string][]byte{}
	for _, f := range old {
		was[f.Path] = f.Data
	}
	for _, f := range fresh {
		before, there := was[f.Path]
		delete(was, f.Path)
		switch {
		case !there:
			all = append(all, Change{Path: f.Path, Word: "new"})
		case string(before) != string(f.Data):
			c := Change{Path: f.Path, Word: "changed"}
			if hunks, err := linediff.Compare(before, f.Data); err == nil {
				c.Diff, _ = linediff.Render(hunks, maxDiff)
			}
			all = append(all, c)
		}
	}
	for path := range was {
		all = append(all, Change{Path: path, Word: "gone"})
	}
	sorted.By(all, func(a, b Change) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	})
	return all
}
