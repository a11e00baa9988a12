package roots

import (
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
)

// Rights are what a user can do in a directory, and who owns it.
type Rights struct {
	Owner       int
	Read, Write bool
}

// RightsIn tells the rights of a user whose only group has his number. Where the directory has an access list nobody
// can tell from here: then the user has all.
func RightsIn(dir string, uid int) (Rights, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return Rights{}, fmt.Errorf("look at %s: %w", dir, err)
	}
	r := Rights{Owner: int(st.Uid)}
	if n, err := unix.Lgetxattr(dir, "system.posix_acl_access", nil); err == nil && n > 0 {
		r.Read, r.Write = true, true
		return r, nil
	}
	mode := uint32(st.Mode) //nolint:unconvert // 16 bits on macOS
	switch {
	case r.Owner == uid:
		mode >>= 6
	case int(st.Gid) == uid:
		mode >>= 3
	}
	r.Read, r.Write = mode&5 == 5, mode&7 == 7
	return r, nil
}

// Limits of what is closed to programs: each closed path is a mount, and the whole directory is looked through.
const (
	maxLooked = 300_000
	maxClosed = 512
)

// ClosedToPrograms finds what programs do not see of a directory, as tools do not: files with secrets, by their names.
// It also finds what they only read: directories of version control systems. It follows no link.
func ClosedToPrograms(dir string) (hide, keep []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("look through %s: %w", dir, err)
	}
	defer root.Close() //nolint:errcheck // only read
	looked := 0
	err = fs.WalkDir(root.FS(), ".", func(at string, e fs.DirEntry, err error) error {
		if looked++; looked > maxLooked || len(hide)+len(keep) > maxClosed {
			return corebot.WithHint(fmt.Errorf("%w: %s has too many files to close its secrets to programs",
				corebot.ErrInvalid, dir), "open a smaller directory in tools.roots")
		}
		switch {
		case err != nil || at == "." || e.Type()&fs.ModeSymlink != 0:
			return nil //nolint:nilerr // what nobody can look into, a program cannot either; or it has gone
		case Secret(at):
			hide = append(hide, at)
		case versioned(path.Base(at)):
			keep = append(keep, at)
			for _, name := range []string{"config", "hgrc"} {
				if info, err := root.Lstat(path.Join(at, name)); err == nil && info.Mode().IsRegular() {
					hide = append(hide, path.Join(at, name))
				}
			}
		default:
			return nil
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return hide, keep, nil
}
