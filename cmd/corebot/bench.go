package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/bench"
)

func newBench() *cobra.Command {
	return group("bench", "Measure Corebot on this machine, beside its targets", newBenchBus(), newBenchTurn())
}

func newBenchBus() *cobra.Command {
	o := bench.DefaultBusOptions()
	var out benchOutput
	cmd := &cobra.Command{
		Use:   "bus",
		Short: "Measure the queue: publish, drain, both, pick-up, and on top of a backlog",
		Long: `Measure the queue on a database of its own, which is removed afterwards: messages accepted per second; claimed and settled per
second; both at once; the time from a publish to the start of its handler on an idle queue; and publishing and claiming on top of a
backlog, half of which waits in one chat. Beside them: how fast the machine syncs 4 KiB, and how fast the engine inserts rows at best.
Everything is durable (synchronous=FULL). The default workload, which the targets are for, takes a few minutes and 1.7 GiB of free disk.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return usage(cmd, err)
			}
			o.Progress = out.progress(cmd)
			return out.measure(cmd, func(ctx context.Context) (bench.Report, error) { return bench.Bus(ctx, o) })
		},
	}
	out.flags(cmd)
	flags := cmd.Flags()
	flags.IntVar(&o.Messages, "messages", o.Messages, "messages of each phase")
	flags.IntVar(&o.Chats, "chats", o.Chats, "chats that they are dealt out to")
	flags.IntVar(&o.Publishers, "publishers", o.Publishers, "publishers at once")
	flags.IntVar(&o.Consumers, "consumers", o.Consumers, "consumers at once")
	flags.IntVar(&o.Bytes, "bytes", o.Bytes, "bytes of each message's text")
	flags.IntVar(&o.Backlog, "backlog", o.Backlog, "messages that wait in the last phase; at least two for each chat")
	flags.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds, whose medians count")
	flags.BoolVar(&o.Fair, "fair", o.Fair, "measure drain and both also with turns shared fairly between senders, as router.fair does")
	flags.StringVar(&o.Dir, "dir", "", "make the database below this directory (default: the system's place for temporary files)")
	return cmd
}

// benchOutput is what both measurements have in common: how they tell what they found.
type benchOutput struct {
	asJSON     bool
	cpuProfile string
}

func (o *benchOutput) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON, one object")
	cmd.Flags().StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile to this file, for `go tool pprof`")
}

// progress tells on standard error what is being done.
func (o *benchOutput) progress(cmd *cobra.Command) func(string) {
	return func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
}

// measure runs a measurement, under the profiler if one is wanted, and prints its report.
func (o *benchOutput) measure(cmd *cobra.Command, run func(context.Context) (bench.Report, error)) error {
	stop, err := startProfile(o.cpuProfile)
	if err != nil {
		return err
	}
	report, err := run(cmd.Context())
	err = errors.Join(err, stop())
	switch {
	case errors.Is(err, context.Canceled) && cmd.Context().Err() != nil:
		return errors.New("interrupted; what was measured is dropped, and its files are removed")
	case err != nil:
		return err
	case o.asJSON:
		return printJSON(cmd, report)
	}
	return report.Print(cmd.OutOrStdout())
}

// startProfile begins a CPU profile; stop ends it. Without a path there is none.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("write the profile: %w", err), "choose a file that can be written with --cpuprofile")
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("start the profile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
