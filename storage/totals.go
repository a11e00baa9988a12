package storage

import (
	"context"
	"fmt"
	measure "runtime/metrics"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
)

// series is one counter of the table totals: a metric by its short name, the agent, and the values of its other labels.
// Counts from before counters knew agents name no agent.
type series struct{ name, agent, a, b string }

// byTool says that a counter is from before calls were counted by outcome alone: a is a tool, and b the outcome.
func (s series) byTool() bool { return s.name == toolsTotal && s.b != "" }

// The counters in the database. Each rises in the commit that writes the fact it counts, so the two never disagree. A
// counter continues after a restart, and retention does not lower it.
const (
	turnsTotal     = "turns"
	toolsTotal     = "tool_calls"
	tokensTotal    = "usage_tokens"
	costTotal      = "usage_cost"
	deadTotal      = "dead_letters"
	approvalsTotal = "approvals"
	waitsTotal     = "waits"
	jobsTotal      = "jobs"
)

// totalDesc describes the metric of a counter.
type totalDesc struct {
	desc   *prometheus.Desc
	labels int
	unit   float64 // of one
}

func newTotalDesc(name, help string, unit float64, labels ...string) totalDesc {
	return totalDesc{prometheus.NewDesc(name, help, append([]string{"agent"}, labels...), nil), len(labels), unit}
}

var totalDescs = map[string]totalDesc{
	turnsTotal: newTotalDesc("corebot_turns_total", "Claims of inbound messages that ended, by how: "+
		"answered, stopped, refused, retrying, waiting, parked, dead.", 1, "end"),
	toolsTotal: newTotalDesc("corebot_tool_calls_total", "Tool calls that ended, by outcome: success, denied, error, "+
		"invalid_args, unknown. `corebot audit` has the tools.", 1, "outcome"),
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
	waitsTotal: newTotalDesc("corebot_waits_total", "Waits of tool calls for a time or a word, by how they ended: "+
		"over, expired, or ended: given up.", 1, "outcome"),
	jobsTotal: newTotalDesc("corebot_jobs_total", "Jobs that began, and how they ended: done, failed or stopped.", 1,
		"event"),
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
func knownSeries(agent string) []series {
	known := []series{{name: costTotal, agent: agent}}
	add := func(name string, values ...string) {
		for _, v := range values {
			known = append(known, series{name, agent, v, ""})
		}
	}
	add(turnsTotal, string(corebot.EndAnswered), string(corebot.EndStopped), string(corebot.EndRefused), "retrying",
		"waiting", "parked", "dead")
	add(tokensTotal, "input", "output", "cache_read", "cache_write", "unpriced")
	add(approvalsTotal, string(corebot.ApprovalApproved), string(corebot.ApprovalDenied),
		string(corebot.ApprovalExpired), string(corebot.ApprovalVoid))
	add(toolsTotal, string(corebot.OutcomeSuccess), string(corebot.OutcomeDenied), string(corebot.OutcomeError),
		string(corebot.OutcomeInvalidArgs), string(corebot.OutcomeUnknown))
	add(waitsTotal, string(corebot.WaitMet), string(corebot.WaitExpired), string(corebot.WaitGivenUp))
	add(jobsTotal, "begun", string(corebot.JobDone), string(corebot.JobFailed), string(corebot.JobStopped))
	for direction, reasons := range deadReasons {
		for _, reason := range reasons {
			known = append(known, series{deadTotal, agent, direction.String(), reason})
		}
	}
	return known
}

// tally holds the table totals as of the last commit. Only the writer changes it.
type tally struct {
	mu sync.Mutex
	n  map[series]int64
	of map[string]int // how many series each agent has
}

// Bounds of the series. Settings choose the names of agents. Further series of an agent count as "other", and so do
// further agents.
const (
	maxSeries = 100 // of one agent
	maxAgents = 100
)

var (
	selectTally = &query{`SELECT name, agent, a, b, n FROM totals`}
	putTally    = &query{
		`INSERT INTO totals (name, agent, a, b, n) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (name, agent, a, b) DO UPDATE SET n = excluded.n`,
	}
)

// readTally reads the table.
func readTally(c *prepared) (map[series]int64, error) {
	stored := map[series]int64{}
	err := c.each(selectTally, func(row scanner) error {
		var s series
		var n int64
		err := row.Scan(&s.name, &s.agent, &s.a, &s.b, &n)
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
	y.n, y.of = stored, map[string]int{}
	for s := range stored {
		if !s.byTool() {
			y.of[s.agent]++
		}
	}
}

// know exports series at zero until they count.
func (y *tally) know(all ...series) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, s := range all {
		y.add(s, 0)
	}
}

// add adds to a counter. The caller holds the mutex.
func (y *tally) add(s series, n int64) {
	if _, known := y.n[s]; !known {
		y.of[s.agent]++
	}
	y.n[s] += n
}

// bounded is the series that counts for a series: itself, unless there are too many.
func (y *tally) bounded(s series, fresh int) series {
	y.mu.Lock()
	defer y.mu.Unlock()
	if _, known := y.n[s]; known {
		return s
	}
	if y.of[s.agent] == 0 && len(y.of) >= maxAgents {
		s.agent = "other"
	}
	if y.of[s.agent]+fresh >= maxSeries {
		s.a = "other"
	}
	return s
}

// count adds to a counter of an agent in the commit of this transaction.
func (t *tx) count(name, agent, a, b string, n int64) {
	if n == 0 || t.tally == nil {
		return
	}
	if t.counted == nil {
		t.counted = make(map[series]int64, 8)
	}
	s := series{name, agent, a, b}
	if t.counted[s] == 0 {
		s = t.tally.bounded(s, len(t.counted))
	}
	t.counted[s] += n
}

// storeCountedTx writes the counters that this transaction has changed.
func storeCountedTx(t *tx) error {
	for s, n := range t.counted {
		t.tally.mu.Lock()
		n += t.tally.n[s]
		t.tally.mu.Unlock()
		if _, err := t.conn.exec(putTally, s.name, s.agent, s.a, s.b, n); err != nil {
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
		y.add(s, n)
	}
}

// countUseTx counts the booked usage.
func countUseTx(t *tx, agent string, u corebot.UsageTotals) {
	t.count(tokensTotal, agent, "input", "", u.InputTokens)
	t.count(tokensTotal, agent, "output", "", u.OutputTokens)
	t.count(tokensTotal, agent, "cache_read", "", u.CacheReadTokens)
	t.count(tokensTotal, agent, "cache_write", "", u.CacheWriteTokens)
	t.count(tokensTotal, agent, "unpriced", "", u.UnpricedTokens)
	t.count(costTotal, agent, "", "", int64(u.Cost))
}

// countSettledTx counts the end of a claim.
func countSettledTx(t *tx, d *corebot.Delivery, o corebot.Outcome) {
	agent := d.Message.Key.Agent
	if o.Verb == corebot.Dead {
		t.count(deadTotal, agent, d.Message.Direction.String(), o.Reason, 1)
	}
	if d.Message.Direction == corebot.Inbound {
		t.count(turnsTotal, agent, endingOf(o), "", 1)
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

// KnowAgents exports the counters of agents from the start.
func (db *DB) KnowAgents(agents ...string) {
	for _, agent := range agents {
		db.tally.know(knownSeries(agent)...)
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
	n := make(map[series]int64, len(y.n))
	for s, value := range y.n {
		if s.byTool() {
			s.a, s.b = s.b, ""
		}
		n[s] += value
	}
	y.mu.Unlock()
	for s, value := range n {
		d, known := totalDescs[s.name]
		if !known { // from a newer Corebot that ran here before
			continue
		}
		out <- prometheus.MustNewConstMetric(d.desc, prometheus.CounterValue, float64(value)*d.unit,
			[]string{s.agent, s.a, s.b}[:1+d.labels]...)
	}
}

// register exports the counters.
func (y *tally) register(r prometheus.Registerer) error {
	if err := r.Register(y); err != nil {
		return fmt.Errorf("register the counters that the database keeps: %w", err)
	}
	return nil
}

// Samples are the figures of a day, one of every [sampleEvery] in which something was committed.
type Samples struct{ db *DB }

// NewSamples are the samples of a database.
func NewSamples(db *DB) *Samples { return &Samples{db} }

const (
	sampleEvery = 10 * time.Second
	samplesKept = 24 * time.Hour
)

var (
	insertSample = &query{`INSERT OR REPLACE INTO samples (at, waiting, unsent, answered, failed, calls, tokens, cost,
		memory) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	pruneSamples = &query{`DELETE FROM samples WHERE at <= ? OR at > ?`}
	listSamples  = &query{`SELECT at, waiting, unsent, answered, failed, calls, tokens, cost, memory FROM samples
		WHERE at > ? ORDER BY at LIMIT ` + strconv.Itoa(int(samplesKept/sampleEvery)+1)}
)

// Since gives the samples after a time, oldest first.
func (s *Samples) Since(ctx context.Context, after time.Time) (all []corebot.Sample, err error) {
	err = s.db.reader.each(ctx, listSamples, func(row scanner) error {
		var p corebot.Sample
		err := row.Scan(moment{&p.At}, &p.Waiting, &p.Unsent, &p.Answered, &p.Failed, &p.Calls, &p.Tokens,
			(*int64)(&p.Cost), &p.Memory)
		all = append(all, p)
		return err
	}, after)
	return all, err
}

// storeFiguresTx writes what a commit changes of the counters, and a sample.
func (w *writer) storeFiguresTx(t *tx) error {
	if err := storeCountedTx(t); err != nil {
		return err
	}
	return w.sampleTx(t)
}

// sampleTx writes a sample in a commit that happens anyway, if the last one is old enough. So an idle Corebot writes
// none. It has the counters as of the commit before.
func (w *writer) sampleTx(t *tx) error {
	if since := t.now.Sub(w.sampled); since >= 0 && since < sampleEvery {
		return nil
	}
	w.sampled = t.now // if the commit fails, a sample is missing
	p := w.db.tally.sample()
	memory := []measure.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	measure.Read(memory)
	_, err := t.exec(insertSample, t.now, t.total.depth[corebot.Inbound], t.total.depth[corebot.Outbound], p.Answered,
		p.Failed, p.Calls, p.Tokens, int64(p.Cost), int64(memory[0].Value.Uint64()-memory[1].Value.Uint64()))
	if err != nil {
		return err
	}
	_, err = t.exec(pruneSamples, t.now.Add(-samplesKept), t.now)
	return err
}

// sample adds the counters of all agents up.
func (y *tally) sample() (p corebot.Sample) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for s, n := range y.n {
		switch {
		case s.name == turnsTotal && s.a == string(corebot.EndAnswered):
			p.Answered += n
		case s.name == turnsTotal && (s.a == "retrying" || s.a == "dead"):
			p.Failed += n
		case s.name == toolsTotal:
			p.Calls += n
		case s.name == tokensTotal && (s.a == "input" || s.a == "output"):
			p.Tokens += n
		case s.name == costTotal:
			p.Cost += corebot.Money(n)
		}
	}
	return p
}
