package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/resident"
	"github.com/corebot/corebot/internal/sdnotify"
)

func newServe(s *shell) *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run everything that is configured, until SIGTERM",
		Long: `Run everything that is configured, until SIGTERM or Ctrl-C.

The first signal lets running turns finish within bus.drain; what is not finished then resumes at
the next start. A second signal ends at once, which is safe too. The same signal within a quarter of
a second is no second one. With --agent it runs one of the agents: messages for the others are
accepted, and wait for a Corebot that runs them. SIGHUP reads the settings and .mcp.json again, as
"corebot config reload" and "corebot mcp reload" do.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			systemd := sdnotify.New() // before any other program is started
			c, err := s.settings()
			if err != nil {
				return err
			}
			// The app holds the log to its level, which a reload may move.
			hide, err := redact.New(nil) // the app has it learn the secrets
			if err != nil {
				return err
			}
			log, err := logger(config.Log{Level: "debug", Format: c.Log.Format}, hide)
			if err != nil {
				return err
			}
			growHeap(commandGrowth)
			var a *app.App
			waits := func(h operate.Hello) {
				fmt.Fprintf(cmd.ErrOrStderr(), "corebot: waiting for process %d, which answers one message on this "+
					"home, at most %v\n", h.PID, app.Away)
			}
			if err := app.LockedSoon(cmd.Context(), c.Home, waits, func() (err error) {
				a, err = app.New(cmd.Context(), c, app.Options{
					Version: app.Version(), Log: log, Redactor: hide,
					Serve: true, Agent: agent, Systemd: systemd,
				})
				return err
			}); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, a.Close()) }()
			hangups := make(chan os.Signal, 1)
			signal.Notify(hangups, syscall.SIGHUP)
			defer signal.Stop(hangups)
			go a.ReloadOn(cmd.Context(), hangups)
			growHeap(heapGrowth)
			go leaveStart(cmd.Context(), log)
			if term.IsTerminal(int(os.Stderr.Fd())) {
				go sayLogin(cmd.Context(), a, cmd.ErrOrStderr())
			}
			return a.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "run this agent alone: its id (default: all of the settings)")
	return cmd
}

// sayLogin prints an address that logs a browser in to the console, to a person who has just started it.
func sayLogin(ctx context.Context, a *app.App, w io.Writer) {
	if a.ConsoleAddr() == "" {
		return
	}
	login, err := operate.AddLogin.Call(ctx, a.Caller(), struct{}{})
	if err == nil && login.Address != "" { // without it `corebot console` prints another
		fmt.Fprintf(w, "corebot: the console is at %s (once, until %s)\n", login.Address,
			login.ExpiresAt.Local().Format("15:04"))
	}
}

// heapGrowth is by how much, in percent, the heap of a daemon grows between two collections. Beside Go's 100 a turn
// takes about a tenth less of the processor, for some ten megabytes under load; 300 would take five percent less again,
// for forty more (docs/performance.md).
const heapGrowth = 200

// commandGrowth is the same for a command that ends in a moment, and for the start of a daemon. Collecting the garbage
// of either took a sixth of its processor time. The end of a command frees the memory; the daemon's own growth, set
// after its start, has the collector begin at once.
const commandGrowth = 400

// usualGrowth is Go's own, for other commands that run for long.
const usualGrowth = 100

// growHeap sets the collector. GOGC, where it is set, says it instead.
func growHeap(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// settled is how long after its start a daemon idles, if nobody writes to it.
const settled = 2 * time.Second

// leaveStart takes the code that only the start ran out of the memory of the daemon.
func leaveStart(ctx context.Context, log zerolog.Logger) {
	select {
	case <-time.After(settled):
	case <-ctx.Done():
		return
	}
	if err := resident.Drop(); err != nil { // it needs more memory, and works
		log.Debug().Err(err).Msg("the code of the start stays in memory")
	}
}

// stay are the commands that run for long, or that measure.
var stay = []string{"serve", "chat", "bench", "demo"}

// stays says whether a command, or one that it belongs to, runs for long.
func stays(cmd *cobra.Command) bool {
	for ; cmd != nil; cmd = cmd.Parent() {
		if slices.Contains(stay, cmd.Name()) {
			return true
		}
	}
	return false
}
