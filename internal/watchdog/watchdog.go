// Package watchdog notices parts of a program that stand still.
//
// A part does not report itself: the watchdog asks whether work is left that the part should have done by now. Such a
// question has an answer even where the part is blocked for ever. A part stands still when the same piece of work is
// left for longer than a limit, or when nobody answers the question for so long. A part that works through a backlog
// does not stand still, however long the backlog is.
//
// All times are of the monotonic clock: a step of the wall clock, or a suspended machine, is no standstill.
package watchdog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// Part is a part of the program that must go on.
type Part struct {
	Name string
	// Probe names a piece of work that the part should have done by now; empty: there is none. An error, or no answer,
	// says nothing good of the part. ctx ends when the limit is over.
	Probe func(ctx context.Context) (mark string, err error)
	// Needs names a part without which this one cannot go on. While that part stands still, this one is not judged, so
	// that an operator reads the cause alone.
	Needs string
}

// Options of a [Watchdog].
type Options struct {
	After   time.Duration // how long a part can stand still unnoticed; at least a millisecond
	Parts   []Part
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Stuck is a part that stands still.
type Stuck struct {
	Part  string    `json:"part"`
	Since time.Time `json:"since"`
	Why   string    `json:"why,omitempty"` // what the last probe said; empty: it has not answered
}

// looks is how often a part is probed within the limit.
const looks = 6

// Watchdog watches the parts of a program while it runs.
type Watchdog struct {
	opts  Options
	every time.Duration
	parts []*watched
}

type watched struct {
	Part
	mu   sync.Mutex
	well time.Time // when the part was last known to go on; zero: it is not watched yet
	mark string    // of the last probe
	why  string
	told bool // the log has it
}

// New makes a watchdog; it starts nothing. A part that needs an unknown one, and a limit under a millisecond, are
// [corebot.ErrInvalid].
func New(o Options) (*Watchdog, error) {
	if o.After < time.Millisecond {
		return nil, fmt.Errorf("%w: a watchdog with a limit of %v", corebot.ErrInvalid, o.After)
	}
	w := &Watchdog{opts: o, every: o.After / looks}
	for _, p := range o.Parts {
		if p.Needs != "" && w.part(p.Needs) == nil {
			return nil, fmt.Errorf("%w: the part %s needs %s, which is not watched before it", corebot.ErrInvalid,
				p.Name, p.Needs)
		}
		w.parts = append(w.parts, &watched{Part: p})
	}
	if o.Metrics == nil {
		return w, nil
	}
	if err := o.Metrics.Register(gauge{w}); err != nil {
		return nil, fmt.Errorf("register the gauge of the watchdog: %w", err)
	}
	return w, nil
}

func (w *Watchdog) part(name string) *watched {
	for _, p := range w.parts {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Run watches until ctx ends. A probe that does not return does not keep Run from returning.
func (w *Watchdog) Run(ctx context.Context) error {
	for _, p := range w.parts {
		p.goesOn(time.Now(), "")
		go w.keepProbing(ctx, p)
	}
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		w.look()
	}
}

func (w *Watchdog) keepProbing(ctx context.Context, p *watched) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		limited, cancel := context.WithTimeout(ctx, w.opts.After)
		mark, err := p.Probe(limited)
		cancel()
		p.answered(mark, err)
	}
}

// answered notes what a probe has said.
func (p *watched) answered(mark string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		p.why = err.Error()
		return
	case mark == "" || mark != p.mark:
		p.well = time.Now()
	}
	p.mark, p.why = mark, mark
}

func (p *watched) goesOn(now time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.well, p.why = now, why
}

// still says since when nothing good is known of the part, and why.
func (p *watched) still() (since time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.well, p.why
}

// excused says that a part cannot go on because of one that it needs.
func (w *Watchdog) excused(p *watched, now time.Time) bool {
	needed := w.part(p.Needs)
	if needed == nil {
		return false
	}
	since, _ := needed.still()
	return now.Sub(since) > 2*w.every || w.excused(needed, now)
}

// Stuck gives the parts that stand still now, in the order of the options. It needs nothing of the watchdog's own
// goroutines: where these stand still, so does every part.
func (w *Watchdog) Stuck() (all []Stuck) {
	if w == nil {
		return nil
	}
	now := time.Now()
	for _, p := range w.parts {
		since, why := p.still()
		if since.IsZero() || now.Sub(since) <= w.opts.After || w.excused(p, now) {
			continue
		}
		all = append(all, Stuck{p.Name, since, why})
	}
	return all
}

// look excuses the parts that cannot go on, and logs the beginning and the end of each standstill.
func (w *Watchdog) look() {
	now := time.Now()
	for _, p := range w.parts {
		if w.excused(p, now) {
			p.goesOn(now, "")
		}
	}
	at := map[string]Stuck{}
	for _, s := range w.Stuck() {
		at[s.Part] = s
	}
	for _, p := range w.parts {
		s, is := at[p.Name]
		switch {
		case is && !p.told:
			w.opts.Log.Error().Str("part", p.Name).Dur("for_ms", now.Sub(s.Since)).Str("why", s.Why).
				Msg("a part of Corebot stands still")
		case !is && p.told:
			w.opts.Log.Info().Str("part", p.Name).Msg("the part of Corebot goes on")
		}
		p.told = is
	}
}

// gauge shows 1 for the parts that stand still and 0 for the others.
type gauge struct{ of *Watchdog }

var stuckDesc = prometheus.NewDesc("corebot_stuck",
	"1 while a part of Corebot stands still for longer than observability.stuck_after, and 0 otherwise.",
	[]string{"part"}, nil)

// Describe implements prometheus.Collector.
func (g gauge) Describe(out chan<- *prometheus.Desc) { out <- stuckDesc }

// Collect implements prometheus.Collector.
func (g gauge) Collect(out chan<- prometheus.Metric) {
	stuck := map[string]float64{}
	for _, s := range g.of.Stuck() {
		stuck[s.Part] = 1
	}
	for _, p := range g.of.parts {
		out <- prometheus.MustNewConstMetric(stuckDesc, prometheus.GaugeValue, stuck[p.Name], p.Name)
	}
}
