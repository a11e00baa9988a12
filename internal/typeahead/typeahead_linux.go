package typeahead

import (
	"os"

	"golang.org/x/sys/unix"
)

// How the settings of a terminal are read and written.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)

// waiting is how many bytes of whole lines wait at a terminal.
func waiting(f *os.File) int {
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ)
	if err != nil {
		return 0 // it is no terminal
	}
	return n
}
