package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/corebot/corebot/bus"
)

// BusOptions say how much [Bus] measures. [DefaultBusOptions] are the workload that the targets are for.
type BusOptions struct {
	Messages   int // of each phase
	Chats      int // that they are dealt out to; at least 2
	Publishers int // at once
	Consumers  int // at once
	Bytes      int // of each message's text, at most 1 MiB
	Backlog    int // messages that wait in the last phase; at least two for each chat
	Rounds     int
	Fair       bool         // share turns fairly between senders, as serve does by default
	Dir        string       // below which the databases are made; the system's place for temporary files if it is empty
	Progress   func(string) // told what is done, a line each; may be nil
}

// DefaultBusOptions are the workload that the targets are for.
func DefaultBusOptions() BusOptions {
	return BusOptions{
		Messages: 10_000, Chats: 1_000, Publishers: 64, Consumers: 64, Bytes: 512, Backlog: 1_000_000,
		Rounds: 5,
	}
}

// Most that a measurement may ask for: beyond it the machine would measure itself.
const (
	maxMessages = 100_000_000
	maxCrowd    = 10_000
	maxRounds   = 1_000
)

// Validate names the first option that cannot be used, as the command line spells it.
func (o BusOptions) Validate() error {
	return cmp.Or(
		between("messages", o.Messages, 1, maxMessages), between("chats", o.Chats, 2, maxMessages),
		between("publishers", o.Publishers, 1, maxCrowd), between("consumers", o.Consumers, 1, maxCrowd),
		between("bytes", o.Bytes, 1, bus.DefaultMaxBytes), between("rounds", o.Rounds, 1, maxRounds),
		between("backlog", o.Backlog, 2*o.Chats, maxMessages),
	)
}

func between(name string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("--%s %d: want a number from %d to %d", name, value, least, most)
	}
	return nil
}

// busBench is a measurement of the bus that goes on: what it works with, and a series of each figure.
type busBench struct {
	opts        BusOptions
	load        workload
	dir         string
	backlog     *rig
	memory      memory
	synchronous string

	fsync, raw, publish, drain, together, pickupP50, pickupP99 Series
	backlogPublish, backlogClaim, emptyClaim                   Series
	fairDrain, fairBoth, fairDrainCPU, fairBothCPU             Series
	publishCPU, drainCPU, togetherCPU, backlogCPU              Series
}

// Bus measures the bus. It needs disk space for the backlog, about 0.9 GiB by default, and refuses to begin if less
// than twice that is free ([corebot.ErrDiskFull]). It ends early with the cause of ctx, and leaves nothing behind in
// either case.
func Bus(ctx context.Context, o BusOptions) (_ Report, err error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	if err := requireSpace(cmp.Or(o.Dir, os.TempDir()), o.backlogBytes(), freeBytes); err != nil {
		return Report{}, err
	}
	dir, remove, err := workDir(o.Dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	b := &busBench{opts: o, load: newWorkload(o.Chats, o.Bytes), dir: dir}
	if b.backlog, err = openRig(ctx, dir, 0); err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, b.backlog.close()) }()
	if b.synchronous, err = b.backlog.db.Synchronous(ctx); err != nil {
		return Report{}, err
	}
	err = b.fill(ctx)
	if err == nil {
		err = b.rounds(ctx)
	}
	switch {
	case err == nil:
		return b.report(), nil
	case ctx.Err() != nil: // whatever was under way says it in its own words
		return Report{}, context.Cause(ctx)
	}
	return Report{}, err
}

func (b *busBench) rounds(ctx context.Context) error {
	for round := range b.opts.Rounds {
		for _, p := range phases {
			b.tell("round %d of %d: %s", round+1, b.opts.Rounds, p.name)
			if p.fair && !b.opts.Fair {
				continue
			}
			if err := p.run(b, ctx); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

func (b *busBench) tell(format string, args ...any) {
	if b.opts.Progress != nil {
		b.opts.Progress(fmt.Sprintf(format, args...))
	}
}

func (b *busBench) report() Report {
	o := b.opts
	r := Report{
		Title: fmt.Sprintf(
			"bus: %s messages a phase over %s chats, %d bytes each, %d publishers, %d consumers,\na backlog of %s; "+
				"medians of %d rounds; synchronous=%s", grouped(int64(o.Messages)), grouped(int64(o.Chats)), o.Bytes,
			o.Publishers, o.Consumers,
			grouped(int64(o.Backlog)), o.Rounds, b.synchronous),
		Settings: []Setting{
			{"synchronous", b.synchronous},
			{"messages", o.Messages},
			{"chats", o.Chats},
			{"publishers", o.Publishers},
			{"consumers", o.Consumers},
			{"bytes", o.Bytes},
			{"backlog", o.Backlog},
			{"rounds", o.Rounds},
		},
	}
	r.Figures = append(b.rates(), b.comparisons()...)
	if o.Fair {
		r.Figures = append(r.Figures, b.fairness()...)
	}
	for _, m := range []Figure{
		{Name: "rss_empty_bytes", Label: "memory, empty", Series: b.memory.empty},
		{Name: "rss_tenth_backlog_bytes", Label: "memory, a tenth of the backlog", Series: b.memory.tenth},
		{Name: "rss_backlog_bytes", Label: "memory, the whole backlog", Series: b.memory.whole},
	} {
		if m.Series != nil {
			m.Unit = Bytes
			r.Figures = append(r.Figures, m)
		}
	}
	return r
}

// rates are the figures themselves, with the targets for the default workload.
func (b *busBench) rates() []Figure {
	atLeast := func(v float64) Target { return Target{Value: v} }
	return []Figure{
		{
			Name: "publish_per_s", Label: "publish", Series: b.publish, Target: atLeast(40_000),
			OfCeiling: b.publish.over(b.raw),
		},
		{Name: "drain_per_s", Label: "drain", Series: b.drain, Target: atLeast(30_000), OfCeiling: b.drain.over(b.raw)},
		{
			Name: "both_per_s", Label: "both at once", Series: b.together, Target: atLeast(20_000),
			OfCeiling: b.together.over(b.raw),
		},
		{
			Name: "pickup_p50_ms", Label: "pick-up p50", Unit: Milliseconds, Series: b.pickupP50,
			Target: Target{Value: 0.4, AtMost: true},
		},
		{Name: "pickup_p99_ms", Label: "pick-up p99", Unit: Milliseconds, Series: b.pickupP99},
		{
			Name: "backlog_publish_per_s", Label: "publish on the backlog", Series: b.backlogPublish,
			OfCeiling: b.backlogPublish.over(b.raw),
		},
		{Name: "backlog_claim_p50_ms", Label: "claim on the backlog p50", Unit: Milliseconds, Series: b.backlogClaim},
		{Name: "empty_claim_p50_ms", Label: "claim on an empty queue p50", Unit: Milliseconds, Series: b.emptyClaim},
		{Name: "raw_insert_per_s", Label: "raw inserts of two rows", Series: b.raw},
		{Name: "fsync_p50_ms", Label: "fsync of 4 KiB p50", Unit: Milliseconds, Series: b.fsync},
	}
}

// fairness are ratios within a round: turns that are shared fairly between senders, to turns that are not.
func (b *busBench) fairness() []Figure {
	return []Figure{
		{
			Name: "fair_drain_of_drain", Label: "drain, fair / not", Unit: Ratio, Series: b.fairDrain.over(b.drain),
			Target: Target{Value: 0.97},
		},
		{
			Name: "fair_both_of_both", Label: "both at once, fair / not", Unit: Ratio,
			Series: b.fairBoth.over(b.together),
			Target: Target{Value: 0.97},
		},
		{
			Name: "fair_drain_cpu_of_drain", Label: "drain, CPU, fair / not", Unit: Ratio,
			Series: b.fairDrainCPU.over(b.drainCPU),
		},
		{
			Name: "fair_both_cpu_of_both", Label: "both at once, CPU, fair / not", Unit: Ratio,
			Series: b.fairBothCPU.over(b.togetherCPU),
		},
	}
}

// comparisons are ratios within a round, and processor times of a message, which the load of the machine moves least.
func (b *busBench) comparisons() []Figure {
	return []Figure{
		{Name: "publish_cpu_ms", Label: "publish, CPU of a message", Unit: Milliseconds, Series: b.publishCPU},
		{Name: "drain_cpu_ms", Label: "drain, CPU of a message", Unit: Milliseconds, Series: b.drainCPU},
		{Name: "both_cpu_ms", Label: "both, CPU of a message", Unit: Milliseconds, Series: b.togetherCPU},
		{
			Name: "backlog_publish_cpu_ms", Label: "publish on the backlog, CPU", Unit: Milliseconds,
			Series: b.backlogCPU,
		},
		{Name: "pickup_of_fsync", Label: "pick-up p50 / fsync", Unit: Ratio, Series: b.pickupP50.over(b.fsync)},
		{
			Name: "backlog_publish_of_publish", Label: "publish, backlog / empty", Unit: Ratio,
			Series: b.backlogPublish.over(b.publish), Target: Target{Value: 0.5},
		},
		{
			Name: "backlog_claim_of_empty", Label: "claim, backlog / empty", Unit: Ratio,
			Series: b.backlogClaim.over(b.emptyClaim), Target: Target{Value: 1.5, AtMost: true},
		},
	}
}
