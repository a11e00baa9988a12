// Package roots says which file an argument of a tool means. The file is one of the workspace, or of a directory that
// the operator has opened with the setting tools.roots.
//
// Guarantees:
//
//   - One rule for all. Policy, approvals, tools and programs read an argument by [List.Find]. So what is judged is
//     what is opened.
//   - One spelling. A relative path is of the workspace. An absolute path, or one that begins with "~/", is of an open
//     directory. [Place.String] is the spelling that is stored, shown and compared.
//   - No open directory reaches Corebot's own. A directory around the home, the database or a workspace, or in one of
//     them, is refused. The directory is checked with the settings, and each time that it is opened.
//   - Directories do not vouch for one another. Of two directories inside one another, the outer one must be open for
//     reading only. So nothing that tools may change decides where an open directory is.
//
// Limits: at most [Most] directories. A disk that is mounted inside an open directory belongs to it. A part of
// Corebot's own directories that somebody has mounted elsewhere has no other name there, and is not known.
package roots

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

// Most is how many directories can be open.
const Most = 32

// ErrOutside is in the error for a path that is neither in the workspace nor in an open directory.
var ErrOutside = errors.New("is in no directory that tools.roots opens")

// Dir is a directory of the operator.
type Dir struct {
	Path  string // absolute and clean: its one name, as the operator wrote it
	Real  string // where it was when the settings were read, without links; empty: it was not there
	Write bool   // tools may change what is in it
}

// List are the open directories. It is a value: nothing of it changes, and nothing is open. The zero List has none.
type List struct {
	dirs []Dir
	user string // the home of the user, for "~"
}

// NewList checks directories against one another, and against paths that must stay closed. It looks at the disk, and
// changes nothing. A directory that is not there is no error: it may be on a disk that is not mounted yet. The argument
// user is the directory that "~" stands for; empty: nothing.
func NewList(user string, dirs []Dir, closed ...string) (List, error) {
	l := List{user: user}
	if len(dirs) > Most {
		return l, fmt.Errorf("%w: tools.roots has %d directories, and the most is %d", corebot.ErrInvalid, len(dirs),
			Most)
	}
	for _, d := range dirs {
		var err error
		if d.Path, err = cleanDir(user, d.Path); err == nil {
			d.Real, _, err = look(d.Path, closed)
		}
		if err != nil && !errors.Is(err, ErrMissing) {
			return List{}, fmt.Errorf("tools.roots: %w", err)
		}
		for _, other := range l.dirs {
			if err := apart(d, other); err != nil {
				return List{}, fmt.Errorf("tools.roots: %w", err)
			}
		}
		l.dirs = append(l.dirs, d)
	}
	return l, nil
}

// cleanDir is the one name of a directory.
func cleanDir(user, path string) (string, error) {
	absolute, err := expand(user, path)
	if err != nil {
		return "", err
	}
	inner, absoluteIs := strings.CutPrefix(absolute, "/")
	if !absoluteIs {
		return "", corebot.WithHint(fmt.Errorf("%w: %q is not an absolute path", corebot.ErrInvalid, path),
			"write the whole path, such as /home/me/project or ~/project")
	}
	if inner == "" {
		return "/", nil
	}
	clean, err := rootfs.Clean(inner)
	if err != nil {
		return "", corebot.WithHint(fmt.Errorf("%w: %q cannot be opened: %w", corebot.ErrInvalid, path, err),
			`write the path without "..", backslashes and invisible characters`)
	}
	return filepath.Join("/", clean), nil
}

// expand puts the home of the user in place of a leading "~".
func expand(user, path string) (string, error) {
	rest, tilde := strings.CutPrefix(path, "~")
	if !tilde || rest != "" && rest[0] != '/' {
		return path, nil
	}
	if user == "" {
		return "", fmt.Errorf("%w: %q: nobody knows the home directory of the user", corebot.ErrInvalid, path)
	}
	return user + rest, nil
}

// apart refuses two directories that are one, or of which one lies in another that tools may change.
func apart(a, b Dir) error {
	for _, x := range a.names() {
		for _, y := range b.names() {
			outer, inner := a, b
			switch {
			case x == y:
				return corebot.WithHint(fmt.Errorf("%w: %s and %s are one directory", corebot.ErrInvalid, a.Path,
					b.Path),
					"keep one of them")
			case within(x, y):
				outer, inner = b, a
			case !within(y, x):
				continue
			}
			if outer.Write {
				return corebot.WithHint(fmt.Errorf("%w: %s is in %s, which can be changed", corebot.ErrInvalid,
					inner.Path, outer.Path), fmt.Sprintf("open %s for reading, or leave one of them out", outer.Path))
			}
		}
	}
	return nil
}

// names are the paths that mean a directory.
func (d Dir) names() []string {
	if d.Real == "" || d.Real == d.Path {
		return []string{d.Path}
	}
	return []string{d.Path, d.Real}
}

// within says whether an absolute path is below a directory. It compares exactly: on a disk that folds case, another
// spelling is refused and not guessed.
func within(path, dir string) bool {
	return dir == "/" || strings.HasPrefix(path, dir+"/")
}

// Dirs gives the directories in the order of the settings.
func (l List) Dirs() []Dir { return append([]Dir(nil), l.dirs...) }

// Place is a file or directory that a call names.
type Place struct {
	Dir  Dir    // the open directory that it is in; the zero Dir: the workspace
	Path string // in there, as [rootfs.Clean] spells it
}

// InWorkspace says whether the place is not below an open directory.
func (p Place) InWorkspace() bool { return p.Dir.Path == "" }

// String is the one spelling of the place.
func (p Place) String() string {
	if p.InWorkspace() {
		return p.Path
	}
	return filepath.Join(p.Dir.Path, p.Path)
}

// Explain names the open directory in an error that one of its files gave.
func (p Place) Explain(err error) error {
	if err == nil || p.InWorkspace() {
		return err
	}
	return fmt.Errorf("in %s: %w", p.Dir.Path, err)
}

// Join is a place below this one, by a path that [rootfs.Clean] has spelled.
func (p Place) Join(below string) Place {
	p.Path = filepath.Join(p.Path, below)
	return p
}

// Find says what a path means, without looking at the disk. The innermost open directory counts. The error is
// [ErrOutside], or that of [rootfs.Clean].
func (l List) Find(path string) (Place, error) {
	absolute := path
	if len(path) <= rootfs.MaxPath {
		var err error
		if absolute, err = expand(l.user, path); err != nil {
			return Place{}, fmt.Errorf("%q %w", path, ErrOutside)
		}
	}
	if !strings.HasPrefix(absolute, "/") {
		clean, err := rootfs.Clean(path)
		return Place{Path: clean}, err
	}
	clean, err := rootfs.Clean("./" + absolute)
	if err != nil {
		return Place{}, err
	}
	clean = filepath.Join("/", clean)
	var found Place
	length := -1
	for _, d := range l.dirs {
		for _, name := range d.names() {
			switch {
			case len(name) <= length:
			case clean == name:
				found, length = Place{d, "."}, len(name)
			case within(clean, name):
				found, length = Place{d, strings.TrimPrefix(clean[len(name):], "/")}, len(name)
			}
		}
	}
	if length < 0 {
		return Place{}, fmt.Errorf("%q %w", path, ErrOutside)
	}
	return found, nil
}
