//go:build linux && (amd64 || arm64)

package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// roomEntry is something of the outside that is put into a room under the same name.
type roomEntry struct {
	path string
	link string // what a symbolic link says; then there is nothing else
	tree int    // a copy of the mount that is there
	dir  bool
}

// enterRoom makes a new root with only the files that the program may see, and makes it the root of this process. The
// worker has mount and user namespaces of its own, so nobody else notices. Files in the new root keep their
// permissions; Landlock later keeps them from being written.
func (r *request) enterRoom() error {
	unix.Umask(0) // the room is for the program's user, whatever Corebot's umask is; the program gets one of its own
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	own, err := r.ownMounts()
	if err != nil {
		return err
	}
	all, err := r.entries()
	if err != nil {
		return err
	}
	// Any directory that surely exists would do: what it holds is covered here only, and was copied above where it is
	// needed.
	const root = "/tmp"
	if err := unix.Mount("corebot", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		fmt.Sprintf("mode=0755,size=%d,nr_inodes=16384", roomTmpSize)); err != nil {
		return fmt.Errorf("mount an empty root: %w", err)
	}
	if !r.Sandbox {
		if err := r.makeOwn(root + roomTmp); err != nil {
			return err
		}
	}
	for _, f := range append(all, own...) {
		if err := f.place(root); err != nil {
			return err
		}
	}
	if r.Sandbox {
		if err := r.furnishSandbox(root); err != nil {
			return err
		}
	}
	return turnRoot(root)
}

// ownMounts are the directories that are the program's own.
func (r *request) ownMounts() ([]roomEntry, error) {
	if r.Sandbox {
		return r.sandboxMounts()
	}
	work, err := mountOf(r.Dir, roomDir, unix.MOUNT_ATTR_NOEXEC)
	return []roomEntry{work}, err
}

// mountOf copies the mount of a directory to put it elsewhere. Set-uid programs and devices have no effect there. The
// attributes close more: Landlock alone would let a program load a library that was written there.
func mountOf(path, as string, attributes uint64) (roomEntry, error) {
	tree, err := copyMount(path, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return roomEntry{}, err
	}
	set := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | attributes}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &set); err != nil {
		return roomEntry{}, fmt.Errorf("bound what can be done in %s: %w", path, err)
	}
	return roomEntry{path: as, tree: tree, dir: true}, nil
}

// makeOwn makes a directory that belongs to whom the program will be.
func (r *request) makeOwn(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil || r.UID == 0 {
		return err
	}
	return os.Chown(dir, r.UID, r.UID)
}

// turnRoot makes dir the root and lets go of the old one.
func turnRoot(dir string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil { // the old root lies over the new one
		return fmt.Errorf("let go of the old root: %w", err)
	}
	return os.Chdir("/")
}

// entries collects what the program may see. A path below another comes with that other path.
func (r *request) entries() (all []roomEntry, err error) {
	var in []string
	for _, path := range r.sight() {
		if containsAny(in, path) {
			continue
		}
		f, err := bring(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, f)
		if f.link == "" {
			in = append(in, path)
		}
	}
	return all, nil
}

func bring(path string) (roomEntry, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return roomEntry{}, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		link, err := os.Readlink(path)
		return roomEntry{path: path, link: link}, err
	}
	tree, err := copyMount(path, 0)
	return roomEntry{path: path, tree: tree, dir: info.IsDir()}, err
}

// copyMount holds what is at a path so that it can be put elsewhere.
func copyMount(path string, flags uint) (int, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|flags)
	if err != nil {
		return 0, &fs.PathError{Op: "copy the mount of", Path: path, Err: err}
	}
	return tree, nil
}

// place puts a thing under its name below root.
func (f roomEntry) place(root string) error {
	path := filepath.Join(root, f.path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch {
	case f.link != "":
		return os.Symlink(f.link, path)
	case f.dir:
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	default:
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
	}
	defer unix.Close(f.tree) //nolint:errcheck // the mount is in its place, or the worker gives up
	if err := unix.MoveMount(f.tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("put %s into the room: %w", strings.TrimPrefix(path, root), err)
	}
	return nil
}

// sight is everything of the system that the program may see, larger things first.
func (r *request) sight() []string {
	all := append(r.directories(), r.files()...)
	all = append(all, devices()...)
	for _, path := range []string{r.Program, r.Interpreter} {
		if path != "" {
			all = append(all, path)
		}
	}
	return all
}

// ownedMount copies the mount of a directory. There, the user of programs stands for the owner of the directory, and
// the other way round. So programs do what the owner may, and no program is the owner anywhere else.
func ownedMount(dir string, uid int, write bool) (*os.File, error) {
	if uid == 0 {
		return nil, errors.New("programs are who Corebot is")
	}
	fd, err := copyMount(dir, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	tree := os.NewFile(uintptr(fd), dir)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, errors.Join(fmt.Errorf("look at %s: %w", dir, err), tree.Close())
	}
	ids, err := namespaceOf(swap(int(stat.Uid), uid), swap(int(stat.Gid), uid))
	if err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	defer ids.Close() //nolint:errcheck // the mount has its own
	set := unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Userns_fd: uint64(ids.Fd()),
	}
	if !write {
		set.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &set); err != nil {
		return nil, errors.Join(fmt.Errorf("map the owner of %s: %w", dir, err), tree.Close())
	}
	return tree, nil
}

// namespaceOf makes a user namespace, which says how ids are mapped. It needs a process to be made: a worker that never
// gets its request.
func namespaceOf(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
	requests, request, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer request.Close() //nolint:errcheck // nothing was written
	holder := exec.Command("/proc/self/exe", WorkerCommand)
	holder.Args[0], holder.Dir, holder.Env = os.Args[0], "/", []string{"GOTRACEBACK=none"}
	holder.ExtraFiles = []*os.File{requests}
	holder.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Cloneflags: unix.CLONE_NEWUSER, UidMappings: uids, GidMappings: gids,
	}
	err = holder.Start()
	_ = requests.Close() // the holder has its own
	if err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	ids, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", holder.Process.Pid))
	_ = holder.Process.Kill()
	_ = holder.Wait() // it was killed
	return ids, err
}

// swap maps ids so that two of them stand for each other, and every other one for itself.
func swap(a, b int) (all []syscall.SysProcIDMap) {
	const ids = 1<<31 - 1
	low, high := min(a, b), max(a, b)
	for _, m := range []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: 0, Size: low},
		{ContainerID: low, HostID: high, Size: 1},
		{ContainerID: low + 1, HostID: low + 1, Size: high - low - 1},
		{ContainerID: high, HostID: low, Size: 1},
		{ContainerID: high + 1, HostID: high + 1, Size: ids - high - 1},
	} {
		if m.Size > 0 && (low != high || m.Size > 1) {
			all = append(all, m)
		}
	}
	if low == high {
		all = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: ids}}
	}
	return all
}
