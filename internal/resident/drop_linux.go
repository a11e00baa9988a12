package resident

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Drop takes the pages of the program's own file out of the memory of this process. Call it once the start is over.
func Drop() error {
	self, err := os.Readlink("/proc/self/exe") // with " (deleted)" behind it, if it is, as in smaps
	if err != nil {
		return fmt.Errorf("find the file of the program: %w", err)
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("look at the memory of the program: %w", err)
	}
	defer smaps.Close() //nolint:errcheck // only read
	found, err := ofFile(smaps, self)
	if err != nil {
		return fmt.Errorf("read %s: %w", smaps.Name(), err)
	}
	var errs []error
	for _, m := range found {
		if _, _, e := unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED); e != 0 {
			errs = append(errs, fmt.Errorf("drop the pages of %s: %w", self, e))
		}
	}
	return errors.Join(errs...)
}
