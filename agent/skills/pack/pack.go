// Package pack reads skills that somebody else wrote, from a directory, an archive or a git checkout on disk, and puts
// them into a workspace.
//
// Guarantees:
//   - A source is only read. Nothing of it is run, now or later by itself.
//   - Nothing is written before the whole skill was read and found good. A crash leaves the old skill or the new one.
//   - A file goes where its name says, below the directory of the skill. A skill is refused that has names with "..",
//     absolute names or invisible characters. Links, devices, and two names that some file systems take for one are
//     refused, too.
//   - Reading takes bounded memory, whatever an archive claims of itself: see [MaxFiles], [MaxBytes] and [MaxEntries].
//   - The hash of a skill is over the names and bytes of all its files, and over nothing else.
package pack

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/sorted"
)

const (
	// MaxFiles bounds the files of a skill.
	MaxFiles = 512
	// MaxBytes bounds the files of a skill together, in bytes.
	MaxBytes = 8 << 20
	// MaxEntries bounds the files, links and devices of a source. A source with more is refused. Directories do not
	// count.
	MaxEntries = 20_000
)

// File is a file of a skill. Its path is relative to the skill's directory.
type File struct {
	Path string
	Data []byte
}

// Pack is a skill that was read whole.
type Pack struct {
	skills.FrontMatter
	Files  []File // sorted by path
	Hash   string // sha256:…
	Source string // the directory or archive that it was read from
	Commit string // the commit that is checked out there; empty: the source is not a git checkout
}

// Candidate is a skill in a source.
type Candidate struct {
	Dir string // in the source; "." is the source itself
	skills.FrontMatter
	Err error // why its SKILL.md cannot be used; nil: it can
}

// source is a directory or an archive.
type source interface {
	// walk calls fn with each entry that is not a directory, until fn fails. In a directory on disk, the inside of
	// .git is passed over. fn must call open for a regular file only. A file above the limit is a
	// [corebot.ErrTooLarge].
	walk(fn func(name string, regular bool, open func(limit int64) ([]byte, error)) error) error
	String() string
	commit() string
}

// Find lists the skills in a source, by directory: each directory with a SKILL.md, also one that cannot be used.
func Find(from string) ([]Candidate, error) {
	src, err := open(from)
	if err != nil {
		return nil, err
	}
	return find(src)
}

func find(src source) (all []Candidate, err error) {
	seen, pages := 0, int64(0) // an archive can unpack one page again and again
	err = src.walk(func(name string, regular bool, open func(int64) ([]byte, error)) error {
		if seen++; seen > MaxEntries {
			return fmt.Errorf("%w: %s has more than %d entries", corebot.ErrTooLarge, src, MaxEntries)
		}
		if path.Base(name) != skills.FileName || !regular {
			return nil
		}
		c := Candidate{Dir: path.Dir(name)}
		data, err := open(min(skills.MaxFile, maxUnpacked-pages))
		if errors.Is(err, corebot.ErrTooLarge) && maxUnpacked-pages < skills.MaxFile {
			return fmt.Errorf("%w: the pages of %s have more than %d MiB together", err, src, maxUnpacked>>20)
		}
		if pages += int64(len(data)); err == nil {
			c.FrontMatter, _, err = skills.Parse(data)
		}
		if c.Err = err; c.Name == "" {
			c.Name = path.Base(c.Dir)
		}
		all = append(all, c)
		return nil
	})
	sorted.By(all, func(a, b Candidate) int { return strings.Compare(a.Dir, b.Dir) })
	return all, err
}

// Read reads one skill of a source. If the source has only one skill, name can be empty.
func Read(from, name string) (Pack, error) {
	src, err := open(from)
	if err != nil {
		return Pack{}, err
	}
	found, err := find(src)
	if err != nil {
		return Pack{}, err
	}
	c, err := choose(src, found, name)
	if err != nil {
		return Pack{}, err
	}
	if c.Err != nil {
		return Pack{}, fmt.Errorf("the skill in %s: %w", c.Dir, c.Err)
	}
	p := Pack{FrontMatter: c.FrontMatter, Source: src.String(), Commit: src.commit()}
	if p.Files, err = read(src, c.Dir); err != nil {
		return Pack{}, fmt.Errorf("the skill %s of %s: %w", p.Name, src, err)
	}
	p.Hash = HashOf(p.Files)
	return p, nil
}

// choose finds the skill that is meant.
func choose(src source, found []Candidate, name string) (Candidate, error) {
	var names []string
	var meant []Candidate
	for _, c := range found {
		names = append(names, c.Name)
		if name == "" || c.Name == name {
			meant = append(meant, c)
		}
	}
	const shown = 20
	if len(names) > shown {
		names = append(names[:shown], "…")
	}
	switch {
	case len(found) == 0:
		return Candidate{}, corebot.WithHint(fmt.Errorf("no skill in %s: %w", src, corebot.ErrNotFound),
			"a skill is a directory with a SKILL.md")
	case len(meant) == 0:
		return Candidate{}, corebot.WithHint(fmt.Errorf("no skill %q in %s: %w", corebot.Plainly(name), src,
			corebot.ErrNotFound), "it has "+corebot.Plainly(strings.Join(names, ", ")))
	case len(meant) > 1 && name == "":
		return Candidate{}, corebot.WithHint(fmt.Errorf("%w: %s has %d skills", corebot.ErrInvalid, src, len(meant)),
			"name one of them: "+corebot.Plainly(strings.Join(names, ", ")))
	case len(meant) > 1:
		return Candidate{}, corebot.WithHint(fmt.Errorf("%w: %s has %d skills of that name", corebot.ErrInvalid, src,
			len(meant)), "name the directory of the one that is meant as the source")
	}
	return meant[0], nil
}

// read reads the files below the directory of a skill.
func read(src source, dir string) (files []File, err error) {
	size, known := 0, map[string]bool{}
	err = src.walk(func(name string, regular bool, open func(int64) ([]byte, error)) error {
		rel, below := within(dir, name)
		if !below || ignored(rel) {
			return nil
		}
		clean, err := rootfs.Clean(rel)
		if err != nil {
			return err
		}
		if !regular {
			return corebot.WithHint(fmt.Errorf("%w: %s is neither a file nor a directory", corebot.ErrInvalid, clean),
				"a skill has no links: put a copy in the place of each")
		}
		folded := rootfs.Fold(clean)
		switch {
		case known[folded]:
			return fmt.Errorf("%w: some file systems take %s for another file of the skill", corebot.ErrInvalid, clean)
		case len(files) == MaxFiles:
			return fmt.Errorf("%w: it has more than %d files", corebot.ErrTooLarge, MaxFiles)
		}
		known[folded] = true
		data, err := open(int64(MaxBytes - size))
		if errors.Is(err, corebot.ErrTooLarge) {
			return fmt.Errorf("%w: its files have more than %d MiB together", corebot.ErrTooLarge, MaxBytes>>20)
		}
		if err != nil {
			return err
		}
		size += len(data)
		files = append(files, File{clean, data})
		return nil
	})
	sorted.By(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, err
}

// within gives the path of a file relative to a directory of the source. below is false if the file is elsewhere.
func within(dir, name string) (rel string, below bool) {
	if dir == "." {
		return name, true
	}
	return strings.CutPrefix(name, dir+"/")
}

// ignored says whether a file is not part of the skill: a repository that it lies in or has, Corebot's own note, and
// a note of the Finder.
func ignored(rel string) bool {
	return slices.ContainsFunc(strings.Split(rel, "/"), isGit) || rel == noteFile || path.Base(rel) == ".DS_Store"
}

// isGit says whether a name is that of a repository. Where file systems fold case, git takes .GIT for one, too.
func isGit(name string) bool { return rootfs.Fold(name) == ".git" }

// HashOf is the hash of files that are sorted by path.
func HashOf(files []File) string {
	h := sha256.New()
	text := func(b []byte) {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		_, _ = h.Write(b)
	}
	for _, f := range files {
		text([]byte(f.Path))
		text(f.Data)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
