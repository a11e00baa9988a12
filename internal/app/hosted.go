package app

import (
	"context"
	"errors"

	"github.com/corebot/corebot/internal/control"
)

// hosted is a Corebot that runs in this process.
type hosted struct {
	control.Caller
	app   *App
	stop  context.CancelFunc
	ended chan struct{}
	err   error // of Run; read after ended
}

// run runs a Corebot until close. It outlives ctx, so that whoever uses it can end in order.
func run(ctx context.Context, a *App, ended func()) *hosted {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	h := &hosted{Caller: a.Caller(), app: a, stop: stop, ended: make(chan struct{})}
	go func() {
		defer ended()
		defer close(h.ended)
		h.err = a.Run(ctx)
	}()
	return h
}

// failure is why a Corebot of this process has ended by itself, or nil while it runs.
func (h *hosted) failure() error {
	select {
	case <-h.ended:
		return errors.Join(errors.New("the Corebot of this process has ended by itself"), h.err)
	default:
		return nil
	}
}

func (h *hosted) close() error {
	h.stop()
	<-h.ended
	return errors.Join(h.err, h.app.Close())
}

// While runs a Corebot for as long as fn takes, and closes it.
func (a *App) While(ctx context.Context, fn func(context.Context) error) error {
	h := run(ctx, a, func() {})
	err := fn(ctx)
	return errors.Join(err, h.close())
}
