//go:build linux && (amd64 || arm64)

package isolation

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// execute replaces this process by a program. allow is told the listener of the filter, if there is one: whoever is
// behind it lets this call through. The listener ends with this process image, since the kernel opened it to be closed
// then. From there on nobody listens, and the kernel answers every such call with ENOSYS: in the program, in all that
// it forks, for ever.
func (r *request) execute(listener int, allow chan<- int) error {
	path, err := unix.BytePtrFromString(r.Program)
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(r.Argv)
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings(r.Env)
	if err != nil {
		return err
	}
	if listener != 0 {
		allow <- listener
	}
	for range 100 {
		// Not [syscall.Exec]: it keeps the scheduler waiting meanwhile, and the listener needs it.
		_, _, errno := syscall.Syscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)),
			uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
		if err = errno; errno != unix.EAGAIN { // which some kernels say while a thread is being made
			break
		}
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(path)
	runtime.KeepAlive(argv)
	runtime.KeepAlive(env)
	return fmt.Errorf("execute %s: %w", r.Program, err)
}

// notification and answer are struct seccomp_notif and struct seccomp_notif_resp.
type (
	notification struct {
		id         uint64
		pid, flags uint32
		data       [64]byte
	}
	answer struct {
		id     uint64
		value  int64
		errno  int32
		repeat uint32 // the flags
	}
)

// letThrough answers what comes out of a listener, until it has let a call through: one that a signal has interrupted
// comes again. It runs on a thread that no filter holds, and ends with the process image.
func letThrough(listeners <-chan int) {
	listener := <-listeners
	for {
		var asked notification
		if errno := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&asked)); errno != 0 {
			if errors.Is(errno, unix.EINTR) || errors.Is(errno, unix.ENOENT) {
				continue
			}
			return
		}
		goOn := answer{id: asked.id, repeat: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		// ENOENT: it was interrupted, and comes again
		_ = control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&goOn))
	}
}

func control(fd int, request uint, arg unsafe.Pointer) syscall.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
	return errno
}
