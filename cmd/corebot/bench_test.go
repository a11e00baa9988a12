package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// In a bubble, a service that nobody stops and a user that nobody ends are deadlocks, which fail at once.

func TestAServiceIsStoppedWhenWhatItServesHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := false
		err := while(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			stopped = true
			return nil
		}, func(context.Context) error { return nil })
		if err != nil || !stopped {
			t.Errorf("stopped %v, %v", stopped, err)
		}
	})
}

func TestAServiceThatEndsEndsWhatItServes(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct{ ends, want error }{{broken, broken}, {nil, errServiceEnded}} {
		synctest.Test(t, func(t *testing.T) {
			err := while(t.Context(), func(context.Context) error { return c.ends }, func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if !errors.Is(err, c.want) {
				t.Errorf("the service ended with %v: got %v", c.ends, err)
			}
		})
	}
}

func TestAServiceOutlivesItsInterruptedUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		contexts := make(chan context.Context, 1)
		err := while(ctx, func(ctx context.Context) error {
			contexts <- ctx
			<-ctx.Done()
			return nil
		}, func(ctx context.Context) error {
			serving := <-contexts
			interrupt()
			if serving.Err() != nil {
				t.Error("the service is stopped before its user has ended")
			}
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
