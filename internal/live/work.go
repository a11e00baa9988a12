package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/corebot/corebot"
)

// Work is what runs in this process for each conversation: turns, calls of tools, and tools that were left behind. A
// lease says who may work. Work says who still does, also after he has lost his lease. The zero value is ready, and a
// nil one notes nothing.
type Work struct {
	mu sync.Mutex
	of map[corebot.Key]map[*work]struct{}
}

type work struct {
	cancel context.CancelCauseFunc // nil: nothing can end it early
	ended  chan struct{}
}

// Begin notes work of a conversation, and how it is asked to end. The caller says when nothing of it runs any more.
func (w *Work) Begin(k corebot.Key, cancel context.CancelCauseFunc) (ended func()) {
	if w == nil {
		return func() {}
	}
	begun := &work{cancel, make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[corebot.Key]map[*work]struct{}{}
	}
	if w.of[k] == nil {
		w.of[k] = map[*work]struct{}{}
	}
	w.of[k][begun] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.of[k], begun); len(w.of[k]) == 0 {
			delete(w.of, k)
		}
		close(begun.ended)
	}
}

// End asks all that runs for a conversation to end, for a reason, and waits until it has. Where ctx ends before that,
// the error is [corebot.ErrInvalid].
func (w *Work) End(ctx context.Context, k corebot.Key, reason error) error {
	for {
		running := w.running(k)
		if len(running) == 0 {
			return nil
		}
		for _, r := range running {
			if r.cancel != nil {
				r.cancel(reason)
			}
		}
		for _, r := range running {
			select {
			case <-r.ended:
			case <-ctx.Done():
				return fmt.Errorf("%w: something still runs for %s, which is not waited for any longer: %w",
					corebot.ErrInvalid, k, context.Cause(ctx))
			}
		}
	}
}

func (w *Work) running(k corebot.Key) []*work {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.of[k]))
}
