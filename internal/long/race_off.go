//go:build !race

package long

// RaceDetector says whether the race detector watches the tests.
const RaceDetector = false
