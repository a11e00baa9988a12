package storage

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the writer's figures.
type metrics struct {
	commits       prometheus.Counter
	failedCommits prometheus.Counter
	batch         prometheus.Histogram
	seconds       prometheus.Histogram
	rows          prometheus.Counter
	clockSteps    prometheus.Counter
}

func newMetrics(r prometheus.Registerer, db *DB) (*metrics, error) {
	m := &metrics{
		commits:       prometheus.NewCounter(prometheus.CounterOpts{Name: "corebot_store_commits_total", Help: "Transactions that the writer ended."}),
		failedCommits: prometheus.NewCounter(prometheus.CounterOpts{Name: "corebot_store_commit_errors_total", Help: "Commits that failed and had to be looked up."}),
		rows:          prometheus.NewCounter(prometheus.CounterOpts{Name: "corebot_store_rows_written_total", Help: "Rows inserted, updated or deleted."}),
		clockSteps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corebot_clock_steps_total", Help: "Steps of the wall clock that stored times had to follow; a machine that was suspended makes one, too.",
		}),
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
	for _, c := range []prometheus.Collector{m.commits, m.failedCommits, m.rows, m.clockSteps, m.batch, m.seconds, collector{NewQueue(db)}} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the store's metrics: %w", err)
		}
	}
	return m, db.tally.register(r)
}

func (m *metrics) observe(operations, rows int, d time.Duration) {
	m.commits.Inc()
	m.rows.Add(float64(rows))
	m.batch.Observe(float64(operations))
	m.seconds.Observe(d.Seconds())
}
