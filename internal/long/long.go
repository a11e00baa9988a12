// Package long gives suites of tests two forms. `go test ./...` plays the short form, which exercises each guard once
// and takes a second or two. `scripts/long` sets the flag -long, and plays the wide form: every step, every item, more
// rounds. .ci/run plays it for each change.
//
// A test binary has the flag only if its package imports this one. scripts/long names the tests that have a wide form.
package long

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var wanted = flag.Bool("long", false, "play the wide forms of the suites, as scripts/long does")

// Or gives short in `go test`, and wide under -long. A test calls it while it runs, when the flags are known.
func Or[T any](short, wide T) T {
	if *wanted {
		return wide
	}
	return short
}

// Only leaves a test out of the short form. The test that it names exercises the same guard there. The race detector
// watches all the same, as scripts/long is played without it.
func Only(t testing.TB, instead string) {
	t.Helper()
	if !*wanted && !RaceDetector {
		t.Skip("scripts/long plays this; in the short form there is " + instead)
	}
}

// Int defines a flag for how much a suite tries. Without the flag the number is short, or wide under -long.
func Int(name string, short, wide int, usage string) func() int {
	given := flag.Int(name, -1, fmt.Sprintf("%s (%d by default, %d with -long)", usage, short, wide))
	return func() int {
		if *given >= 0 {
			return *given
		}
		return Or(short, wide)
	}
}

// Every gives each nth of the values, the first and the last among them, and all of them under -long.
func Every[T any](n int, all []T) []T {
	some := make([]T, 0, len(all)/n+2)
	for i, v := range all {
		if i%n == 0 || i == len(all)-1 {
			some = append(some, v)
		}
	}
	return Or(some, all)
}

// Duration is [Int] for how long a suite goes on.
func Duration(name string, short, wide time.Duration, usage string) func() time.Duration {
	given := flag.Duration(name, 0, fmt.Sprintf("%s (%v by default, %v with -long)", usage, short, wide))
	return func() time.Duration {
		if *given > 0 {
			return *given
		}
		return Or(short, wide)
	}
}
