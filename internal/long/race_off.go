//go:build !race

package long

// underRace says that the race detector watches.
const underRace = false
