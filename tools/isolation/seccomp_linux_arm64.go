package isolation

import "golang.org/x/sys/unix"

const (
	nativeArch   = unix.AUDIT_ARCH_AARCH64
	foreignCalls = 0x40000000 // there are none
)

func neverHere() []uint32    { return nil }
func leftOpenHere() []uint32 { return nil }
