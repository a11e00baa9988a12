package storage

import (
	"fmt"
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
)

// series is one counter of the table totals: a metric by its short name, and the values of its labels.
type series struct{ name, a, b string }

// The counters in the database. Each rises in the commit that writes the fact it counts, so the two never disagree. A
// counter continues after a restart, and retention does not lower it.
const (
	turnsTotal     = "turns"
	toolsTotal     = "tool_calls"
	tokensTotal    = "usage_tokens"
	costTotal      = "usage_cost"
	deadTotal      = "dead_letters"
	approvalsTotal = "approvals"
)

// totalDesc describes the metric of a counter.
type totalDesc struct {
	desc   *prometheus.Desc
	labels int
	unit   float64 // of one
}

func newTotalDesc(name, help string, unit float64, labels ...string) totalDesc {
	return totalDesc{prometheus.NewDesc(name, help, labels, nil), len(labels), unit}
}

var totalDescs = map[string]totalDesc{
	turnsTotal: newTotalDesc("corebot_turns_total", "Claims of inbound messages that ended, by how: "+
		"answered, stopped, refused, retrying, waiting, parked, dead.", 1, "end"),
	toolsTotal: newTotalDesc("corebot_tool_calls_total", "Tool calls that ended, by tool and outcome.", 1, "tool",
		"outcome"),
	tokensTotal: newTotalDesc("corebot_usage_tokens_total",
		"Tokens that were booked: input, output; cache_read and cache_write are part of the "+
			"input; unpriced are of models without a price.", 1, "direction"),
	costTotal: newTotalDesc("corebot_usage_cost_total", "Cost that was booked, in units of the configured currency.",
		1e-6),
	deadTotal: newTotalDesc("corebot_bus_dead_letters_total", "Messages that were given up, by direction and reason.",
		1, "direction", "reason"),
	approvalsTotal: newTotalDesc("corebot_approvals_total",
		"Calls of tools that waited for an admin's approval, by how that ended: "+
			"approved, denied, expired, or void: approved, and not made.", 1, "outcome"),
}

// deadReasons lists the reasons of dead letters. Their counters are exported from the start.
var deadReasons = map[corebot.Direction][]string{
	corebot.Inbound: {
		corebot.ReasonAttempts, "permanent", corebot.ReasonTooLong, corebot.ReasonPoison,
		corebot.ReasonDamaged, corebot.ReasonUnstored,
	},
	corebot.Outbound: {
		corebot.ReasonAttempts, "permanent", corebot.ReasonPoison, corebot.ReasonDamaged, corebot.ReasonUnstored,
		"ambiguous",
	},
}

// knownSeries are exported at zero from the start, because a rate misses the first event of a series that begins at
// one.
func knownSeries() map[series]int64 {
	known := map[series]int64{{name: costTotal}: 0}
	add := func(name string, values ...string) {
		for _, v := range values {
			known[series{name, v, ""}] = 0
		}
	}
	add(turnsTotal, string(corebot.EndAnswered), string(corebot.EndStopped), string(corebot.EndRefused), "retrying",
		"waiting", "parked", "dead")
	add(tokensTotal, "input", "output", "cache_read", "cache_write", "unpriced")
	add(approvalsTotal, string(corebot.ApprovalApproved), string(corebot.ApprovalDenied),
		string(corebot.ApprovalExpired), string(corebot.ApprovalVoid))
	for direction, reasons := range deadReasons {
		for _, reason := range reasons {
			known[series{deadTotal, direction.String(), reason}] = 0
		}
	}
	return known
}

// tally holds the table totals as of the last commit. Only the writer changes it.
type tally struct {
	mu sync.Mutex
	n  map[series]int64
}

// maxSeries bounds the series of all counters together, because MCP servers choose the names of their tools. Further
// series count as "other".
const maxSeries = 2000

var (
	selectTally = &query{`SELECT name, a, b, n FROM totals`}
	putTally    = &query{
		`INSERT INTO totals (name, a, b, n) VALUES (?, ?, ?, ?) ON CONFLICT (name, a, b) DO UPDATE SET n = excluded.n`,
	}
)

// readTally reads the table.
func readTally(c *prepared) (map[series]int64, error) {
	stored := map[series]int64{}
	err := c.each(selectTally, func(row scanner) error {
		var s series
		var n int64
		err := row.Scan(&s.name, &s.a, &s.b, &n)
		stored[s] = n
		return err
	})
	return stored, err
}

// replace sets the tally to the contents of the table.
func (y *tally) replace(stored map[series]int64) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for s := range y.n {
		if _, known := stored[s]; !known {
			stored[s] = 0
		}
	}
	for s, n := range knownSeries() {
		if _, known := stored[s]; !known {
			stored[s] = n
		}
	}
	y.n = stored
}

// know exports series at zero until they count.
func (y *tally) know(all ...series) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, s := range all {
		y.n[s] += 0
	}
}

// count adds to a counter in the commit of this transaction.
func (t *tx) count(name, a, b string, n int64) {
	if n == 0 || t.tally == nil {
		return
	}
	if t.counted == nil {
		t.counted = make(map[series]int64, 8)
	}
	s := series{name, a, b}
	t.tally.mu.Lock()
	_, known := t.tally.n[s]
	if !known && t.counted[s] == 0 && len(t.tally.n)+len(t.counted) >= maxSeries {
		s.a = "other"
	}
	t.tally.mu.Unlock()
	t.counted[s] += n
}

// storeCountedTx writes the counters that this transaction has changed.
func storeCountedTx(t *tx) error {
	for s, n := range t.counted {
		t.tally.mu.Lock()
		n += t.tally.n[s]
		t.tally.mu.Unlock()
		if _, err := t.conn.exec(putTally, s.name, s.a, s.b, n); err != nil {
			return err
		}
	}
	return nil
}

// took adds the counts of a committed transaction.
func (y *tally) took(counted map[series]int64) {
	if len(counted) == 0 {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	for s, n := range counted {
		y.n[s] += n
	}
}

// countUseTx counts the booked usage.
func countUseTx(t *tx, u corebot.Use) {
	t.count(tokensTotal, "input", "", u.InputTokens)
	t.count(tokensTotal, "output", "", u.OutputTokens)
	t.count(tokensTotal, "cache_read", "", u.CacheReadTokens)
	t.count(tokensTotal, "cache_write", "", u.CacheWriteTokens)
	t.count(tokensTotal, "unpriced", "", u.UnpricedTokens)
	t.count(costTotal, "", "", int64(u.Cost))
}

// countSettledTx counts the end of a claim.
func countSettledTx(t *tx, d *corebot.Delivery, o corebot.Outcome) {
	if o.Verb == corebot.Dead {
		t.count(deadTotal, d.Message.Direction.String(), o.Reason, 1)
	}
	if d.Message.Direction == corebot.Inbound {
		t.count(turnsTotal, endingOf(o), "", 1)
	}
}

// endingOf names how a turn ended.
func endingOf(o corebot.Outcome) string {
	switch o.Verb {
	case corebot.Done:
		return string(o.End)
	case corebot.RetryAt:
		return "retrying"
	case corebot.Wait:
		return "waiting"
	case corebot.Defer:
		return "parked"
	}
	return "dead"
}

// KnowTools exports the counters of tools from the start.
func (db *DB) KnowTools(names ...string) {
	for _, name := range names {
		for _, o := range []corebot.AuditOutcome{
			corebot.OutcomeSuccess, corebot.OutcomeDenied, corebot.OutcomeError, corebot.OutcomeInvalidArgs,
			corebot.OutcomeUnknown,
		} {
			db.tally.know(series{toolsTotal, name, string(o)})
		}
	}
}

// Describe implements prometheus.Collector.
func (y *tally) Describe(out chan<- *prometheus.Desc) {
	for _, d := range totalDescs {
		out <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (y *tally) Collect(out chan<- prometheus.Metric) {
	y.mu.Lock()
	n := maps.Clone(y.n)
	y.mu.Unlock()
	for s, value := range n {
		d, known := totalDescs[s.name]
		if !known { // from a newer Corebot that ran here before
			continue
		}
		out <- prometheus.MustNewConstMetric(d.desc, prometheus.CounterValue, float64(value)*d.unit,
			[]string{s.a, s.b}[:d.labels]...)
	}
}

// register exports the counters.
func (y *tally) register(r prometheus.Registerer) error {
	if err := r.Register(y); err != nil {
		return fmt.Errorf("register the counters that the database keeps: %w", err)
	}
	return nil
}
