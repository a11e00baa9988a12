package watchdog_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/watchdog"
)

const after = 30 * time.Second

// part is a part whose probe says what the test sets.
type part struct {
	mark  atomic.Pointer[string]
	fails atomic.Bool
	hangs atomic.Bool
	n     atomic.Int64
}

func (p *part) probe(context.Context) (string, error) {
	for p.hangs.Load() {
		time.Sleep(time.Second)
	}
	if p.fails.Load() {
		return "", errors.New("no answer")
	}
	if mark := p.mark.Load(); mark != nil {
		return strings.ReplaceAll(*mark, "#", strconv.FormatInt(p.n.Add(1), 10)), nil
	}
	return "", nil
}

func (p *part) says(mark string) { p.mark.Store(&mark) }

// watch runs a watchdog of the parts until the test ends.
func watch(t *testing.T, o watchdog.Options) *watchdog.Watchdog {
	t.Helper()
	o.After = after
	w, err := watchdog.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

func names(all []watchdog.Stuck) string {
	var out []string
	for _, s := range all {
		out = append(out, s.Part)
	}
	return strings.Join(out, " ")
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestAPartThatLeavesTheSameWorkStandsStillUntilTheWorkIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var p part
		r := prometheus.NewRegistry()
		w := watch(t, watchdog.Options{
			Log: zerolog.New(&log), Metrics: r, Parts: []watchdog.Part{{Name: "router", Probe: p.probe}},
		})
		pass(time.Hour)
		p.says("lane 7, # times seen")
		pass(time.Hour)
		if got := names(w.Stuck()); got != "" {
			t.Errorf("with other work each time, it stands still: %s", got)
		}
		p.says("lane 7")
		pass(after)
		if got := names(w.Stuck()); got != "" {
			t.Errorf("within its time: %s", got)
		}
		pass(after / 2)
		if all := w.Stuck(); names(all) != "router" || all[0].Why != "lane 7" || time.Since(all[0].Since) < after {
			t.Errorf("after its time: %+v", all)
		}
		if n := testutil.ToFloat64(gaugeOf(t, r)); n != 1 {
			t.Errorf("the gauge shows %v", n)
		}
		pass(time.Hour)
		p.says("")
		pass(after / 2)
		if got := names(w.Stuck()); got != "" {
			t.Errorf("after the work is done: %s", got)
		}
		if strings.Count(log.String(), "stands still") != 1 || strings.Count(log.String(), "goes on") != 1 {
			t.Errorf("the log says:\n%s", log.String())
		}
	})
}

// gaugeOf is what a registry gathers, as one collector.
func gaugeOf(t *testing.T, r *prometheus.Registry) prometheus.Collector {
	t.Helper()
	all, err := r.Gather()
	if err != nil || len(all) != 1 || all[0].GetName() != "corebot_stuck" || len(all[0].GetMetric()) != 1 {
		t.Fatalf("gathered %v (%v)", all, err)
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"})
	g.Set(all[0].GetMetric()[0].GetGauge().GetValue())
	return g
}

func TestAPartThatDoesNotAnswerOrAnswersWithAnErrorStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs, fails part
		w := watch(t, watchdog.Options{Parts: []watchdog.Part{
			{Name: "hangs", Probe: hangs.probe}, {Name: "fails", Probe: fails.probe},
		}})
		hangs.hangs.Store(true)
		fails.fails.Store(true)
		pass(after + after/2)
		if got := names(w.Stuck()); got != "hangs fails" {
			t.Errorf("they stand still: %q", got)
		}
		hangs.hangs.Store(false)
		fails.fails.Store(false)
		pass(after / 2)
		if got := names(w.Stuck()); got != "" {
			t.Errorf("when they answer again, they stand still: %q", got)
		}
	})
}

func TestOnlyTheCauseIsNamedWhenAPartCannotGoOnWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writer, router part
		w := watch(t, watchdog.Options{Parts: []watchdog.Part{
			{Name: "writer", Probe: writer.probe}, {Name: "router", Probe: router.probe, Needs: "writer"},
		}})
		writer.fails.Store(true)
		router.says("lane 7")
		for range 100 { // at no moment, the recovery included
			pass(time.Second)
			if got := names(w.Stuck()); got != "" && got != "writer" {
				t.Fatalf("they stand still: %q", got)
			}
		}
		writer.fails.Store(false)
		for range 29 {
			pass(time.Second)
			if got := names(w.Stuck()); got != "" && got != "writer" {
				t.Fatalf("soon after the cause is gone, they stand still: %q", got)
			}
		}
		pass(after)
		if got := names(w.Stuck()); got != "router" {
			t.Errorf("when it has had its own time: %q", got)
		}
	})
}

func TestAStepThatDoesNotEndInTimeIsOverdueUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s watchdog.Steps[string]
		s.Begin("late", time.Now().Add(time.Minute))
		s.Begin("soon", time.Now().Add(time.Second))
		pass(2 * time.Second)
		if mark := s.Overdue("a step"); !strings.HasPrefix(mark, "a step soon") {
			t.Errorf("overdue is %q", mark)
		}
		pass(time.Hour)
		first := s.Overdue("a step")
		if !strings.HasPrefix(first, "a step late") {
			t.Errorf("overdue is %q", first)
		}
		s.End("soon")
		s.Begin("late", time.Now())
		pass(time.Second)
		if again := s.Overdue("a step"); again == "" || again == first {
			t.Errorf("begun again, it is %q as before", again)
		}
		s.End("late")
		if mark := s.Overdue("a step"); mark != "" {
			t.Errorf("with none open, overdue is %q", mark)
		}
	})
}

func TestAWatchdogWithoutALimitOrWithAnUnknownNeedIsRefused(t *testing.T) {
	var p part
	for _, o := range []watchdog.Options{
		{After: 0}, {After: time.Second, Parts: []watchdog.Part{{Name: "a", Probe: p.probe, Needs: "b"}}},
	} {
		if _, err := watchdog.New(o); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	var none *watchdog.Watchdog
	if all := none.Stuck(); all != nil {
		t.Errorf("no watchdog says %v", all)
	}
}
