package app_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
)

func TestAConsoleThatNobodyAskedForGivesWay(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // of a test
	c := config.Defaults()
	c.Home, c.LLM.Offline, c.Observability.Enabled = t.TempDir(), true, false
	c.Console.Enabled, c.Console.Addr = true, taken.Addr().String()
	c.ConsoleAsked = true
	if a, err := app.New(t.Context(), c, app.Options{Serve: true, Log: zerolog.Nop()}); !errors.Is(err,
		syscall.EADDRINUSE) {
		t.Fatalf("a console that the settings ask for: %v, %v", a, err)
	}
	c.ConsoleAsked = false
	var log strings.Builder
	a, err := app.New(t.Context(), c, app.Options{Serve: true, Log: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "the console does not listen") || a.ConsoleAddr() != "" {
		t.Errorf("it listens at %q, the log is %s", a.ConsoleAddr(), &log)
	}
	hello, err := operate.Greet.Call(t.Context(), a.Caller(), struct{}{})
	if err != nil || hello.Console != "" {
		t.Errorf("it says hello with %+v: %v", hello, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
