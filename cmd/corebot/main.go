// Command corebot is an always-on agent bot on a durable message bus.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/tools/isolation"
)

// Exit codes: part of the contract that scripts rely on.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run()) }

// run is main with an exit code, so that tests can be the program.
func run() int {
	if code, is := behindWalls(os.Args[1:]); is {
		return code
	}
	growHeap(commandGrowth) // before the commands are made: to collect their garbage takes longer than to make it
	ctx, stop := signalContext()
	defer stop()
	root := newRoot()
	err := root.ExecuteContext(ctx)
	return report(root.ErrOrStderr(), err)
}

// signalContext ends at the first SIGINT or SIGTERM. The second signal ends the process: everything that was accepted
// is on disk, and an interrupted turn resumes from its journal.
func signalContext() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		second := twice(signals, cancel)
		fmt.Fprintf(os.Stderr, "corebot: a second signal (%v) ended it at once, before running turns had their time. "+
			"Nothing that was accepted is lost: those turns resume at the next start.\n", second)
		os.Exit(exitFailed)
	}()
	return ctx, func() { signal.Stop(signals); cancel() }
}

// echoes is how long after a signal the same signal is no second one. A wrapper such as timeout(1) or npm signals its
// child, and then the whole process group: one request arrives twice within microseconds.
const echoes = 250 * time.Millisecond

// twice calls first at the first signal, and returns the second one.
func twice(signals <-chan os.Signal, first func()) os.Signal {
	one, came := <-signals, time.Now()
	first()
	for {
		if two := <-signals; two != one || time.Since(came) > echoes {
			return two
		}
	}
}

// report prints an error with its hint, and says which exit code it is.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(w, "corebot: %s\n", strings.ReplaceAll(printable(err.Error()), "\n", "\n  "))
	if hint := corebot.HintOf(err); hint != "" {
		fmt.Fprintf(w, "  hint: %s\n", printable(hint))
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// behindWalls is what Corebot executes itself as. A worker runs a program behind walls. A tool does the work of one
// call there. Neither reads settings or opens a home, and neither is a command: the commands and their flags would be
// half of what such a process does.
func behindWalls(args []string) (code int, is bool) {
	if len(args) != 1 {
		return 0, false
	}
	switch args[0] {
	case isolation.WorkerCommand:
		return isolation.Work(), true
	case isolation.ToolCommand:
		return app.ServeTool(), true
	}
	return 0, false
}
