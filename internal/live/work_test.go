package live

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

func TestWorkOfOneChatIsAskedToEndAndAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Work
		gone, stays := corebot.Key{Chat: "gone"}, corebot.Key{Chat: "stays"}
		var cancels []context.CancelCauseFunc
		begin := func(k corebot.Key) context.Context {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancels = append(cancels, cancel)
			ended := w.Begin(k, cancel)
			go func() {
				<-ctx.Done()
				time.Sleep(time.Second) // it takes its time
				ended()
			}()
			return ctx
		}
		two, other := []context.Context{begin(gone), begin(gone)}, begin(stays)
		left := w.Begin(gone, nil)
		time.AfterFunc(3*time.Second, left)
		reason, began := errors.New("the chat goes"), time.Now()
		if err := w.End(t.Context(), gone, reason); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		for _, ctx := range two {
			if context.Cause(ctx) != reason {
				t.Errorf("it ended because of %v", context.Cause(ctx))
			}
		}
		if other.Err() != nil || w.End(t.Context(), gone, reason) != nil {
			t.Error("work of another chat was ended, or work was left")
		}
		w.Begin(gone, nil)
		short, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := w.End(short, gone, reason); !errors.Is(err, corebot.ErrInvalid) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("what does not end: %v", err)
		}
		for _, cancel := range cancels {
			cancel(nil)
		}
		time.Sleep(time.Minute)
	})
}
