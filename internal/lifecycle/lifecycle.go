// Package lifecycle owns the goroutines of a program: it starts services in order and stops them in reverse.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"
)

// Service is something that runs until its context ends. One that returns earlier ends the whole program, with an error
// or without.
type Service struct {
	Name string
	Run  func(ctx context.Context) error
}

// Run starts the services in order and blocks until ctx ends or one of them returns. Then it stops them one by one,
// last started first, waiting for each: what a service needs to finish its work is still there while it does. It
// returns the errors of the services, named.
func Run(ctx context.Context, log zerolog.Logger, services ...Service) error {
	running := make([]started, 0, len(services))
	ended := make(chan struct{}, len(services))
	for _, s := range services {
		running = append(running, start(ctx, s, ended))
	}
	select {
	case <-ctx.Done():
		log.Info().Msg("stopping")
	case <-ended:
	}
	var errs []error
	for _, s := range slices.Backward(running) {
		s.stop()
		if err := <-s.result; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
		log.Debug().Str("service", s.name).Msg("stopped")
	}
	if len(errs) == 0 {
		log.Info().Msg("stopped")
	}
	return errors.Join(errs...)
}

type started struct {
	name   string
	stop   context.CancelFunc
	result chan error
}

// start runs a service on a context of its own, which does not end with the program's: its turn to stop comes.
func start(ctx context.Context, s Service, ended chan<- struct{}) started {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	result := make(chan error, 1)
	go func() {
		result <- s.Run(own)
		ended <- struct{}{}
	}()
	return started{s.Name, stop, result}
}
