package chain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/chain"
)

// model is one whose next answers a test sets; it says its name once they are used up.
type model struct {
	name  string
	mu    sync.Mutex
	asked int
	fails []error
	says  string        // streamed before every answer and every failure
	takes time.Duration // for every call
}

func (m *model) Name() string { return m.name }

func (m *model) Complete(ctx context.Context, _ llm.Request, onText func(string)) (corebot.Answer, error) {
	err := m.next()
	if m.says != "" && onText != nil {
		onText(m.says)
	}
	select {
	case <-time.After(m.takes):
	case <-ctx.Done():
		return corebot.Answer{}, context.Cause(ctx)
	}
	if err != nil {
		return corebot.Answer{}, err
	}
	return corebot.Answer{Text: m.name, Model: m.name, Usage: corebot.Usage{
		InputTokens: 5, OutputTokens: 2,
		CacheReadTokens: 1,
	}}, nil
}

func (m *model) next() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	if len(m.fails) == 0 {
		return nil
	}
	err := m.fails[0]
	m.fails = m.fails[1:]
	return err
}

// times asks how often the model was asked since it was last asked so.
func (m *model) times() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.asked = 0 }()
	return m.asked
}

func fail(class corebot.Class, retryAfter time.Duration, about error) error {
	return &corebot.Failure{Class: class, RetryAfter: retryAfter, Err: fmt.Errorf("it failed: %w", about)}
}

var (
	errBusy     = errors.New("busy")
	broken      = fail(corebot.Transient, 0, errBusy)
	unreachable = fail(corebot.Transient, 0, llm.ErrUnreachable)
	refusedKey  = fail(corebot.Permanent, 0, llm.ErrUnauthorized)
)

func repeated(err error, n int) []error { return slices.Repeat([]error{err}, n) }

// kit is a chain of two providers, the first with two models.
type kit struct {
	*chain.Chain
	a1, a2, b *model
}

func newKit(t *testing.T, o chain.Options) *kit {
	t.Helper()
	k := &kit{a1: &model{name: "a1"}, a2: &model{name: "a2"}, b: &model{name: "b"}}
	var err error
	if k.Chain, err = chain.New([]chain.Provider{
		{Name: "A", Models: []llm.Model{k.a1, k.a2}},
		{Name: "B", Models: []llm.Model{k.b}},
	}, o); err != nil {
		t.Fatal(err)
	}
	return k
}

// ask makes a call and gives who answered, or the failure.
func (k *kit) ask(t *testing.T) (string, *corebot.Failure) {
	t.Helper()
	a, err := k.Complete(t.Context(), llm.Request{}, nil)
	f := (*corebot.Failure)(nil)
	if err != nil && !errors.As(err, &f) {
		t.Fatalf("%T %v is no failure", err, err)
	}
	return a.Text, f
}

func (k *kit) wantAnswer(t *testing.T, who string) {
	t.Helper()
	if got, f := k.ask(t); got != who {
		t.Fatalf("%q answered (%v), want %s", got, f, who)
	}
}

// wantAsked fails the test unless the models were asked so often since the last time.
func (k *kit) wantAsked(t *testing.T, a1, a2, b int) {
	t.Helper()
	if got, want := [3]int{k.a1.times(), k.a2.times(), k.b.times()}, [3]int{a1, a2, b}; got != want {
		t.Fatalf("asked %v, want %v", got, want)
	}
}

func TestTheFirstThatAnswersAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		a1, a2, b error
		answers   string
		asked     [3]int
	}{
		"all well":                    {nil, nil, nil, "a1", [3]int{1, 0, 0}},
		"a model that is broken":      {broken, nil, nil, "a2", [3]int{1, 1, 0}},
		"a provider that is broken":   {broken, broken, nil, "b", [3]int{1, 1, 1}},
		"a provider that is not here": {unreachable, nil, nil, "b", [3]int{1, 0, 1}},
		"a provider that locks us out": {
			refusedKey, nil, nil, "b", [3]int{1, 0, 1},
		},
		"a model that is not there": {fail(corebot.Permanent, 0, llm.ErrNoModel), nil, nil, "a2", [3]int{1, 1, 0}},
		"a page of HTML":            {fail(corebot.Permanent, 0, errBusy), nil, nil, "a2", [3]int{1, 1, 0}},
		"a rate limit": {
			fail(corebot.RateLimited, time.Minute, errBusy), nil, nil, "a2",
			[3]int{1, 1, 0},
		},
		"a request that is too long": {
			fail(corebot.Permanent, 0, llm.ErrContextTooLong), nil, nil, "",
			[3]int{1, 0, 0},
		},
		"a request that is bad":       {fail(corebot.Permanent, 0, llm.ErrBadRequest), nil, nil, "", [3]int{1, 0, 0}},
		"a request that is refused":   {fail(corebot.Permanent, 0, llm.ErrRefused), nil, nil, "", [3]int{1, 0, 0}},
		"a request, by the second":    {broken, fail(corebot.Permanent, 0, llm.ErrRefused), nil, "", [3]int{1, 1, 0}},
		"one after the other, to end": {broken, broken, broken, "", [3]int{1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, chain.Options{})
			k.a1.fails, k.a2.fails, k.b.fails = []error{c.a1}, []error{c.a2}, []error{c.b}
			got, f := k.ask(t)
			if got != c.answers || (f == nil) != (got != "") {
				t.Errorf("%q answered, %v", got, f)
			}
			k.wantAsked(t, c.asked[0], c.asked[1], c.asked[2])
		})
	}
}

func TestABreakerOpensAfterFailuresInARowAndCoolsDownLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, chain.Options{Failures: 2, CoolDown: 10 * time.Second, MaxCoolDown: 30 * time.Second})
		k.a1.fails = []error{broken, nil, broken, broken, broken, broken, broken}
		for range 4 {
			k.ask(t)
		}
		k.wantAsked(t, 4, 3, 0) // a success in between starts the count anew
		for _, coolDown := range []time.Duration{
			10 * time.Second, 20 * time.Second, 30 * time.Second,
			30 * time.Second,
		} {
			k.wantAnswer(t, "a2")
			time.Sleep(coolDown - time.Millisecond)
			k.wantAnswer(t, "a2")
			k.wantAsked(t, 0, 2, 0)
			time.Sleep(time.Millisecond)
			k.ask(t) // the probe
			if k.a1.times() != 1 {
				t.Fatalf("after %v it was not asked", coolDown)
			}
			k.a2.times()
		}
		k.wantAnswer(t, "a1") // the last probe succeeded
		k.a1.fails = []error{broken, broken}
		k.ask(t)
		k.ask(t)
		time.Sleep(10 * time.Second) // the first cool-down again
		k.wantAnswer(t, "a1")
	})
}

func TestOneCallAtATimeFindsOutWhetherAModelIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, chain.Options{Failures: 1, CoolDown: 10 * time.Second})
		k.a1.fails = []error{broken}
		k.wantAnswer(t, "a2")
		time.Sleep(10 * time.Second)
		k.wantAsked(t, 1, 1, 0)
		k.a1.takes = time.Second
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { k.ask(t) })
		}
		wg.Wait()
		k.wantAsked(t, 1, 9, 0)
		k.wantAnswer(t, "a1")
	})
}

func TestAProbeThatIsGivenUpLetsTheNextOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, chain.Options{Failures: 1, CoolDown: 10 * time.Second})
		k.a1.fails = []error{broken, nil, fail(corebot.Permanent, 0, llm.ErrBadRequest)}
		k.ask(t)
		time.Sleep(10 * time.Second)
		k.a1.takes = time.Minute
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(corebot.ErrStopped) })
		if _, err := k.Complete(ctx, llm.Request{}, nil); err != corebot.ErrStopped {
			t.Fatalf("the end of the context came back as %v", err)
		}
		k.a1.takes = 0
		k.ask(t) // a bad request tells nothing of the model
		k.wantAnswer(t, "a1")
	})
}

func TestARateLimitAndARefusedKeyCoolDownForTheirOwnTime(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		coolDown time.Duration
		whole    bool // the provider, with all its models
	}{
		"a rate limit with a time":    {fail(corebot.RateLimited, 42*time.Second, errBusy), 42 * time.Second, false},
		"a rate limit without":        {fail(corebot.RateLimited, 0, errBusy), 5 * time.Second, false},
		"a failure with a time":       {fail(corebot.Transient, 7*time.Second, errBusy), 7 * time.Second, false},
		"a refused key":               {refusedKey, 15 * time.Minute, true},
		"no credit":                   {fail(corebot.RateLimited, 0, llm.ErrUnauthorized), 15 * time.Minute, true},
		"no such model":               {fail(corebot.Permanent, 0, llm.ErrNoModel), 15 * time.Minute, false},
		"a server that is not there":  {unreachable, 15 * time.Second, true},
		"an unreachable one, limited": {fail(corebot.Transient, time.Minute, llm.ErrUnreachable), time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKit(t, chain.Options{Failures: 1})
				k.a1.fails = []error{c.err}
				k.ask(t)
				k.a2.times()
				time.Sleep(c.coolDown - time.Millisecond)
				k.ask(t)
				if k.a1.times() != 1 || (k.a2.times() == 0) != c.whole {
					t.Error("it was not left alone, or its siblings were")
				}
				time.Sleep(time.Millisecond)
				k.wantAnswer(t, "a1")
			})
		})
	}
}

func TestTheStatesSayWhoRestsUntilWhenAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, chain.Options{})
		k.a1.fails = []error{fail(corebot.RateLimited, time.Minute, errBusy)}
		until := time.Now().Add(time.Minute)
		k.ask(t)
		states := k.States(time.Now())
		cause := states[0].Cause
		if states[0].Failing != cause {
			t.Errorf("the last call failed as %q", states[0].Failing)
		}
		states[0].Cause, states[0].Failing = "", ""
		want := []chain.ModelState{
			{Name: "A/a1", Breaker: "open", Until: until},
			{Name: "A/a2", Breaker: "closed"},
			{Name: "B/b", Breaker: "closed"},
		}
		if !slices.Equal(states, want) || !strings.Contains(cause, errBusy.Error()) {
			t.Errorf("%+v, for %q", states, cause)
		}
		time.Sleep(time.Minute)
		if s := k.States(time.Now())[0]; s.Breaker != "half_open" {
			t.Errorf("after the cool-down: %+v", s)
		}
		k.wantAnswer(t, "a1")
		if s := k.States(time.Now())[0]; s != (chain.ModelState{Name: "A/a1", Breaker: "closed"}) {
			t.Errorf("after an answer: %+v", s)
		}
	})
}

func TestACallThatBeganBeforeARateLimitDoesNotEndIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, chain.Options{})
		k.a1.takes = time.Second
		var wg sync.WaitGroup
		wg.Go(func() { k.wantAnswer(t, "a1") })
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		k.a1.takes, k.a1.fails = 0, []error{fail(corebot.RateLimited, time.Minute, errBusy)}
		k.wantAnswer(t, "a2")
		wg.Wait()
		k.wantAnswer(t, "a2")
	})
}

func TestOfTwoRateLimitsTheLongerOneHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, chain.Options{})
		k.a1.takes, k.a1.fails = time.Second, []error{
			fail(corebot.RateLimited, time.Minute, errBusy),
			fail(corebot.RateLimited, 5*time.Second, errBusy),
		}
		var wg sync.WaitGroup
		for range 2 { // the one that is told to wait a minute ends first
			wg.Go(func() { k.wantAnswer(t, "a2") })
			time.Sleep(100 * time.Millisecond)
		}
		wg.Wait()
		k.a1.takes = 0
		time.Sleep(30 * time.Second)
		k.wantAnswer(t, "a2")
		time.Sleep(30 * time.Second)
		k.wantAnswer(t, "a1")
	})
}

func TestWithNobodyLeftTheFailureIsTheOneThatCanBeTriedSoonest(t *testing.T) {
	limited := func(d time.Duration) error { return fail(corebot.RateLimited, d, fmt.Errorf("limit of %v", d)) }
	for name, c := range map[string]struct {
		a1, a2, b error
		class     corebot.Class
		after     time.Duration
		says      string
	}{
		"the shortest limit": {
			limited(50 * time.Second), limited(20 * time.Second),
			limited(40 * time.Second), corebot.RateLimited, 20 * time.Second, "limit of 20s",
		},
		"now, before any limit": {
			limited(50 * time.Second), broken, limited(40 * time.Second),
			corebot.Transient, 0, "busy",
		},
		"a limit, before what is for good": {
			refusedKey, nil, limited(40 * time.Second), corebot.RateLimited,
			40 * time.Second, "limit of 40s",
		},
		"what is for good": {
			refusedKey, nil, fail(corebot.Permanent, 0, llm.ErrNoModel),
			corebot.Permanent, 0, llm.ErrUnauthorized.Error(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKit(t, chain.Options{})
				k.a1.fails, k.a2.fails, k.b.fails = []error{c.a1}, []error{c.a2}, []error{c.b}
				_, f := k.ask(t)
				if f == nil || f.Class != c.class || f.RetryAfter != c.after ||
					!strings.Contains(f.Unwrap().Error(), c.says) {
					t.Fatalf("%+v", f)
				}
				if !strings.Contains(errors.Unwrap(f.Err).Error(), c.says) ||
					strings.Count(f.Error(), "it failed") < 2 {
					t.Errorf("%v does not tell of all, or is not decided by one", f)
				}
			})
		})
	}
}

func TestWhileAllRestNobodyIsAskedAndTheCallerLearnsWhenAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, chain.Options{})
		k.a1.fails, k.b.fails = []error{refusedKey}, []error{fail(corebot.RateLimited, 40*time.Second, errBusy)}
		k.ask(t)
		k.wantAsked(t, 1, 0, 1)
		time.Sleep(10 * time.Second)
		_, f := k.ask(t)
		k.wantAsked(t, 0, 0, 0)
		if f == nil || f.Class != corebot.RateLimited || f.RetryAfter != 30*time.Second || !errors.Is(f, errBusy) ||
			!strings.Contains(f.Error(), "rests for 30s") {
			t.Fatalf("%+v", f)
		}
		k.b.fails = []error{refusedKey}
		time.Sleep(30 * time.Second)
		k.ask(t)
		if _, f := k.ask(t); f == nil || f.Class != corebot.Permanent || f.RetryAfter != 0 ||
			!errors.Is(f, llm.ErrUnauthorized) {
			t.Fatalf("%+v", f)
		}
	})
}

func TestASingleModelIsAskedEveryTime(t *testing.T) {
	m := &model{name: "m", fails: repeated(refusedKey, 20)}
	c, err := chain.New([]chain.Provider{{Name: "only", Models: []llm.Model{m}}}, chain.Options{Failures: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := c.Complete(t.Context(), llm.Request{}, nil); !errors.Is(err, llm.ErrUnauthorized) ||
			strings.Contains(err.Error(), "no model answers") {
			t.Fatal(err)
		}
	}
	if _, err := c.Complete(t.Context(), llm.Request{}, nil); err != nil || m.times() != 21 {
		t.Errorf("%v", err)
	}
}

func TestWhatAFailedStreamHasShownIsTakenBackBeforeAnotherBegins(t *testing.T) {
	for _, c := range []struct {
		resets bool
		says   string // what the first model streams before it fails
		want   string
	}{{true, "half an", "half an|whole"}, {false, "half an", "half an"}, {true, "", "whole"}, {false, "", "whole"}} {
		k := newKit(t, chain.Options{})
		k.a1.says, k.a1.fails, k.a2.fails, k.b.says = c.says, []error{broken}, []error{broken}, "whole"
		var shown strings.Builder
		r := llm.Request{}
		if c.resets {
			r.OnReset = func() { shown.WriteString("|") }
		}
		a, err := k.Complete(t.Context(), r, func(s string) { shown.WriteString(s) })
		if err != nil || a.Text != "b" || shown.String() != c.want {
			t.Errorf("%+v: shown %q, %v", c, shown.String(), err)
		}
	}
}

func TestARequestCanAskForAModel(t *testing.T) {
	k := newKit(t, chain.Options{})
	for asked, want := range map[string]string{"": "a1", "a2": "a2", "b": "b", "B/b": "b", "A/a2": "a2"} {
		if a, err := k.Complete(t.Context(), llm.Request{Model: asked}, nil); err != nil || a.Text != want {
			t.Errorf("%q: %q answered, %v", asked, a.Text, err)
		}
	}
	k.b.fails = []error{broken}
	if a, err := k.Complete(t.Context(), llm.Request{Model: "b"}, nil); err != nil || a.Text != "a1" {
		t.Errorf("when the one that is asked for fails: %q, %v", a.Text, err)
	}
	_, err := k.Complete(t.Context(), llm.Request{Model: "c"}, nil)
	if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Permanent ||
		!errors.Is(err, llm.ErrBadRequest) || !strings.Contains(corebot.HintOf(err), "A/a1, A/a2, B/b") {
		t.Errorf("a model that is not there: %v (hint %q)", err, corebot.HintOf(err))
	}
	if k.Name() != "a1" || !slices.Equal(k.Models(), []string{"A/a1", "A/a2", "B/b"}) {
		t.Errorf("%s of %v", k.Name(), k.Models())
	}
}

func TestCallsBreakersAndTokensAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := chain.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	before := newKit(t, chain.Options{Failures: 1, Metrics: metrics})
	metrics.Show(before.Chain)
	before.a2.fails = []error{broken}
	before.ask(t)
	k := newKit(t, chain.Options{Failures: 1, Metrics: metrics}) // counts on, with breakers of its own
	metrics.Show(k.Chain)
	k.a1.fails = []error{broken}
	k.ask(t)
	k.ask(t)
	if n, err := testutil.GatherAndCount(registry, "corebot_provider_calls_total"); err != nil || n != 3*12 {
		t.Errorf("%d series of calls, want each outcome of each model from the start; %v", n, err)
	}
	risen := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := registry.Gather()
		for _, f := range families {
			f.Metric = slices.DeleteFunc(f.Metric, func(m *dto.Metric) bool {
				return m.Counter != nil &&
					m.Counter.GetValue() == 0
			})
		}
		return families, err
	})
	err = testutil.GatherAndCompare(risen, strings.NewReader(`
# HELP corebot_provider_breaker State of the breaker of a provider's model: 0 closed, 1 half-open, 2 open.
# TYPE corebot_provider_breaker gauge
corebot_provider_breaker{model="a1",provider="A"} 2
corebot_provider_breaker{model="a2",provider="A"} 0
corebot_provider_breaker{model="b",provider="B"} 0
# HELP corebot_provider_calls_total Calls of a provider's model, `+
		`by outcome: ok, resting (not asked: its breaker is open), `+
		`transient, rate_limited, permanent, cancelled, context_too_long, refused, bad_request, unauthorized, `+
		`no_model, unreachable.
# TYPE corebot_provider_calls_total counter
corebot_provider_calls_total{model="a1",outcome="ok",provider="A"} 1
corebot_provider_calls_total{model="a1",outcome="resting",provider="A"} 1
corebot_provider_calls_total{model="a1",outcome="transient",provider="A"} 1
corebot_provider_calls_total{model="a2",outcome="ok",provider="A"} 2
`), "corebot_provider_breaker", "corebot_provider_calls_total")
	if err != nil {
		t.Error(err)
	}
	tokens, err := testutil.GatherAndCount(registry, "corebot_provider_tokens_total", "corebot_provider_seconds")
	if err != nil || tokens != 4*3+3 {
		t.Errorf("%d series of tokens and times, %v", tokens, err)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	m := &model{name: "m"}
	for name, providers := range map[string][]chain.Provider{
		"nobody": nil, "no name": {{Models: []llm.Model{m}}}, "no model": {{Name: "a"}},
		"one twice": {{Name: "a", Models: []llm.Model{m, m}}},
	} {
		if c, err := chain.New(providers, chain.Options{}); c != nil || !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// steady fails always, never, or half of the time.
type steady struct {
	name  string
	every int64
	calls atomic.Int64
}

func (s *steady) Name() string { return s.name }

func (s *steady) Complete(context.Context, llm.Request, func(string)) (corebot.Answer, error) {
	if n := s.calls.Add(1); s.every > 0 && n%s.every == 0 {
		return corebot.Answer{}, broken
	}
	return corebot.Answer{Text: s.name}, nil
}

func TestManyCallsAtOnceAreAllAnsweredAsLongAsOneModelIsWell(t *testing.T) {
	models := []*steady{{name: "never", every: 1}, {name: "half", every: 2}, {name: "always"}}
	var providers []chain.Provider
	for _, m := range models {
		providers = append(providers, chain.Provider{Name: m.name, Models: []llm.Model{m}})
	}
	c, err := chain.New(providers, chain.Options{CoolDown: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if a, err := c.Complete(t.Context(), llm.Request{}, nil); err != nil || a.Text == "" {
					t.Errorf("%+v, %v", a, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestAModelIsFailingUntilItAnswers(t *testing.T) {
	bad := fail(corebot.Permanent, 0, llm.ErrBadRequest)
	declined := fail(corebot.Permanent, 0, llm.ErrRefused)
	for name, c := range map[string]struct {
		met  []error
		want bool
	}{
		"never asked":            {nil, false},
		"a refused key":          {[]error{refusedKey}, true},
		"one bad request":        {[]error{bad}, false},
		"nothing but refusals":   {[]error{bad, bad, bad}, true},
		"declined, again":        {[]error{declined, declined, declined}, false},
		"a failure, then a word": {[]error{broken, nil}, false},
		"bad, but not in a row":  {[]error{bad, bad, nil, bad}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &model{name: "only", fails: c.met}
			one, err := chain.New([]chain.Provider{{Name: "A", Models: []llm.Model{m}}}, chain.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for range c.met {
				_, _ = one.Complete(t.Context(), llm.Request{}, nil) // what it says is not the point
			}
			if got := one.States(time.Now())[0].Failing; (got != "") != c.want {
				t.Errorf("it is said to fail by %q", got)
			}
		})
	}
}
