package owned

import (
	"io/fs"
	"strings"
)

// shutDoor is a directory on the way that only root and Corebot's user can search. Nobody else gets at what is below
// it.
type shutDoor struct {
	path  string // empty: there is none
	mount uint64
}

// at is the door that holds once the way has come to a place. A link or ".." can leave the directory. A mount below the
// directory can be reached at its source.
func (d shutDoor) at(path string, info fs.FileInfo) shutDoor {
	mount, known := mountOf(path)
	if d.shuts(path) && known && mount == d.mount {
		return d
	}
	if known && info.IsDir() && info.Mode().Perm()&0o011 == 0 {
		return shutDoor{path, mount}
	}
	return shutDoor{}
}

// shuts holds for what is below the door.
func (d shutDoor) shuts(path string) bool {
	return d.path != "" && strings.HasPrefix(path, strings.TrimSuffix(d.path, "/")+"/") && path != d.path
}
