// Package fault kills the process at a named point, for the tests that prove what a crash cannot break. It also has a
// part stand still there, for the tests that prove what a watchdog notices. It does so only in a program that the
// linker has armed:
//
//	go build -ldflags '-X github.com/corebot/corebot/internal/fault.armed=yes' ./cmd/corebot
//
// In every other program a point does nothing, whatever the environment says. A build tag would say the same, but every
// package above this one would be compiled twice.
package fault

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// armed is set by the linker, and by nothing else.
var armed string

// plan is what COREBOT_FAULT says. The process dies at the point "what.when" when it is reached for the first time, and
// at "what.when#n" the nth time. With "stall:DIR" it waits at a point as long as the directory has a file of the name
// "what.when". With "soon:" before it, work in the background that a start puts off begins at once.
type plan struct {
	soon   bool
	point  string
	nth    int64
	seen   atomic.Int64
	stalls string
}

var planned = newPlan(os.Getenv("COREBOT_FAULT"))

func newPlan(s string) *plan {
	if rest, soon := strings.CutPrefix(s, "soon:"); soon {
		p := newPlan(rest)
		p.soon = true
		return p
	}
	if dir, stalls := strings.CutPrefix(s, "stall:"); stalls {
		return &plan{stalls: dir}
	}
	point, count, found := strings.Cut(s, "#")
	n, err := strconv.ParseInt(count, 10, 64)
	if !found || err != nil {
		return &plan{point: s, nth: 1}
	}
	return &plan{point: point, nth: n}
}

// Point marks a place where a crash is tried: what is done, and whether the place is before or after it. It is also a
// place where a part can be made to stand still.
func Point(what, when string) {
	if armed != "" {
		planned.meet(what + "." + when)
	}
}

// PutOff is how long a start puts off work in the background: d, or not at all for a test that has the program die in
// that work.
func PutOff(d time.Duration) time.Duration {
	if armed != "" && planned.soon {
		return 0
	}
	return d
}

func (p *plan) meet(point string) {
	if point == p.point && p.seen.Add(1) == p.nth {
		die()
	}
	for p.stalled(point) {
		time.Sleep(time.Millisecond)
	}
}

func (p *plan) stalled(point string) bool {
	if p.stalls == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(p.stalls, point))
	return err == nil
}

// die ends the process by SIGKILL, so that nothing gets to clean up.
func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}
