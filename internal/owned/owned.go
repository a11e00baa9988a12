// Package owned decides whether the operator alone can change a file: a file that says what Corebot runs, whom it
// trusts, or what its secrets are.
//
// Guarantees, for a path that [Resolve], [Check] or [Open] takes without an error:
//
//   - The file or directory belongs to root or to the user who runs Corebot, and neither its group nor everyone can
//     write it.
//   - Nobody else can put another file in its place. Every directory on the way belongs to root or to that user. None
//     can be written by everyone, or by a group other than root's, unless its sticky bit keeps others from renaming its
//     entries.
//   - Symbolic links are followed. The way to the link and the way behind it are held to the same rules.
//   - Below a directory that only root and that user can search (0700), rights to write mean nothing: nobody else gets
//     there. A file with several hard links has names elsewhere, and a mount is a place elsewhere: their rights count.
//
// The walk goes from the root down. Only root or Corebot's user can exchange a part of the path that the walk has
// passed, so a checked path stays what it was. [Open] looks at the file once more through its handle.
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

// maxLinks is how many symbolic links are followed, as by the kernel.
const maxLinks = 40

// ErrNotOurs is in the error of a path that others can change. It is compared with errors.Is.
var ErrNotOurs = errors.New("others can change it")

// judge holds paths to the rules for one user.
type judge struct{ uid int }

// Check refuses a path that others can change. A path of which the last part does not exist yet is fine if nobody else
// can make it.
func Check(path string) error {
	_, err := Resolve(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Resolve gives the absolute path without symbolic links. The error is [ErrNotOurs] if others can change what is there,
// and fs.ErrNotExist if nothing is and nobody else can change that.
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

// Open opens a plain file for reading. It waits for nobody at a FIFO, and judges the file by its handle.
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

// walk goes along a path from the root down, and judges every directory on the way. It gives what is at the end, and
// whether others are shut out from there.
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
		shut := door.shuts(at)
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

// cause takes the name off an error of package os: it is that of one step.
func cause(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// way judges a directory by whether others can exchange its entry of a name. A user who is shut out cannot, but may
// have been there before.
func (j judge) way(dir string, info fs.FileInfo, next string, shut bool) error {
	uid, gid := owner(info)
	shared := info.Mode().Perm()&0o002 != 0 || info.Mode().Perm()&0o020 != 0 && gid != 0
	switch {
	case !info.IsDir():
		return &fs.PathError{Op: "open", Path: next, Err: syscall.ENOTDIR}
	case !j.trusts(uid):
		or := ""
		if dir != "/" {
			or = fmt.Sprintf("; or move %s to a place that is not below %s", next, dir)
		}
		return j.foreign(dir, uid, or)
	case !shared:
		return nil
	case !shut && info.Mode()&fs.ModeSticky == 0:
		return j.writable(dir, info, "")
	}
	entry, err := os.Lstat(next)
	if err != nil { // nothing is there, which the next step says
		return nil
	}
	if uid, _ := owner(entry); !j.trusts(uid) {
		return j.foreign(next, uid, "")
	}
	return nil
}

// target judges what stands at the end of a path.
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

// foreign is the error about what belongs to somebody else.
func (j judge) foreign(path string, uid int, or string) error {
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
			or))
}

// writable is the error about what others can write. Only root changes the mode of what is root's, and own is what root
// does there first: Corebot's user could do nothing with a home that stays root's.
func (j judge) writable(path string, info fs.FileInfo, own string) error {
	who, mode := "its group", "g-w"
	switch info.Mode().Perm() & 0o022 {
	case 0o002:
		who, mode = "everyone", "o-w"
	case 0o022:
		who, mode = "everyone", "go-w"
	}
	mend := fmt.Sprintf("chmod %s %s", mode, quoted(path))
	if uid, _ := owner(info); uid != j.uid && j.uid != 0 {
		mend = "as root: " + own + mend
	}
	return corebot.WithHint(fmt.Errorf("%w: %s can be written by %s (mode %04o)", ErrNotOurs, path, who,
		info.Mode().Perm()),
		"look whether somebody has changed what is there, then: "+mend)
}

// Elsewhere is the hint for an error of making something in a directory of a home. Where only rights are missing, root
// can give the directory to Corebot's user.
func Elsewhere(err error, dir string) string { return judge{os.Geteuid()}.elsewhere(err, dir) }

func (j judge) elsewhere(err error, dir string) string {
	const other = "choose a home that can be written with --home or COREBOT_HOME"
	if j.uid == 0 || !errors.Is(err, fs.ErrPermission) {
		return other
	}
	return fmt.Sprintf("%s, or as root: mkdir -p %s && chown %s %[2]s", other, quoted(dir), j.name())
}

// hardLinks is how many names a file has. A directory has one, whatever it counts.
func hardLinks(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && !info.IsDir() {
		return uint64(stat.Nlink) //nolint:unconvert // its type is not the same everywhere
	}
	return 1
}

// owner is who a file belongs to.
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

// quoted is a path as a shell takes it.
func quoted(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("/._-+@:,", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') &&
			(r < 'a' || r > 'z')
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
