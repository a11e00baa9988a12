//go:build !faults

// Package fault kills the process at a named point, for the tests that prove what a crash cannot break. It also has a
// part stand still there, for the tests that prove what a watchdog notices. It does so only in binaries built with the
// tag "faults"; in every other one a point is nothing.
package fault

// Point marks a place where a crash is tried: what is done, and whether the place is before or after it.
func Point(_, _ string) {}
