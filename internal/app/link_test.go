package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

// reachable has a Corebot of another process answer in a home, until it is ended.
func reachable(t *testing.T, home string, hello operate.Hello) (end func()) {
	t.Helper()
	if err := os.MkdirAll(app.DataDir(home), 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := control.Listen(app.DataDir(home), control.Operations{
		operate.Greet.Name: control.Typed(func(context.Context, struct{}) (operate.Hello, error) { return hello, nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	return func() {
		stop()
		if err := errors.Join(<-ended, server.Close()); err != nil {
			t.Error(err)
		}
	}
}

// linked is a link to a home, with the places that it has told.
type linked struct {
	*app.Link
	told   []app.Place
	hosted int // Corebots that were made in this process
}

func link(t *testing.T, home string) *linked {
	t.Helper()
	l := &linked{}
	l.Link = app.NewLink(home, func(ctx context.Context) (*app.App, error) {
		l.hosted++
		c := config.Defaults()
		c.Home, c.LLM.Offline, c.Observability.Enabled = home, true, false
		return app.New(ctx, c, app.Options{Log: zerolog.Nop(), Attended: true})
	}, func(p app.Place) { l.told = append(l.told, p) })
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func (l *linked) greet(ctx context.Context) error {
	_, err := l.Call(ctx, operate.Greet.Name, json.RawMessage(`{}`))
	return err
}

func (l *linked) wantTold(t *testing.T, want ...app.Place) {
	t.Helper()
	if !slices.Equal(l.told, want) {
		t.Errorf("the link told %+v, want %+v", l.told, want)
	}
}

func TestALinkThatFindsNoCorebotBecomesOne(t *testing.T) {
	home := t.TempDir()
	l := link(t, home)
	place, err := l.Open(t.Context())
	if err != nil || !place.Here || place.Again || place.Daemon || place.PID != os.Getpid() {
		t.Fatalf("it reached %+v, %v", place, err)
	}
	other := link(t, home)
	met, err := other.Open(t.Context())
	if err != nil || met.Here || met.PID != os.Getpid() || other.hosted != 0 {
		t.Errorf("another link reached %+v, %v, and began %d Corebots", met, err, other.hosted)
	}
	if err := errors.Join(l.greet(t.Context()), other.greet(t.Context())); err != nil || l.hosted != 1 {
		t.Errorf("%v, with %d Corebots", err, l.hosted)
	}
	l.wantTold(t, place)
	select {
	case <-l.Ended():
		t.Error("its Corebot has ended while the link is open")
	default:
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	<-l.Ended()
	if err := l.greet(t.Context()); err == nil || l.hosted != 1 {
		t.Errorf("after its own Corebot has ended: %v, with %d Corebots", err, l.hosted)
	}
}

func TestALinkWaitsForADaemonThatHasEnded(t *testing.T) {
	home := t.TempDir()
	first, second := operate.Hello{Model: "a", Daemon: true, PID: 1}, operate.Hello{Model: "b", Daemon: true, PID: 2}
	end := reachable(t, home, first)
	l := link(t, home)
	if _, err := l.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	end()
	for range 2 { // the call that meets the end, and the one after it
		if err := l.greet(t.Context()); !app.IsGone(err) {
			t.Fatalf("without a Corebot: %v", err)
		}
	}
	defer reachable(t, home, second)()
	if err := l.greet(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantTold(t, app.Place{Hello: first}, app.Place{Hello: first, Gone: true},
		app.Place{Hello: second, Again: true})
	if l.hosted != 0 {
		t.Errorf("it began a Corebot in the place of a daemon")
	}
}

func TestALinkTakesOverFromATerminalThatHasEnded(t *testing.T) {
	home := t.TempDir()
	terminal := operate.Hello{Model: "a", PID: 1}
	end := reachable(t, home, terminal)
	l := link(t, home)
	if _, err := l.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	end()
	if err := l.greet(t.Context()); !app.IsGone(err) {
		t.Fatalf("the call that met the end: %v", err)
	}
	if err := l.greet(t.Context()); err != nil || l.hosted != 1 {
		t.Fatalf("the call after it: %v, with %d Corebots", err, l.hosted)
	}
	if last := l.told[len(l.told)-1]; len(l.told) != 3 || !last.Here || !last.Again || last.PID != os.Getpid() {
		t.Errorf("the link told %+v", l.told)
	}
}

func TestACallThatItsCallerEndsLosesNoCorebot(t *testing.T) {
	home := t.TempDir()
	hello := operate.Hello{Model: "a", PID: 1}
	defer reachable(t, home, hello)()
	l := link(t, home)
	if _, err := l.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.greet(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	l.wantTold(t, app.Place{Hello: hello})
}
