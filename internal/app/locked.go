package app

import (
	"context"
	"errors"
	"time"

	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/storage"
)

// A process holds the lock of a home without answering at the control socket in three cases: it carries out a single change, it is about to
// begin, or it is about to end. Each lasts a moment.
const (
	moment     = 10 * time.Second
	momentStep = 50 * time.Millisecond
)

// Locked calls try, which needs the home for this process alone. It calls try again while another process holds the home only for a moment. A
// Corebot that runs on the home is refused at once: the error is the [*storage.LockError] of try.
func Locked(ctx context.Context, home string, try func() error) error {
	for began := time.Now(); ; backoff.Sleep(ctx, momentStep) {
		err := try()
		if !isHeld(err) || ctx.Err() != nil || time.Since(began) > moment {
			return err
		}
		if _, running, _ := control.Dial(ctx, DataDir(home)); running {
			return try() // a Corebot that has just begun may do what is asked
		}
	}
}

// LockedSoon is [Locked], and waits besides, for as long as [Away], for a Corebot that ends by itself when one message has its
// answer. tell hears once which one that is.
func LockedSoon(ctx context.Context, home string, tell func(Hello), try func() error) error {
	told := false
	for began := time.Now(); ; backoff.Sleep(ctx, momentStep) {
		err := Locked(ctx, home, try)
		if !isHeld(err) || ctx.Err() != nil || time.Since(began) > Away {
			return err
		}
		client, running, _ := control.Dial(ctx, DataDir(home))
		if !running {
			continue // it has just ended, or another one begins
		}
		hello, met := greet(ctx, client)
		if met == nil && !hello.Passing {
			return err
		}
		if met == nil && !told {
			told = true
			tell(hello)
		}
	}
}

// isHeld says whether an error is that another process holds the home.
func isHeld(err error) bool {
	var held *storage.LockError
	return errors.As(err, &held)
}
