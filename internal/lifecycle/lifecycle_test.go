package lifecycle_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/lifecycle"
)

// diary keeps what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// service runs until it is stopped, then takes a while to finish its work.
func (d *diary) service(name string) lifecycle.Service {
	return lifecycle.Service{Name: name, Run: func(ctx context.Context) error {
		d.note("start " + name)
		<-ctx.Done()
		d.note("stop " + name)
		time.Sleep(time.Second)
		d.note("end " + name)
		return nil
	}}
}

func TestTheLogSaysThatTheProgramStopsAndThatItHasStopped(t *testing.T) {
	var d diary
	logged := zerolog.HookFunc(func(_ *zerolog.Event, level zerolog.Level, message string) {
		if level == zerolog.InfoLevel {
			d.note("log: " + message)
		}
	})
	stops := func(end error) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		run := func(ctx context.Context) error {
			<-ctx.Done()
			d.note("end")
			return end
		}
		log := zerolog.New(io.Discard).Hook(logged)
		err := lifecycle.Run(ctx, log, lifecycle.Service{Name: "store", Run: run})
		if !errors.Is(err, end) {
			t.Errorf("Run returned %v, want %v", err, end)
		}
	}
	stops(nil)
	stops(errors.New("the disk is full")) // which whoever called Run reports
	want := []string{"log: stopping", "end", "log: stopped", "log: stopping", "end"}
	if !slices.Equal(d.lines, want) {
		t.Errorf("the log and the services said %q, want %q", d.lines, want)
	}
}

func TestServicesStopOneByOneInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- lifecycle.Run(ctx, zerolog.Nop(), d.service("store"), d.service("router"), d.service("channels"))
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(d.lines) != 3 {
			t.Fatalf("before the end: %q", d.lines)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want := []string{"stop channels", "end channels", "stop router", "end router", "stop store", "end store"}
		if got := d.lines[3:]; !slices.Equal(got, want) {
			t.Errorf("they ended as %q, want %q", got, want)
		}
	})
}

func TestAServiceThatEndsEarlyEndsAllOfThem(t *testing.T) {
	broken := errors.New("broken")
	for name, end := range map[string]error{"with an error": broken, "without": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				early := lifecycle.Service{Name: "early", Run: func(context.Context) error {
					time.Sleep(time.Minute)
					return end
				}}
				began := time.Now()
				err := lifecycle.Run(t.Context(), zerolog.Nop(), d.service("store"), early, d.service("channels"))
				if !errors.Is(err, end) || end != nil && err.Error() != "early: broken" {
					t.Errorf("the error is %v", err)
				}
				if took := time.Since(began); took != time.Minute+2*time.Second {
					t.Errorf("it took %v", took)
				}
				if got := d.lines[2:]; !slices.Equal(got, []string{
					"stop channels", "end channels", "stop store",
					"end store",
				}) {
					t.Errorf("the others ended as %q", got)
				}
			})
		})
	}
}

func TestEveryErrorIsNamedAfterItsService(t *testing.T) {
	fails := func(name string) lifecycle.Service {
		return lifecycle.Service{Name: name, Run: func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("cannot end")
		}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := lifecycle.Run(ctx, zerolog.Nop(), fails("one"), fails("two"))
	if err == nil || err.Error() != "two: cannot end\none: cannot end" {
		t.Errorf("the error is %v", err)
	}
}
