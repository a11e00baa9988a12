package channels

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/backoff"
)

// Supervisor keeps channels running.
type Supervisor struct {
	door     Door
	outbox   *Outbox
	channels []Channel
	log      zerolog.Logger
}

// NewSupervisor makes a supervisor of channels with different names; it starts nothing.
func NewSupervisor(d Door, o *Outbox, log zerolog.Logger, channels ...Channel) (*Supervisor, error) {
	names := map[string]bool{}
	for _, c := range channels {
		if names[c.Name()] {
			return nil, fmt.Errorf("two channels are named %q", c.Name())
		}
		names[c.Name()] = true
	}
	return &Supervisor{door: d, outbox: o, channels: channels, log: log}, nil
}

// healthyAfter is how long a channel must have run for its failures to be forgotten.
const healthyAfter = time.Minute

// Receive runs every channel until ctx ends or the channel ends by itself, and returns the errors of those that did.
func (s *Supervisor) Receive(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(s.channels))
	for i, c := range s.channels {
		wg.Go(func() { errs[i] = s.keep(ctx, c) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Send runs the outbox of every channel until ctx ends.
func (s *Supervisor) Send(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, c := range s.channels {
		wg.Go(func() { _ = s.outbox.Run(ctx, c) })
	}
	wg.Wait()
	return nil
}

// keep runs one channel again and again. A channel that returns nil has ended on purpose; an error that is [Final] ends it too.
func (s *Supervisor) keep(ctx context.Context, c Channel) error {
	pause := backoff.Policy{Base: time.Second, Max: time.Minute}
	for failures := 1; ; failures++ {
		started := time.Now()
		err := s.run(ctx, c)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if isFinal(err) {
			s.log.Error().Err(err).Str("channel", c.Name()).Msg("the channel has ended for good")
			return fmt.Errorf("%s: %w", c.Name(), err)
		}
		if time.Since(started) > healthyAfter {
			failures = 1
		}
		wait := pause.After(failures)
		s.log.Error().Err(err).Str("channel", c.Name()).Dur("again_in_ms", wait).Msg("the channel failed")
		backoff.Sleep(ctx, wait)
	}
}

func (s *Supervisor) run(ctx context.Context, c Channel) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.Run(ctx, s.door)
}
