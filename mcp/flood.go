package mcp

import (
	"fmt"
	"time"
)

const (
	floodWindow = time.Second
	floodUnits  = 2_000    // in a window
	floodUnit   = 64 << 10 // bytes that count as one message
)

// flood counts what a server sends without having been asked. It is not safe for use by several goroutines.
type flood struct {
	since time.Time
	units int
}

// add is an error once a server sends more than a server that works would: reading it would cost a processor.
func (f *flood) add(now time.Time, size int) error {
	if now.Sub(f.since) > floodWindow {
		f.since, f.units = now, 0
	}
	f.units += 1 + size/floodUnit
	if f.units > floodUnits {
		return fmt.Errorf("the server floods: more than %d messages that nobody asked for within %v", floodUnits, floodWindow)
	}
	return nil
}
