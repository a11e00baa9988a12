//go:build faults

package fault

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// The process kills itself when the point COREBOT_FAULT names, as "what.when" or "what.when#n" for the nth time, is
// reached.
var (
	target, nth = parse(os.Getenv("COREBOT_FAULT"))
	seen        atomic.Int64
)

func parse(s string) (string, int64) {
	name, count, found := strings.Cut(s, "#")
	n, err := strconv.ParseInt(count, 10, 64)
	if !found || err != nil {
		return s, 1
	}
	return name, n
}

// Point marks a place where a crash is tried: SIGKILL, so that nothing gets to clean up.
func Point(what, when string) {
	if what+"."+when == target && seen.Add(1) == nth {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
