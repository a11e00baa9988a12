package channels

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

type someDoor struct{ Door }

// Programs and pages call a channel a moment before it runs. A message of that moment waits, and is not refused.
func TestAMessageWaitsForAChannelThatStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEntrance()
		waited := func(ctx context.Context, want time.Duration) (Door, error) {
			t.Helper()
			began := time.Now()
			door, err := e.Door(ctx)
			if took := time.Since(began); took != want {
				t.Errorf("the message waited %v, want %v", took, want)
			}
			return door, err
		}
		closed := func(door Door, err error) {
			t.Helper()
			if door != nil || !errors.Is(err, corebot.ErrClosed) {
				t.Errorf("the door is %v: %v", door, err)
			}
		}
		closed(waited(t.Context(), StartTime))
		gone, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		closed(waited(gone, time.Second))

		var shut func()
		time.AfterFunc(time.Second, func() { shut = e.Open(someDoor{}) })
		if door, err := waited(t.Context(), time.Second); door != (someDoor{}) || err != nil {
			t.Errorf("the door is %v: %v", door, err)
		}
		synctest.Wait()
		shut()
		closed(waited(t.Context(), 0))
	})
}
