package discord

import (
	"strconv"
	"time"
)

// An id of the platform is a snowflake: a number that begins with the time at which it was made. So ids are in the
// order of time.

// epoch is where the times of ids begin.
var epoch = time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)

// isID says whether a text has the form of an id. Other forms must not get into addresses and logs.
func isID(s string) bool {
	n, err := strconv.ParseUint(s, 10, 63)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == s
}

func number(id string) uint64 {
	n, _ := strconv.ParseUint(id, 10, 63) // no id is the lowest
	return n
}

// madeAt is when an id was made.
func madeAt(id string) time.Time { return epoch.Add(time.Duration(number(id)>>22) * time.Millisecond) }

// firstAt is the lowest id of a time.
func firstAt(t time.Time) string {
	ms := max(t.Sub(epoch).Milliseconds(), 1)
	return strconv.FormatUint(uint64(ms)<<22, 10) //nolint:gosec // positive
}

// later is the higher of two ids.
func later(a, b string) string {
	if number(a) < number(b) {
		return b
	}
	return a
}
