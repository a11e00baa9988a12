package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// counters are what the store of a running program has done so far, by its own metrics.
type counters struct {
	at         time.Time
	commits    float64
	rows       float64 // written
	operations float64 // that shared the commits
}

// scrape reads a program's metrics page.
func scrape(ctx context.Context, url string) (counters, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return counters{}, fmt.Errorf("read %s: %w", url, err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return counters{}, fmt.Errorf("read the metrics: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusOK {
		return counters{}, fmt.Errorf("read %s: answered %s", url, answer.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return counters{}, fmt.Errorf("read %s: %w", url, err)
	}
	c := counters{at: time.Now()}
	for _, f := range []struct {
		name string
		to   *float64
	}{
		{"corebot_store_commits_total", &c.commits},
		{"corebot_store_rows_written_total", &c.rows},
		{"corebot_store_batch_operations", &c.operations},
	} {
		if *f.to, err = total(families[f.name]); err != nil {
			return counters{}, fmt.Errorf("read %s: metric %s %w", url, f.name, err)
		}
	}
	return c, nil
}

// total is the value of a counter, or the sum of what a histogram has seen.
func total(f *dto.MetricFamily) (float64, error) {
	if f == nil || len(f.GetMetric()) != 1 {
		return 0, fmt.Errorf("has %d values, want 1", len(f.GetMetric()))
	}
	m := f.GetMetric()[0]
	if h := m.GetHistogram(); h != nil {
		return h.GetSampleSum(), nil
	}
	return m.GetCounter().GetValue(), nil
}

const (
	quietPause = 100 * time.Millisecond // between two looks at whether the store still commits
	// A minute of pauses: the search index can have ten thousand turns to read, and uses a tenth of the writer's time.
	quietTries = 600
	idleTime   = 500 * time.Millisecond // for which the benchmark watches the idle program
)

// waitUntilIdle waits until the store commits nothing from one look to the next. Work that follows a reply, such as the
// settle of its sending, is part of the turn.
func waitUntilIdle(ctx context.Context, url string, interval time.Duration) (counters, error) {
	before, err := scrape(ctx, url)
	for range quietTries {
		if err != nil {
			return before, err
		}
		if err := pause(ctx, interval); err != nil {
			return before, err
		}
		now, err := scrape(ctx, url)
		if err != nil || now.commits == before.commits {
			return now, err
		}
		before = now
	}
	return before, fmt.Errorf("the store does not stop committing while nothing is asked of it: %.0f commits so far",
		before.commits)
}

// idleRates are what an idle program does, per second.
type idleRates struct{ commits, rows float64 }

// watchIdle watches an idle program for some time.
func watchIdle(ctx context.Context, url string, d time.Duration) (idleRates, error) {
	before, err := scrape(ctx, url)
	if err != nil {
		return idleRates{}, err
	}
	if err := pause(ctx, d); err != nil {
		return idleRates{}, err
	}
	after, err := scrape(ctx, url)
	seconds := after.at.Sub(before.at).Seconds()
	return idleRates{(after.commits - before.commits) / seconds, (after.rows - before.rows) / seconds}, err
}

// perTurn is the work of one turn, on average, between two scrapes that lie some seconds apart. The background work is
// left out.
func (o idleRates) perTurn(before, after counters, seconds float64, turns int) (commits, rows float64) {
	commits = after.commits - before.commits - o.commits*seconds
	rows = after.rows - before.rows - o.rows*seconds
	return commits / float64(turns), rows / float64(turns)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
