package tools_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/tools"
)

// owns is a tool that wants one change of Corebot's own data.
func owns(fn func(context.Context) (corebot.Effect, string, error)) tools.Tool {
	return tools.NewOwn("web.search", "A tool for tests.", 0, func(ctx context.Context, _ tools.Call,
		_ noArgs,
	) (corebot.Effect, string, error) {
		return fn(ctx)
	})
}

func replays(letter int64) func(context.Context) (corebot.Effect, string, error) {
	return func(context.Context) (corebot.Effect, string, error) {
		return corebot.ReplayDeadLetter{ID: letter}, "replayed", nil
	}
}

func TestAToolOfOwnDataHasItsEffectStoredWithItsOutcomeAndNoIntent(t *testing.T) {
	s := newStep()
	r, err := newBox(t, normal, tools.Options{}, owns(replays(7))).Call(t.Context(), who, call("web.search", `{}`), s)
	requireEnd(t, s, r, err, corebot.OutcomeSuccess, "replayed")
	if got := strings.Join(*s.log, " "); got != "apply" || len(s.effects) != 1 ||
		s.effects[0] != (corebot.ReplayDeadLetter{ID: 7}) {
		t.Errorf("order: %s; effects %+v", got, s.effects)
	}
}

func TestAnEffectThatIsRefusedIsAnErrorThatTheModelReads(t *testing.T) {
	s := newStep()
	s.applyErr = &corebot.Refused{Err: fmt.Errorf("dead letter 7: %w", corebot.ErrNotFound)}
	r, err := newBox(t, normal, tools.Options{}, owns(replays(7))).Call(t.Context(), who, call("web.search", `{}`), s)
	requireEnd(t, s, r, err, corebot.OutcomeError, "error: dead letter 7: not found")
	if len(s.effects) != 0 {
		t.Errorf("effects %+v", s.effects)
	}
}

func TestAnEffectThatIsDeniedHasBeenStoredAndIsCounted(t *testing.T) {
	s, metrics := newStep(), prometheus.NewRegistry()
	s.applyErr = &corebot.Denied{Rule: "bootstrap-key", Reason: "this is not the bootstrap key"}
	r, err := newBox(t, normal, tools.Options{Metrics: metrics}, owns(replays(7))).Call(t.Context(), who,
		call("web.search", `{}`), s)
	if err != nil || r.Outcome != corebot.OutcomeDenied || r.Content != "denied: this is not the bootstrap key" ||
		strings.Join(*s.log, " ") != "apply" {
		t.Errorf("got %+v, %v; the journal saw %q", r, err, *s.log)
	}
	families, err := metrics.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	calls := map[string]uint64{}
	for _, m := range families[0].GetMetric() {
		calls[m.GetLabel()[0].GetValue()] = m.GetSummary().GetSampleCount()
	}
	if want := map[string]uint64{"web": 1, "mcp": 0, "unknown": 0}; !maps.Equal(calls, want) {
		t.Errorf("counted %v, want %v", calls, want)
	}
}

func TestTroubleWithTheStoreDuringAnEffectEndsTheTurn(t *testing.T) {
	s := newStep()
	s.applyErr = corebot.ErrLeaseLost
	_, err := newBox(t, normal, tools.Options{}, owns(replays(7))).Call(t.Context(), who, call("web.search", `{}`), s)
	if !errors.Is(err, corebot.ErrLeaseLost) || len(s.results) != 0 {
		t.Errorf("%v; the journal has %+v", err, s.results)
	}
}

func TestAToolOfOwnDataThatFailsOrHasNothingToChangeHasAPlainOutcome(t *testing.T) {
	for outcome, fn := range map[corebot.AuditOutcome]func(context.Context) (corebot.Effect, string, error){
		corebot.OutcomeError: func(context.Context) (corebot.Effect, string, error) {
			return corebot.ReplayDeadLetter{ID: 7}, "", errors.New("no")
		},
		corebot.OutcomeSuccess: func(context.Context) (corebot.Effect, string, error) { return nil, "no", nil },
	} {
		s := newStep()
		r, err := newBox(t, normal, tools.Options{}, owns(fn)).Call(t.Context(), who, call("web.search", `{}`), s)
		requireEnd(t, s, r, err, outcome, "no")
		if got := strings.Join(*s.log, " "); got != "finish" {
			t.Errorf("%s: %s", outcome, got)
		}
	}
}

func TestAToolOfOwnDataThatIsCutOffOrLeftBehindHasChangedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newBox(t, normal, tools.Options{}, owns(func(context.Context) (corebot.Effect, string, error) {
			<-release
			return corebot.ReplayDeadLetter{ID: 7}, "replayed", nil
		}))
		s := newStep()
		r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
		requireEnd(t, s, r, err, corebot.OutcomeError, "left behind")

		ctx, stop := context.WithCancelCause(t.Context())
		stop(corebot.ErrStopped)
		close(release)
		s = newStep()
		if _, err := b.Call(ctx, who, call("web.search", `{}`), s); !errors.Is(err, corebot.ErrStopped) ||
			len(*s.log) != 0 {
			t.Errorf("%v; the journal saw %q", err, *s.log)
		}
	})
}
