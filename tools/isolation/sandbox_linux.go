//go:build linux && (amd64 || arm64)

package isolation

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// hostsFile is what names mean in a sandbox: its own machine, and nothing else. There is no DNS.
const hostsFile = "127.0.0.1 localhost\n::1 localhost\n"

// sandboxMounts are the chat's files, the chat's home, a temporary directory, and the directories of the owner, the
// outer ones first.
func (r *request) sandboxMounts() (all []roomEntry, err error) {
	add := func(path, as string, attributes uint64) {
		if err == nil {
			var f roomEntry
			f, err = mountOf(path, as, attributes)
			all = append(all, f)
		}
	}
	add(r.Dir, roomDir, 0)
	add(r.Tmp, roomTmp, 0)
	add(r.Home, roomHome, 0)
	for _, m := range r.Mounts {
		if tree, made := r.Trees[m.Path]; made {
			all = append(all, roomEntry{path: m.Path, tree: tree, dir: true})
			continue
		}
		readOnly := uint64(unix.MOUNT_ATTR_RDONLY)
		if m.Write {
			readOnly = 0
		}
		add(cmp.Or(m.From, m.Path), m.Path, readOnly)
	}
	return all, err
}

// emptyDir has what lies over hidden files and directories.
const emptyDir = "/.empty"

// coverMounts hides parts of the mounts, and keeps parts from being changed. A part that is a mount of its own cannot
// be renamed or removed either.
func (r *request) coverMounts(root string) error {
	empty := root + emptyDir
	// The directory around them stays writable until both are there: rights hold for every user but root.
	if err := os.Mkdir(empty, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(empty+"/dir", 0o555); err != nil {
		return err
	}
	if err := os.WriteFile(empty+"/file", nil, 0o444); err != nil {
		return err
	}
	for _, m := range r.Mounts {
		if m.Write {
			for _, path := range m.Keep {
				if err := coverWith(root+m.Path, path, func(fd int, _ bool) (int, error) {
					return unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|
						unix.AT_RECURSIVE)
				}); err != nil {
					return err
				}
			}
		}
		for _, path := range m.Hide {
			if err := coverWith(root+m.Path, path, func(_ int, dir bool) (int, error) {
				if dir {
					return copyMount(empty+"/dir", 0)
				}
				return copyMount(empty+"/file", 0)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// coverWith puts a mount that can only be read over a path below a directory. No link is followed to the path, whatever
// other programs exchange meanwhile.
func coverWith(dir, path string, by func(fd int, dir bool) (tree int, err error)) error {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("close %s to programs: %w", path, err)
	}
	defer unix.Close(at) //nolint:errcheck // a path without a file behind it
	fd, err := unix.Openat2(at, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return fmt.Errorf("close %s to programs: %w", path, err)
	}
	defer unix.Close(fd) //nolint:errcheck // the same
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("close %s to programs: %w", path, err)
	}
	tree, err := by(fd, stat.Mode&unix.S_IFMT == unix.S_IFDIR)
	if err != nil {
		return fmt.Errorf("close %s to programs: %w", path, err)
	}
	defer unix.Close(tree) //nolint:errcheck // the mount is in its place, or the worker gives up
	// The copy has no set-uid and no devices, as the mount that it was made of.
	set := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &set)
	if err == nil {
		err = unix.MoveMount(tree, "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	}
	if err != nil {
		return fmt.Errorf("close %s to programs: %w", path, err)
	}
	return nil
}

// furnishSandbox adds what programs expect of a machine: its own processes, the name localhost, and standard streams by
// name. A kernel that mounts no list of the room's own processes gives none.
func (r *request) furnishSandbox(root string) error {
	if err := r.coverMounts(root); err != nil {
		return err
	}
	if err := os.MkdirAll(root+"/proc", 0o755); err != nil {
		return err
	}
	_ = unix.Mount("proc", root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "subset=pid")
	if err := os.WriteFile(root+"/etc/hosts", []byte(hostsFile), 0o644); err != nil {
		return err
	}
	for name, to := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(to, filepath.Join(root, "dev", name)); err != nil {
			return err
		}
	}
	return nil
}

// fenceSandbox says which files are open in a sandbox. The room has nothing else; the fence holds if the room does not.
func (r *request) fenceSandbox(version int) (*fence, error) {
	f, err := newFence(version, true)
	if err != nil {
		return nil, err
	}
	write := []string{roomDir, roomTmp, roomHome}
	read := append(r.directories(), r.Readable...)
	for _, m := range r.Mounts {
		if m.Write {
			write = append(write, m.Path)
		} else {
			read = append(read, m.Path)
		}
	}
	return f, errors.Join(
		f.openAll(read, mayExecute),
		f.openAll(append(r.files(), "/etc/hosts", "/proc"), mayRead),
		f.openAll(devices(), mayUse),
		f.openAll(write, mayWrite|mayExecute))
}

// openNetwork brings the room's own loopback up. If the sandbox has a network, a listener there is handed to Corebot,
// which serves it: a socket stays in the network in which it was made. There is no other way out.
func (r *request) openNetwork() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the room's network: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // only asked through
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	loopback.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, loopback); err != nil {
		return fmt.Errorf("bring the room's loopback up: %w", err)
	}
	if !r.Network {
		return nil
	}
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make the room's way out: %w", err)
	}
	defer unix.Close(listener) //nolint:errcheck // Corebot has its own
	err = unix.Bind(listener, &unix.SockaddrInet4{Port: proxyPort, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.Listen(listener, 128)
	}
	if err == nil {
		err = unix.Sendmsg(networkFD, []byte{0}, unix.UnixRights(listener), nil, 0)
	}
	if err != nil {
		return fmt.Errorf("make the room's way out: %w", err)
	}
	return nil
}

// attendNetwork takes the listener of a sandbox and has it served until the worker has ended.
func (w *worker) attendNetwork(from *os.File, serve func(net.Listener)) {
	conn, err := net.FileConn(from)
	_ = from.Close() // conn has its own
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // nothing else comes
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return
	}
	control := make([]byte, handleSpace)
	_, n, _, _, err := unixConn.ReadMsgUnix(make([]byte, 1), control)
	if err != nil || n == 0 {
		return // the worker ended before
	}
	handle, err := parseHandle(control[:n])
	if err != nil {
		return
	}
	listener, err := net.FileListener(handle)
	_ = handle.Close() // the listener has its own
	if err != nil {
		return
	}
	go func() {
		<-w.done
		_ = listener.Close()
	}()
	serve(listener)
}

// becomeNamed replaces this process by the program that the arguments name, looked up as a shell does. It returns the
// exit code, as of a shell: 127 for a program that is not there, 126 for one that cannot be executed.
func (r *request) becomeNamed() int {
	name, code := r.Argv[0], 127
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for dir := range strings.SplitSeq(r.Program, ":") {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	why := error(unix.ENOENT)
	for _, path := range candidates {
		r.Program = path
		err := r.execute(0, nil)
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			why, code = err, 126
			if !errors.Is(err, unix.EACCES) {
				break
			}
		}
	}
	switch {
	case errors.Is(why, unix.ENOENT):
		why = fmt.Errorf("%s: there is no such program in the sandbox", name)
	case errors.Is(why, unix.ENOEXEC):
		why = fmt.Errorf("%s is no program: a script begins with #! and the path of its interpreter", name)
	default:
		why = cmp.Or(errors.Unwrap(why), why)
		why = fmt.Errorf("%s cannot be executed: %w", name, why)
	}
	fmt.Fprintln(os.Stderr, "corebot:", why)
	return code
}
