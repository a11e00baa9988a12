package isolation

import "golang.org/x/sys/unix"

const (
	nativeArch   = unix.AUDIT_ARCH_X86_64
	foreignCalls = 0x40000000 // x32
)

func neverHere() []uint32 {
	return []uint32{
		unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS__SYSCTL, unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
	}
}

func leftOpenHere() []uint32 {
	return []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
}
