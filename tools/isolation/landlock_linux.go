//go:build linux && (amd64 || arm64)

package isolation

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The rights of a program on a file, or below a directory.
const (
	mayRead    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	mayExecute = mayRead | unix.LANDLOCK_ACCESS_FS_EXECUTE
	mayUse     = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE // a device
	// mayWrite is everything but executing, and making what is no file, directory, link or pipe.
	mayWrite = mayUse | mayRead | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// ofFiles are the rights that a rule for something other than a directory may have.
	ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockVersion is the kernel's interface version, from 1 on.
func landlockVersion() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("this kernel has no Landlock, or it is not enabled: %w", errno)
	}
	return int(version), nil
}

// fence is a set of Landlock rules under construction. A right that no rule names is closed.
type fence struct {
	fd      int
	handled uint64
}

// newFence closes all that a version can close. With ownNetwork, programs may use TCP: their network has only them.
func newFence(version int, ownNetwork bool) (*fence, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1}
	if version >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 && !ownNetwork {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	// older kernels take what they do not know if it is zero
	const size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return nil, fmt.Errorf("create a Landlock ruleset: %w", errno)
	}
	return &fence{int(fd), attr.Handled_access_fs}, nil
}

// open lets programs use what is at a path. A path that does not exist is left out.
func (f *fence) open(path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd) //nolint:errcheck // a path without a file behind it
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= ofFiles
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access & f.handled, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(f.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("open %s to programs: %w", path, errno)
	}
	return nil
}

// openAll opens several paths in the same way.
func (f *fence) openAll(paths []string, access uint64) error {
	for _, path := range paths {
		if err := f.open(path, access); err != nil {
			return err
		}
	}
	return nil
}

// close puts the calling thread, and whatever it executes, behind the fence. no_new_privs must be set.
func (f *fence) close() error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(f.fd), 0, 0); errno != 0 {
		return fmt.Errorf("go behind the Landlock ruleset: %w", errno)
	}
	return unix.Close(f.fd)
}
