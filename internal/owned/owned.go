// Package owned decides whether only root and the user who runs Corebot can change a file. The file says what Corebot
// runs, whom Corebot trusts, or what its secrets are.
//
// Guarantees, for an existing path that [Resolve], [Check] or [Open] takes without an error:
//
//   - The file or directory belongs to root or to the user who runs Corebot, and neither its group nor everyone can
//     write it.
//   - Nobody else can put another file in its place. Every directory on the way belongs to root or to that user.
//     Everyone, or a group other than root's, can write a directory on the way only if the directory has the sticky
//     bit. The next entry on the way must then belong to root or to that user: nobody else can rename or remove it.
//   - Symbolic links are followed. The way to the link and the way behind the link are held to the same rules.
//   - Below a directory that only root and that user can search (0700), the rights to write do not count, because
//     nobody else gets there. They do count for a file with several hard links, which has names elsewhere. They also
//     count below a mount point, because others can reach the mounted tree at its source.
//
// The walk goes from the root down. Only root or Corebot's user can exchange a part of the path that the walk has
// passed, so a checked path stays what it was. [Open] judges the file once more through its handle.
//
// A missing path has no owner. In a directory with the sticky bit, such as /tmp, everybody can make the path later.
// [Check] takes a missing path without an error, so its caller must not act on the path as if Corebot had made it.
// [MakeDir] makes a directory and judges what is there afterwards.
//
// Limits: a user who held a file or directory open before it was closed to him can still change it. Root can mount or
// export a directory below a 0700 one somewhere else, where others reach it. An access control list counts by its mask,
// which the mode shows as the rights of the group. Root's group (0) is trusted with directories on the way only.
package owned

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/corebot/corebot"
)

// maxLinks is how many symbolic links a walk follows: as many as the kernel does.
const maxLinks = 40

// ErrNotOurs is wrapped in the error of every path that others can change.
var ErrNotOurs = errors.New("others can change it")

// judge holds paths to the rules. It trusts root and one user.
type judge struct{ uid int }

// Check refuses a path that others can change. A missing path is fine, unless others can change a directory on the way
// to the missing part. In a directory with the sticky bit others can still make the missing part: use [Resolve] where
// the path must exist, and [MakeDir] to make a directory.
func Check(path string) error {
	_, err := Resolve(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Resolve gives the absolute path without symbolic links. The error is [ErrNotOurs] if others can change the path or a
// directory on the way, and fs.ErrNotExist if a part of the path is missing. A ".." in the argument itself is resolved
// by its text, before any link is followed.
func Resolve(path string) (string, error) {
	return judge{os.Geteuid()}.resolve(path)
}

func (j judge) resolve(path string) (string, error) {
	real, info, shut, err := j.walk(path)
	if err == nil {
		err = j.target(real, info, shut)
	}
	if err != nil {
		return "", err
	}
	return real, nil
}

// MakeDir makes a directory, and the missing directories on the way, for this user alone (0700). It judges the path
// before and after: in a directory with the sticky bit, somebody else can make the path in between.
func MakeDir(path string) error { return judge{os.Geteuid()}.makeDir(path, os.MkdirAll) }

func (j judge) makeDir(path string, mkdir func(string, fs.FileMode) error) error {
	if _, err := j.resolve(path); errors.Is(err, ErrNotOurs) {
		return err
	}
	if err := mkdir(path, 0o700); err != nil {
		return err
	}
	_, err := j.resolve(path)
	return err
}

// Open opens a regular file for reading, and judges it once more by its handle. Open does not block on a FIFO. A file
// of another kind is an [corebot.ErrInvalid], and a missing file is an error. The caller closes the file.
func Open(path string) (*os.File, fs.FileInfo, error) {
	j := judge{os.Geteuid()}
	real, info, shut, err := j.walk(path)
	if err == nil && !info.Mode().IsRegular() { // opening a device can do something
		err = notRegular(path)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path)
	}
	if err == nil {
		err = j.target(real, info, shut)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

func notRegular(path string) error {
	return fmt.Errorf("%w: %s is not a regular file", corebot.ErrInvalid, path)
}

// walk goes along a path from the root down, and judges every directory on the way. It gives the real path, what is at
// its end, and whether a directory above the end shuts others out. It does not judge the end itself: see target.
func (j judge) walk(path string) (_ string, _ fs.FileInfo, shut bool, _ error) {
	rest, err := filepath.Abs(path)
	if err != nil {
		return "", nil, false, err
	}
	at, info, links, door := "/", fs.FileInfo(nil), 0, shutDoor{}
	for {
		if info, err = os.Lstat(at); err != nil {
			return "", nil, false, fmt.Errorf("open %s: %w", path, cause(err))
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if links++; links > maxLinks {
				return "", nil, false, fmt.Errorf("%s: %w", path, syscall.ELOOP)
			}
			link, err := os.Readlink(at)
			if err != nil {
				return "", nil, false, err
			}
			if at = filepath.Dir(at); filepath.IsAbs(link) {
				at = "/"
			}
			rest = link + "/" + rest // as it is: what ".." means depends on the links before it
			continue
		}
		door = door.at(at, info)
		shut = door.shuts(at)
		name, more, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		if name == "" {
			return at, info, shut, nil
		}
		next := filepath.Join(at, name) // at has no links in it, so that this is true for ".." too
		if err := j.way(at, info, next, shut); err != nil {
			return "", nil, false, err
		}
		at, rest = next, more
	}
}

// cause is the reason in an error of package os, without the path: that path is only one step of the walk.
func cause(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// way judges a directory on the way by whether others can exchange its entry next. A user who is shut out cannot do so
// now, but can have left an entry of his own before: so the entry's owner is judged too.
func (j judge) way(dir string, info fs.FileInfo, next string, shut bool) error {
	uid, gid := owner(info)
	shared := info.Mode().Perm()&0o002 != 0 || info.Mode().Perm()&0o020 != 0 && gid != 0
	switch {
	case !info.IsDir():
		return &fs.PathError{Op: "open", Path: next, Err: syscall.ENOTDIR}
	case !j.trusts(uid):
		otherwise := ""
		if dir != "/" {
			otherwise = fmt.Sprintf("; or move %s to a place that is not below %s", next, dir)
		}
		return j.foreign(dir, uid, otherwise)
	case !shared:
		return nil
	case !shut && info.Mode()&fs.ModeSticky == 0:
		return j.writable(dir, info, "")
	}
	entry, err := os.Lstat(next)
	if err != nil { // it is missing: the walk's next step returns that error
		return nil
	}
	if uid, _ := owner(entry); !j.trusts(uid) {
		return j.foreign(next, uid, "")
	}
	return nil
}

// target judges what is at the end of a path. Here the rights of root's group count too.
func (j judge) target(path string, info fs.FileInfo, shut bool) error {
	uid, _ := owner(info)
	switch {
	case !j.trusts(uid):
		return j.foreign(path, uid, fmt.Sprintf(", or give it to that user: chown %s %s", j.name(), quoted(path)))
	case info.Mode().Perm()&0o022 != 0 && (!shut || hardLinks(info) > 1):
		return j.writable(path, info, fmt.Sprintf("chown %s %s && ", j.name(), quoted(path)))
	}
	return nil
}

// trusts holds for root and for the user who runs Corebot.
func (j judge) trusts(uid int) bool { return uid == 0 || uid == j.uid }

func (j judge) name() string { return nameOf(j.uid) }

// foreign is the error about a path of another user. otherwise ends the hint.
func (j judge) foreign(path string, uid int, otherwise string) error {
	if !isMapped(uid) {
		return corebot.WithHint(fmt.Errorf("%w: %s belongs to a user whom the user namespace of Corebot (%s) does "+
			"not know", ErrNotOurs, path, described(j.uid)),
			fmt.Sprintf(
				"run Corebot outside of that namespace (without unshare -r), or in one that knows the owner of %s",
				path))
	}
	return corebot.WithHint(fmt.Errorf("%w: %s belongs to another user, %s, and Corebot runs as %s", ErrNotOurs, path,
		described(uid), described(j.uid)),
		fmt.Sprintf("run Corebot as its owner (sudo -u %s corebot ..., or docker run --user %d)%s", nameOf(uid), uid,
			otherwise))
}

// writable is the error about a path that others can write. chown is a shell command in front of the chmod in the hint.
// The hint has it only if the path is root's, so that root must do both. Corebot's user could not use a home that
// stays root's.
func (j judge) writable(path string, info fs.FileInfo, chown string) error {
	who, mode := "its group", "g-w"
	switch info.Mode().Perm() & 0o022 {
	case 0o002:
		who, mode = "everyone", "o-w"
	case 0o022:
		who, mode = "everyone", "go-w"
	}
	mend := fmt.Sprintf("chmod %s %s", mode, quoted(path))
	if uid, _ := owner(info); uid != j.uid && j.uid != 0 {
		mend = "as root: " + chown + mend
	}
	return corebot.WithHint(fmt.Errorf("%w: %s can be written by %s (mode %04o)", ErrNotOurs, path, who,
		info.Mode().Perm()),
		"look whether somebody has changed what is there, then: "+mend)
}

// Elsewhere is the hint for a file or directory that could not be made in dir, which belongs to Corebot's home. Where
// only rights are missing, root can give dir to Corebot's user.
func Elsewhere(err error, dir string) string { return judge{os.Geteuid()}.elsewhere(err, dir) }

func (j judge) elsewhere(err error, dir string) string {
	const other = "choose a home that Corebot can write to, with --home or COREBOT_HOME"
	if j.uid == 0 || !errors.Is(err, fs.ErrPermission) {
		return other
	}
	return fmt.Sprintf("%s, or as root: mkdir -p %s && chown %s %[2]s", other, quoted(dir), j.name())
}

// hardLinks is how many names a file has. A directory has 1: the links that the kernel counts for it are those of its
// own entries.
func hardLinks(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && !info.IsDir() {
		return uint64(stat.Nlink) //nolint:unconvert // its type is not the same everywhere
	}
	return 1
}

// owner is the user and group of a file: -1 and -1, which nobody trusts, where the platform does not tell.
func owner(info fs.FileInfo) (uid, gid int) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid), int(stat.Gid)
	}
	return -1, -1
}

// nameOf is the name of a user, or the number of one without a name.
func nameOf(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return cmp.Or(u.Username, strconv.Itoa(uid))
	}
	return strconv.Itoa(uid)
}

func described(uid int) string {
	if name := nameOf(uid); name != strconv.Itoa(uid) {
		return fmt.Sprintf("%s (%d)", name, uid)
	}
	return fmt.Sprintf("user %d", uid)
}

// quoted is a path as a POSIX shell reads it.
func quoted(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("/._-+@:,", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') &&
			(r < 'a' || r > 'z')
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
