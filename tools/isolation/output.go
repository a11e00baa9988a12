package isolation

import "sync"

// output keeps the beginning of what a program prints, and counts the rest. It never blocks the program for good: what is too much is read and
// dropped.
type output struct {
	mu      sync.Mutex
	limit   int
	kept    []byte
	dropped int64
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	keep := min(len(p), o.limit-len(o.kept))
	o.kept = append(o.kept, p[:keep]...)
	o.dropped += int64(len(p) - keep)
	return len(p), nil
}

func (o *output) take() (text string, dropped int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept), o.dropped
}
