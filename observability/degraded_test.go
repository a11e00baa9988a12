package observability_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/corebot/corebot/observability"
)

func newDegraded(t *testing.T, r prometheus.Registerer) *observability.Degraded {
	t.Helper()
	d, err := observability.NewDegraded(r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func reasonsOf(d *observability.Degraded) (names []observability.Reason) {
	for _, r := range d.Now(context.Background()) {
		names = append(names, r.Reason)
	}
	return names
}

func TestAReasonHoldsUntilItIsTakenBack(t *testing.T) {
	d := newDegraded(t, nil)
	lane := ""
	d.Watch(observability.LaneDamaged, func(context.Context) string { return lane })
	if got := reasonsOf(d); got != nil {
		t.Fatalf("at the start there are %v", got)
	}
	d.Set(observability.PromptPage, "IDENTITY.md is too large")
	lane = "1 lane"
	d.Set("made up", "no reason of this name exists")
	if got := reasonsOf(d); !slices.Equal(got, []observability.Reason{
		observability.LaneDamaged,
		observability.PromptPage,
	}) {
		t.Errorf("there are %v", got)
	}
	d.Set(observability.PromptPage, "")
	lane = ""
	if got := reasonsOf(d); got != nil {
		t.Errorf("%v are left", got)
	}
	var none *observability.Degraded
	none.Set(observability.PromptPage, "x")
	none.Watch(observability.PromptPage, nil)
	if got := reasonsOf(none); got != nil {
		t.Errorf("nothing at all gives %v", got)
	}
}

func TestTheGaugeShowsEveryReasonFromTheStart(t *testing.T) {
	r := prometheus.NewRegistry()
	d := newDegraded(t, r)
	if n := testutil.CollectAndCount(r, "corebot_degraded"); n != 6 {
		t.Errorf("%d series at the start, want one for each reason", n)
	}
	d.Set(observability.PromptPage, "x")
	const want = `
# HELP corebot_degraded 1 for each reason why Corebot answers less well than it should: model, ` +
		`damaged_lane, backup, prompt_page, channel, stuck. /status has the details.
# TYPE corebot_degraded gauge
corebot_degraded{reason="backup"} 0
corebot_degraded{reason="channel"} 0
corebot_degraded{reason="damaged_lane"} 0
corebot_degraded{reason="model"} 0
corebot_degraded{reason="prompt_page"} 1
corebot_degraded{reason="stuck"} 0
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "corebot_degraded"); err != nil {
		t.Error(err)
	}
}

// /ready needs no token: it names the reason and keeps the detail to itself.
func TestReadyNamesWhatIsDegradedAndStaysReady(t *testing.T) {
	d := newDegraded(t, nil)
	d.Set(observability.PromptPage, "/home/someone/IDENTITY.md")
	o := options()
	o.Degraded = d
	url := serve(t, o)
	if status, body := get(t, url+"/ready", ""); status != 200 || !strings.HasPrefix(body, "ready\n") ||
		!strings.Contains(body, "degraded: prompt_page: a page") || strings.Contains(body, "someone") {
		t.Errorf("%d %q", status, body)
	}
	o.Ready = func(context.Context) []string { return []string{"the disk is full"} }
	if status, body := get(t, serve(t, o)+"/ready", ""); status != 503 ||
		!strings.HasPrefix(body, "the disk is full\ndegraded: prompt_page") {
		t.Errorf("%d %q", status, body)
	}
}
