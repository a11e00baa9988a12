package console

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

type someDoor struct{ channels.Door }

// The pages are there a moment before the console runs. A message of that moment waits, and is not refused.
func TestAMessageWaitsForAConsoleThatStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewChannel(nil)
		began := time.Now()
		if _, err := c.entrance(t.Context()); !errors.Is(err, corebot.ErrClosed) || time.Since(began) != startTime {
			t.Errorf("without a door the message waited %v: %v", time.Since(began), err)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, func() { _ = c.Run(ctx, someDoor{}) })
		began = time.Now()
		if door, err := c.entrance(ctx); door != (someDoor{}) || err != nil || time.Since(began) != time.Second {
			t.Errorf("the message waited %v for %v: %v", time.Since(began), door, err)
		}
		stop()
	})
}
