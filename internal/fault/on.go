//go:build faults

package fault

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// The process kills itself when the point COREBOT_FAULT names, as "what.when" or "what.when#n" for the nth time, is
// reached. With "stall:DIR" it waits at a point as long as the directory has a file of the name "what.when".
var (
	target, nth = parse(os.Getenv("COREBOT_FAULT"))
	seen        atomic.Int64
	stalls, may = strings.CutPrefix(os.Getenv("COREBOT_FAULT"), "stall:")
)

func parse(s string) (string, int64) {
	name, count, found := strings.Cut(s, "#")
	n, err := strconv.ParseInt(count, 10, 64)
	if !found || err != nil {
		return s, 1
	}
	return name, n
}

// Point marks a place where a crash is tried: SIGKILL, so that nothing gets to clean up. It is also a place where a
// part can be made to stand still.
func Point(what, when string) {
	name := what + "." + when
	if name == target && seen.Add(1) == nth {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	for stalled(name) {
		time.Sleep(time.Millisecond)
	}
}

func stalled(name string) bool {
	if !may {
		return false
	}
	_, err := os.Stat(filepath.Join(stalls, name))
	return err == nil
}
