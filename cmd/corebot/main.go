// Command corebot is an always-on agent bot on a durable message bus.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
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
	ctx, stop := signalContext()
	defer stop()
	root := newRoot()
	err := root.ExecuteContext(ctx)
	return report(root.ErrOrStderr(), err)
}

// signalContext ends at the first SIGINT or SIGTERM. The second one ends the process: everything that was accepted is on
// disk, and an interrupted turn resumes from its journal.
func signalContext() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailed)
	}()
	return ctx, func() { signal.Stop(signals); cancel() }
}

// report prints an error with its hint, and says which exit code it is.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(w, "corebot: %v\n", err)
	if hint := corebot.HintOf(err); hint != "" {
		fmt.Fprintf(w, "  hint: %s\n", hint)
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// args makes an argument check whose failure is a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usage(cmd, err)
		}
		return nil
	}
}

func usage(cmd *cobra.Command, err error) error {
	return &usageError{corebot.WithHint(err, fmt.Sprintf("see %q", cmd.CommandPath()+" --help"))}
}

// version is set by the release build; a build from source says what Go knows of it.
var version = ""

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
