//go:build !linux

package resident

// Drop does nothing.
func Drop() error { return nil }
