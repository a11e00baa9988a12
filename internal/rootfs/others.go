package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/corebot/corebot"
)

// Rights that a new file or directory of others never has: those of writers who are neither its owner nor of its group.
const (
	newFile = 0o664
	newDir  = 0o775
)

// likeOld gives a file, before it takes its name, the mode, the owner and the group of the file that it replaces. Where
// there is none, its rights are those that are given, or else those of its directory.
func likeOld(at *os.Root, name string, f *os.File, given fs.FileMode) error {
	old, err := at.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if given != 0 {
			return f.Chmod(given.Perm())
		}
		dir, err := at.Stat(".")
		if err != nil {
			return err
		}
		return f.Chmod(dir.Mode().Perm()&newFile | 0o600)
	}
	if err != nil {
		return err
	}
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if uid, gid := ownerOf(old); !sameOwner(now, old) {
		if err := f.Chown(uid, gid); err != nil {
			return corebot.WithHint(fmt.Errorf("%w: it belongs to the user %d and the group %d, who would lose it",
				fs.ErrPermission, uid, gid), "have its owner change it, or give the file to the user of Corebot")
		}
	}
	return f.Chmod(old.Mode().Perm())
}

// openAsParent gives a new directory the rights of the one that it is in.
func openAsParent(at, made *os.Root) error {
	parent, err := at.Stat(".")
	if err != nil {
		return err
	}
	return made.Chmod(".", parent.Mode().Perm()&newDir|0o700)
}

func sameOwner(a, b fs.FileInfo) bool {
	uidA, gidA := ownerOf(a)
	uidB, gidB := ownerOf(b)
	return uidA == uidB && gidA == gidB
}

// Stat tells of what is at a path; a link is told of as a link.
func (r *Root) Stat(file string) (info fs.FileInfo, err error) {
	clean, err := Clean(file)
	if err != nil {
		return nil, err
	}
	if clean == "." {
		return r.Info()
	}
	err = r.in(clean, false, func(at *os.Root, name string) (err error) {
		info, err = at.Lstat(name)
		return bare(err)
	})
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", clean, err)
	}
	return info, nil
}
