package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/bench"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/observability"
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
		Long: `Measure the queue on a database of its own, which is removed afterwards: messages accepted per
second; claimed and settled per second; both at once; the time from a publish to the start of its
handler on an idle queue; and publishing and claiming on top of a backlog, half of which waits in
one chat. Beside them: how fast the machine syncs 4 KiB, and how fast the engine inserts rows at
best. Everything is durable (synchronous=FULL). The default workload, which the targets are for,
takes a few minutes and 1.7 GiB of free disk.`,
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
	flags.BoolVar(&o.Fair, "fair", o.Fair,
		"measure drain and both also with turns shared fairly between senders, as router.fair does")
	flags.StringVar(&o.Dir, "dir", "",
		"make the database below this directory (default: the system's place for temporary files)")
	return cmd
}

// benchOutput is what both measurements have in common: how they tell what they found.
type benchOutput struct {
	asJSON     bool
	cpuProfile string
}

func (o *benchOutput) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON, one object")
	cmd.Flags().StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile to this file, for go tool pprof")
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
		return nil, corebot.WithHint(fmt.Errorf("write the profile: %w", err),
			"choose a file that can be written with --cpuprofile")
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("start the profile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

func newBenchTurn() *cobra.Command {
	o := bench.DefaultTurnOptions()
	var out benchOutput
	var parent string
	cmd := &cobra.Command{
		Use:   "turn",
		Short: "Measure the whole way, from a post to the reply that can be read",
		Long: `Measure the whole way, from POST /webhook to the reply that can be read at /webhook/outbound: turns
per second with many clients, then what Corebot adds to the model's own time with one message at a
time, and how many commits a turn takes. It is the whole program with ledger, history and audit
(synchronous=FULL) on a home of its own, which is removed afterwards; the model is an endpoint on
this machine that streams a short answer at once. Clients and model run in the same process and
share its processors.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return usage(cmd, err)
			}
			o.Progress = out.progress(cmd)
			return out.measure(cmd, func(ctx context.Context) (bench.Report, error) {
				return measureTurn(ctx, parent, o)
			})
		},
	}
	out.flags(cmd)
	flags := cmd.Flags()
	flags.IntVar(&o.Messages, "messages", o.Messages, "messages of the crowded phase")
	flags.IntVar(&o.Chats, "chats", o.Chats, "chats that they are dealt out to")
	flags.IntVar(&o.Clients, "clients", o.Clients, "clients at once")
	flags.IntVar(&o.Single, "single", o.Single, "messages of the idle phase, one at a time")
	flags.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds, whose medians count")
	flags.StringVar(&parent, "dir", "",
		"make the home below this directory (default: the system's place for temporary files)")
	return cmd
}

// measureTurn runs a whole Corebot on a home of its own and has it measured. The home is removed afterwards.
func measureTurn(ctx context.Context, parent string, o bench.TurnOptions) (_ bench.Report, err error) {
	if o.Dir, err = os.MkdirTemp(parent, "corebot-bench-"); err != nil {
		return bench.Report{}, corebot.WithHint(fmt.Errorf("make a home for the measurement: %w", err),
			"choose a place that can be written with --dir")
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	model, err := bench.NewEndpoint()
	if err != nil {
		return bench.Report{}, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	lines, err := os.Create(filepath.Join(o.Dir, "corebot.log"))
	if err != nil {
		return bench.Report{}, fmt.Errorf("make the log: %w", err)
	}
	defer func() { err = errors.Join(err, lines.Close()) }()
	return measureProgram(ctx, model, lines, o)
}

// measureProgram runs Corebot on the home o.Dir, with a model and a place for the lines of its log. A daemon writes a
// log line for each turn, which is part of the cost.
func measureProgram(ctx context.Context, model *bench.Endpoint, lines io.Writer,
	o bench.TurnOptions,
) (report bench.Report, err error) {
	hide, err := redact.New(nil)
	if err != nil {
		return report, err
	}
	log, err := observability.NewLogger(lines, "debug", "json", hide) // the app holds it to its level
	if err != nil {
		return report, err
	}
	settings := turnSettings(o.Dir, model.BaseURL())
	a, err := app.New(ctx, settings, app.Options{Version: app.Version(), Log: log, Redactor: hide, Serve: true})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	growHeap(heapGrowth)
	program := bench.Program{
		Webhook: "http://" + a.WebhookAddr(), Token: settings.Webhook.Token.Reveal(),
		Metrics: "http://" + a.ObservabilityAddr() + "/metrics", Model: model,
	}
	err = while(ctx, model.Run, func(ctx context.Context) error {
		return while(ctx, a.Run, func(ctx context.Context) error {
			synchronous, err := a.Store.Synchronous(ctx)
			if err != nil {
				return err
			}
			report, err = bench.Turn(ctx, program, o)
			report.Settings = append(report.Settings, bench.Setting{Name: "synchronous", Value: synchronous})
			return err
		})
	})
	return report, err
}

// turnSettings are the defaults, with listeners on free ports and the model that is given; neither the user's settings
// nor the environment count.
func turnSettings(home, model string) config.Config {
	c := config.Defaults()
	c.Home = home
	c.LLM.BaseURL, c.LLM.Model, c.LLM.Discover = model, "bench", false
	c.Webhook.Enabled, c.Webhook.Addr, c.Webhook.Token = true, "127.0.0.1:0", config.NewSecret(rand.Text())
	c.Observability.Enabled, c.Observability.Addr = true, "127.0.0.1:0"
	return c
}

// errServiceEnded is why a measurement ends whose service went away without an error.
var errServiceEnded = errors.New("what is measured has ended by itself")

// while runs fn beside a service: the service is stopped when fn has returned, and fn's context ends if the service
// returns before.
func while(ctx context.Context, service, fn func(context.Context) error) error {
	during, end := context.WithCancelCause(ctx)
	defer end(nil)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // it outlives fn, which waits for its answers
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := service(serving)
		end(cmp.Or(err, errServiceEnded))
		ended <- err
	}()
	err := fn(during)
	stop()
	return errors.Join(err, <-ended)
}
