package channels

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
)

// StartTime is how long a message waits for a channel that has not begun to run.
const StartTime = 5 * time.Second

// Entrance holds the door of a channel that programs or pages of this process call. They are there a moment before the
// channel runs, and their messages wait for it. It is safe for use by several goroutines.
type Entrance struct {
	door   atomic.Pointer[Door] // while the channel runs
	opened chan struct{}        // closed when the channel runs for the first time
	once   sync.Once
}

// NewEntrance makes the entrance of a channel that does not run yet.
func NewEntrance() *Entrance { return &Entrance{opened: make(chan struct{})} }

// Open lets messages in, until shut is called.
func (e *Entrance) Open(door Door) (shut func()) {
	e.door.Store(&door)
	e.once.Do(func() { close(e.opened) })
	return func() { e.door.Store(nil) }
}

// Door is the door of the running channel. Before the channel runs for the first time, Door waits for it, at most
// [StartTime] or until ctx ends. The error for a channel that does not run is [corebot.ErrClosed].
func (e *Entrance) Door(ctx context.Context) (Door, error) {
	late := time.NewTimer(StartTime)
	defer late.Stop()
	select {
	case <-e.opened:
	case <-late.C:
	case <-ctx.Done():
	}
	if door := e.door.Load(); door != nil {
		return *door, nil
	}
	return nil, corebot.ErrClosed
}
