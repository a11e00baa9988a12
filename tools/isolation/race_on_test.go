//go:build race

package isolation

const raceDetector = true
