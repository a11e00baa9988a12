package exchange

import (
	"context"
	"sync"
	"time"
)

// watchdog cancels when nobody resets it in time. The cause is that of the last reset.
type watchdog struct {
	mu    sync.Mutex
	timer *time.Timer
	cause error
}

func newWatchdog(d time.Duration, cause error, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{cause: cause}
	w.mu.Lock() // the timer must not go off before it is in place
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		cancel(w.cause)
	})
	return w
}

// reset is too late, and does nothing, once the watchdog has barked or was stopped.
func (w *watchdog) reset(d time.Duration, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer.Stop() {
		w.cause = cause
		w.timer.Reset(d)
	}
}

func (w *watchdog) stop() { w.timer.Stop() }
