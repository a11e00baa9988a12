package storage

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
)

// metrics are the writer's figures.
type metrics struct {
	commits       prometheus.Counter
	failedCommits prometheus.Counter
	batch         prometheus.Histogram
	seconds       prometheus.Histogram
	rows          prometheus.Counter
	tokens        *prometheus.CounterVec
	cost          prometheus.Counter
	approvals     *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, db *DB) (*metrics, error) {
	m := &metrics{
		commits:       prometheus.NewCounter(prometheus.CounterOpts{Name: "corebot_store_commits_total", Help: "Transactions that the writer ended."}),
		failedCommits: prometheus.NewCounter(prometheus.CounterOpts{Name: "corebot_store_commit_errors_total", Help: "Commits that failed and had to be looked up."}),
		rows:          prometheus.NewCounter(prometheus.CounterOpts{Name: "corebot_store_rows_written_total", Help: "Rows inserted, updated or deleted."}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_usage_tokens_total", Help: "Tokens that were booked: input, output; cache_read and cache_write are part of the input; unpriced are of models without a price.",
		}, []string{"direction"}),
		approvals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_approvals_total", Help: "Calls of tools that waited for an admin's word, by how that ended: approved, denied, expired.",
		}, []string{"outcome"}),
		cost: prometheus.NewCounter(prometheus.CounterOpts{Name: "corebot_usage_cost_total", Help: "Cost that was booked, in units of the configured currency."}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "corebot_store_batch_operations", Help: "Operations and claims that shared a commit.", Buckets: prometheus.ExponentialBuckets(1, 4, 6),
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "corebot_store_commit_seconds", Help: "Time of a transaction, fsync included.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
		}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.commits, m.failedCommits, m.rows, m.batch, m.seconds, m.tokens, m.cost, m.approvals, collector{NewQueue(db)}} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the store's metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) observe(operations, rows int, d time.Duration) {
	m.commits.Inc()
	m.rows.Add(float64(rows))
	m.batch.Observe(float64(operations))
	m.seconds.Observe(d.Seconds())
}

// resolved counts approvals.
func (m *metrics) resolved(all []corebot.ApprovalState) {
	for _, s := range all {
		m.approvals.WithLabelValues(string(s)).Inc()
	}
}

// used counts what was booked by a transaction that happened.
func (m *metrics) used(u corebot.Use, err error) {
	if err != nil || u == (corebot.Use{}) {
		return
	}
	for direction, n := range map[string]int64{
		"input": u.InputTokens, "output": u.OutputTokens, "cache_read": u.CacheReadTokens, "cache_write": u.CacheWriteTokens, "unpriced": u.UnpricedTokens,
	} {
		m.tokens.WithLabelValues(direction).Add(float64(n))
	}
	m.cost.Add(float64(u.Cost) / 1_000_000)
}
