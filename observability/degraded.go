package observability

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Reason is the stable name of something that is wrong although Corebot accepts and answers. The set is bounded: a
// reason that is not in the table below does not exist, so that metrics, /ready and /status never have more of them.
type Reason string

// The reasons.
const (
	ModelFails   Reason = "model"        // the last call of every model failed
	LaneDamaged  Reason = "damaged_lane" // lanes of the queue that cannot be read are set aside
	BackupFails  Reason = "backup"       // the last scheduled backup failed
	PromptPage   Reason = "prompt_page"  // a page of the workspace is left out of the prompts
	ChannelFails Reason = "channel"      // the connection of an account fails
	PartStuck    Reason = "stuck"        // a part stands still without which messages are still accepted and answered
)

// reasons says what each reason means, in a sentence that is fit for everybody: /ready needs no token.
var reasons = map[Reason]string{
	ModelFails:   "no model answers; messages are accepted and kept",
	LaneDamaged:  "a damaged part of the queue is set aside",
	BackupFails:  "the last scheduled backup failed",
	PromptPage:   "a page of the workspace is left out of the prompts",
	ChannelFails: "the connection of an account of a channel fails",
	PartStuck:    "the scheduler or a channel stands still",
}

// Degradation is one reason that holds now.
type Degradation struct {
	Reason Reason `json:"reason"`
	Says   string `json:"says"`             // what the reason means
	Detail string `json:"detail,omitempty"` // what the component knows of it, for operators
}

// Degraded collects the reasons that hold now. A component either tells when one begins and ends ([Degraded.Set]), or
// is asked whenever somebody looks ([Degraded.Watch]). The gauge corebot_degraded shows every reason, from the start.
// A nil Degraded takes and gives nothing.
type Degraded struct {
	mu      sync.Mutex
	told    map[Reason]string
	watched map[Reason]func(context.Context) string
}

// NewDegraded makes a collection without reasons, and registers its gauge.
func NewDegraded(r prometheus.Registerer) (*Degraded, error) {
	d := &Degraded{told: map[Reason]string{}, watched: map[Reason]func(context.Context) string{}}
	if r == nil {
		return d, nil
	}
	if err := r.Register(degradedGauge{d}); err != nil {
		return nil, fmt.Errorf("register the gauge of degradations: %w", err)
	}
	return d, nil
}

// Set says that a reason holds, and why; with an empty detail, that it holds no longer. A reason without a name of
// its own is dropped.
func (d *Degraded) Set(r Reason, detail string) {
	if d == nil || reasons[r] == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told[r] = detail
}

// Watch has fn asked for the detail of a reason whenever somebody looks: empty means that the reason does not hold.
// fn must be quick.
func (d *Degraded) Watch(r Reason, fn func(context.Context) string) {
	if d == nil || reasons[r] == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watched[r] = fn
}

// Now gives the reasons that hold, in the order of their names.
func (d *Degraded) Now(ctx context.Context) []Degradation {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	told, watched := maps.Clone(d.told), maps.Clone(d.watched)
	d.mu.Unlock()
	var now []Degradation
	for _, r := range slices.Sorted(maps.Keys(reasons)) {
		detail := told[r]
		if fn := watched[r]; fn != nil {
			detail = cmp.Or(detail, fn(ctx))
		}
		if detail != "" {
			now = append(now, Degradation{Reason: r, Says: reasons[r], Detail: detail})
		}
	}
	return now
}

// degradedGauge shows 1 for the reasons that hold and 0 for all others.
type degradedGauge struct{ of *Degraded }

var degradedDesc = prometheus.NewDesc("corebot_degraded",
	"1 for each reason why Corebot answers less well than it should: "+
		"model, damaged_lane, backup, prompt_page, channel, stuck. /status has the details.", []string{"reason"}, nil)

// Describe implements prometheus.Collector.
func (g degradedGauge) Describe(out chan<- *prometheus.Desc) { out <- degradedDesc }

// Collect implements prometheus.Collector.
func (g degradedGauge) Collect(out chan<- prometheus.Metric) {
	holds := map[Reason]float64{}
	for _, d := range g.of.Now(context.Background()) {
		holds[d.Reason] = 1
	}
	for r := range reasons {
		out <- prometheus.MustNewConstMetric(degradedDesc, prometheus.GaugeValue, holds[r], string(r))
	}
}
