package webhook

import (
	"sync"

	"github.com/corebot/corebot"
)

// wakes tells those who wait for replies of a conversation that there are some. A wake carries nothing and is never lost: one that was
// not taken yet stands for all that came since. The zero wakes is ready to use.
type wakes struct {
	mu       sync.Mutex
	watchers map[corebot.Key]map[chan struct{}]struct{}
}

// watch gives a channel that a wake of k can be received from, until stop is called.
func (w *wakes) watch(k corebot.Key) (wake <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchers == nil {
		w.watchers = make(map[corebot.Key]map[chan struct{}]struct{})
	}
	if w.watchers[k] == nil {
		w.watchers[k] = make(map[chan struct{}]struct{})
	}
	w.watchers[k][c] = struct{}{}
	return c, func() { w.remove(k, c) }
}

func (w *wakes) remove(k corebot.Key, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watchers[k], c)
	if len(w.watchers[k]) == 0 {
		delete(w.watchers, k)
	}
}

// wake never blocks.
func (w *wakes) wake(k corebot.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.watchers[k] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
