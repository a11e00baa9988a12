package slo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// Store keeps the counts and the alarms. [storage.Objectives] is one.
type Store interface {
	// Count counts the messages whose time is over since the last call.
	Count(ctx context.Context) error
	// Add counts events of this minute.
	Add(ctx context.Context, of map[corebot.Objective]corebot.Kept) error
	// Sums gives the counts of the last minutes.
	Sums(ctx context.Context, last time.Duration) (map[corebot.Objective]corebot.Kept, error)
	// Alarms are the alarms that have ever sounded.
	Alarms(ctx context.Context) ([]corebot.Alarm, error)
	// Change stores an alarm. In the same commit it sends the notice, if there is one.
	Change(ctx context.Context, a corebot.Alarm, notice *corebot.Message) error
	// Posted notes that the post of an alarm was taken.
	Posted(ctx context.Context, a corebot.Alarm) error
}

// Options of a [Monitor].
type Options struct {
	Goals    []Goal
	LeastBad int64         // fewer bad events in the long window wake nobody
	CoolDown time.Duration // readers are told of the same alarm at most once in so long
	Chat     corebot.Key   // is told; zero: no chat is
	// Post sends a JSON body to the operator's own program, under an idempotency key. Nil: nothing is posted.
	Post    func(ctx context.Context, id string, body []byte) error
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none
}

// every is how often the objectives are judged.
const every = time.Minute

// Monitor judges the objectives once a minute.
type Monitor struct {
	store Store
	opts  Options

	mu       sync.Mutex
	accepted corebot.Kept // since the last look
	now      []Standing   // as of the last look
}

// Standing is how an objective stands.
type Standing struct {
	Objective corebot.Objective  `json:"objective"`
	Share     float64            `json:"share"`
	Within    string             `json:"within"`
	Good      int64              `json:"good"` // in the last six hours
	Bad       int64              `json:"bad"`
	Burn      map[string]float64 `json:"burn"`             // by long window
	Alarms    []Severity         `json:"alarms,omitempty"` // that sound
}

// New makes a monitor. It starts nothing.
func New(store Store, o Options) (*Monitor, error) {
	for _, g := range o.Goals {
		if !g.Objective.Known() || g.Share < corebot.MinShare || g.Share > corebot.MaxShare || g.Within <= 0 {
			return nil, fmt.Errorf("%w: an objective of %v within %v for %q", corebot.ErrInvalid, g.Share, g.Within,
				g.Objective)
		}
	}
	m := &Monitor{store: store, opts: o}
	for _, g := range o.Goals {
		m.now = append(m.now, m.standing(g, nil, nil))
	}
	if o.Metrics == nil {
		return m, nil
	}
	if err := o.Metrics.Register(gauges{m}); err != nil {
		return nil, fmt.Errorf("register the gauges of objectives: %w", err)
	}
	return m, nil
}

// Accepted counts a message that was offered: how long it took to store it, and whether it was refused for want of
// room or by a fault.
func (m *Monitor) Accepted(took time.Duration, refused bool) {
	for _, g := range m.opts.Goals {
		if g.Objective != corebot.ObjectiveAccepted {
			continue
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if refused || took > g.Within {
			m.accepted.Bad++
		} else {
			m.accepted.Good++
		}
		return
	}
}

// Standings are the objectives as of the last look.
func (m *Monitor) Standings() []Standing {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Run judges the objectives until ctx ends. Without goals, it only ends the alarms that are left.
func (m *Monitor) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := m.look(ctx)
		if err != nil && ctx.Err() == nil && !failed { // told once: the store has said itself what is wrong
			m.opts.Log.Warn().Err(err).Msg("the service level objectives could not be judged")
		}
		failed = err != nil
	}
}

// look counts what is new, judges each objective and tells of alarms that begin or end. An objective that
// cannot be counted or told of keeps no other from being judged.
func (m *Monitor) look(ctx context.Context) error {
	var errs []error
	if len(m.opts.Goals) > 0 {
		errs = append(errs, m.countNew(ctx))
	}
	all, err := m.sums(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	stored, err := m.store.Alarms(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	var standings []Standing
	var alarms []corebot.Alarm
	for _, g := range m.opts.Goals {
		var sounding []Severity
		for _, r := range rules {
			a, err := m.judge(ctx, g, r, m.alarm(stored, g, r), all[g.Objective])
			if !a.Since.IsZero() {
				sounding = append(sounding, r.severity)
			}
			if errs = append(errs, err); err == nil {
				alarms = append(alarms, a)
			}
		}
		standings = append(standings, m.standing(g, all[g.Objective], sounding))
	}
	for _, a := range stored {
		if !m.watches(a.Objective) {
			a, err := m.leave(ctx, a)
			if errs = append(errs, err); err == nil {
				alarms = append(alarms, a)
			}
		}
	}
	m.mu.Lock()
	m.now = standings
	m.mu.Unlock()
	m.postAll(ctx, alarms)
	return errors.Join(errs...)
}

// sums are the counts of all windows.
func (m *Monitor) sums(ctx context.Context) (map[corebot.Objective]counts, error) {
	all := map[corebot.Objective]counts{}
	for _, window := range windows {
		sums, err := m.store.Sums(ctx, window)
		if err != nil {
			return nil, err
		}
		for objective, k := range sums {
			if all[objective] == nil {
				all[objective] = counts{}
			}
			all[objective][window] = k
		}
	}
	return all, nil
}

// watches says whether there is a goal for an objective. Objectives of a later version are left alone.
func (m *Monitor) watches(o corebot.Objective) bool {
	return !o.Known() || slices.ContainsFunc(m.opts.Goals, func(g Goal) bool { return g.Objective == o })
}

// leave ends the alarm of an objective that is not watched any more. Otherwise its readers would wait for ever.
func (m *Monitor) leave(ctx context.Context, a corebot.Alarm) (corebot.Alarm, error) {
	if a.Since.IsZero() && !a.Told {
		return a, nil
	}
	g, r, told := Goal{Objective: a.Objective}, rule{severity: Severity(a.Severity)}, a.Told
	a.Since, a.Told = time.Time{}, false
	var notice *corebot.Message
	if told {
		text := fmt.Sprintf("The objective %s is not watched any more, because slo.%[1]s is 0. Its alarm (%s) ends.",
			a.Objective, a.Severity)
		m.log(g, r, nil, false, text)
		notice = m.tell(g, r, &a, time.Now().Truncate(time.Millisecond), text, nil)
	}
	return a, m.store.Change(ctx, a, notice)
}

func (m *Monitor) countNew(ctx context.Context) error {
	m.mu.Lock()
	accepted := m.accepted
	m.accepted = corebot.Kept{}
	m.mu.Unlock()
	var failed error
	if accepted.All() > 0 {
		failed = m.store.Add(ctx, map[corebot.Objective]corebot.Kept{corebot.ObjectiveAccepted: accepted})
		if failed != nil {
			m.mu.Lock()
			m.accepted = m.accepted.Plus(accepted)
			m.mu.Unlock()
		}
	}
	return errors.Join(failed, m.store.Count(ctx))
}

func (m *Monitor) standing(g Goal, c counts, alarms []Severity) Standing {
	all := c[windows[len(windows)-1]]
	s := Standing{
		Objective: g.Objective, Share: g.Share, Within: g.Within.String(), Good: all.Good, Bad: all.Bad,
		Burn: map[string]float64{}, Alarms: alarms,
	}
	for _, r := range rules {
		s.Burn[short(r.long)] = g.burn(c[r.long])
	}
	return s
}

// short writes a window as Prometheus does.
func short(d time.Duration) string { return fmt.Sprintf("%dh", d/time.Hour) }

// alarm is the stored alarm of a rule, or a silent one.
func (m *Monitor) alarm(stored []corebot.Alarm, g Goal, r rule) corebot.Alarm {
	for _, a := range stored {
		if a.Objective == g.Objective && a.Severity == string(r.severity) {
			return a
		}
	}
	return corebot.Alarm{Objective: g.Objective, Severity: string(r.severity)}
}

// judge begins or ends an alarm, and tells of it. An alarm that begins again soon sounds in the metrics at once. Its
// readers are told when the cool-down is over, if it still sounds then.
func (m *Monitor) judge(ctx context.Context, g Goal, r rule, a corebot.Alarm, c counts) (corebot.Alarm, error) {
	now, was := time.Now().Truncate(time.Millisecond), a
	sounds := r.sounds(g, c, m.opts.LeastBad)
	if sounds && a.Since.IsZero() {
		a.Since = now
	}
	if a.ToldAt.After(now) { // the clock was set back
		a.ToldAt = now
	}
	if m.opts.Post == nil { // the address was taken away; a later one must not get what is old then
		a.Post = ""
	}
	var text string
	switch {
	case sounds && !a.Told && now.Sub(a.ToldAt) >= m.opts.CoolDown:
		a.Told, a.ToldAt = true, now
		text = fmt.Sprintf("%s: %d of %d in the last %s (objective: %s within %v). "+
			"See docs/runbook.md#corebotobjective.",
			says[g.Objective], c[r.long].Bad, c[r.long].All(), spell(r.long), percent(g.Share), g.Within)
	case !sounds && a.Told:
		a.Told = false
		text = fmt.Sprintf("%s. It was not so for %s.", again[g.Objective], spell(now.Sub(a.Since).Round(time.Minute)))
	}
	if !sounds {
		a.Since = time.Time{}
	}
	if a == was {
		return a, nil
	}
	var notice *corebot.Message
	if text != "" {
		m.log(g, r, c, a.Told, text)
		notice = m.tell(g, r, &a, now, text, c)
	}
	return a, m.store.Change(ctx, a, notice)
}

// gauges shows the objectives as of the last look.
type gauges struct{ of *Monitor }

var (
	burnDesc = prometheus.NewDesc("corebot_slo_burn_rate",
		"How many times faster than its objective allows the error budget is used up, by long window.",
		[]string{"objective", "window"}, nil)
	soundsDesc = prometheus.NewDesc("corebot_slo_alarm",
		"The alarm of an objective that sounds: 2 for page, 1 for ticket alone, 0 for none.",
		[]string{"objective"}, nil)
)

// Describe implements prometheus.Collector.
func (g gauges) Describe(out chan<- *prometheus.Desc) {
	out <- burnDesc
	out <- soundsDesc
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(out chan<- prometheus.Metric) {
	for _, s := range g.of.Standings() {
		for window, burn := range s.Burn {
			out <- prometheus.MustNewConstMetric(burnDesc, prometheus.GaugeValue, burn, string(s.Objective), window)
		}
		sounds := 0.0
		for _, severity := range s.Alarms {
			sounds = max(sounds, map[Severity]float64{Ticket: 1, Page: 2}[severity])
		}
		out <- prometheus.MustNewConstMetric(soundsDesc, prometheus.GaugeValue, sounds, string(s.Objective))
	}
}
