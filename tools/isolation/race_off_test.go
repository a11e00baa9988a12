//go:build !race

package isolation

const raceDetector = false
