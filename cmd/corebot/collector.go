package main

import (
	"os"
	"runtime/debug"
)

// heapGrowth is by how much, in percent, the heap of a daemon grows between two collections. Beside Go's 100 a turn
// takes about a tenth less of the processor, for some ten megabytes under load; 300 would take five percent less again,
// for forty more (docs/performance.md).
const heapGrowth = 200

// growHeap sets the collector for a daemon that has started: what the start leaves is collected as usual. GOGC, where
// it is set, says it instead.
func growHeap() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}
