// Package chain makes one model of several: providers in the order of their preference, each with its models, each of
// those with a circuit breaker.
//
// It guarantees:
//
//   - A caller sees no failure of a provider as long as another provider answers. Models are tried in order, the models
//     of a provider one after the other. If a provider refuses the key or does not answer, all its models are skipped
//     at once.
//   - A failure of the request is returned as it is: [llm.ErrBadRequest], [llm.ErrRefused] and [llm.ErrContextTooLong]
//     (package llm). It opens no breaker. A request that is too long never moves on to a model with a larger context:
//     its caller shortens it. A silent move to another model would be a surprise on a bill.
//   - A failing model gets no calls for a while. After failures in a row the cool-down doubles. After a rate limit or
//     with a Retry-After it lasts as long as the provider asks. It is long when the provider refuses the key or has no
//     such model. Then one call at a time finds out whether the model is back.
//   - With nobody left, the failure is the one that can be tried again soonest, and its RetryAfter says when.
//   - What a model used that broke off is told beside the answer of the next one, or beside the failure.
//   - What a failed stream has shown is taken back by [llm.Request].OnReset before another model begins, or nothing
//     more is streamed.
//
// A chain of a single model has no breaker: there is nobody to turn to, and the backoff of the bus spares it.
//
// Limits: the breakers are in memory, and a restart closes them all. Attempts cost time one after another: the caller's
// context bounds their sum.
package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/breaker"
	"github.com/corebot/corebot/internal/trace"
)

// Provider is one provider with its models, the preferred one first.
type Provider struct {
	Name   string
	Models []llm.Model
}

// Options of a [Chain]. Zero values mean the defaults.
type Options struct {
	Failures    int           // in a row until a breaker opens; 3
	CoolDown    time.Duration // of a breaker that opens for the first time; it doubles each time; 15 s
	MaxCoolDown time.Duration // 5 min
	Metrics     *Metrics      // nil: nothing is counted
}

// Chain is several models in the place of one. It is safe for concurrent use.
type Chain struct {
	routes  []*route
	opts    Options
	metrics *Metrics
}

var _ llm.Model = (*Chain)(nil)

// route is one model at one provider.
type route struct {
	provider string
	model    llm.Model
	breaker  *breaker.Breaker
	last     streak
}

func (r *route) name() string { return r.provider + "/" + r.model.Name() }

// New makes a chain. It refuses one without models, a provider without a name or with none, and one that is there
// twice.
func New(providers []Provider, o Options) (*Chain, error) {
	o = o.withDefaults()
	c := &Chain{opts: o}
	for _, p := range providers {
		if p.Name == "" || len(p.Models) == 0 {
			return nil, fmt.Errorf("%w: the provider %q has %d models", corebot.ErrInvalid, p.Name, len(p.Models))
		}
		for _, m := range p.Models {
			r := &route{provider: p.Name, model: m, breaker: breaker.New(o.Failures,
				backoff.Policy{Base: o.CoolDown, Max: o.MaxCoolDown})}
			if slices.ContainsFunc(c.routes, func(other *route) bool { return other.name() == r.name() }) {
				return nil, fmt.Errorf("%w: the model %s is there twice", corebot.ErrInvalid, r.name())
			}
			c.routes = append(c.routes, r)
		}
	}
	if len(c.routes) == 0 {
		return nil, fmt.Errorf("%w: a chain without a model", corebot.ErrInvalid)
	}
	if c.metrics = o.Metrics; c.metrics == nil {
		var err error
		if c.metrics, err = NewMetrics(nil); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (o Options) withDefaults() Options {
	if o.Failures <= 0 {
		o.Failures = 3
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&o.CoolDown, 15 * time.Second}, {&o.MaxCoolDown, 5 * time.Minute}} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	o.MaxCoolDown = max(o.MaxCoolDown, o.CoolDown)
	return o
}

// Of is the chain with only the providers that has accepts. Their breakers and metrics are those of c: what one chain
// learns of a model, the other one knows. If a single model is left, it has no breaker in this chain.
func (c *Chain) Of(has func(provider string) bool) (*Chain, error) {
	kept := slices.DeleteFunc(slices.Clone(c.routes), func(r *route) bool { return !has(r.provider) })
	if len(kept) == 0 {
		return nil, fmt.Errorf("%w: a chain without a model", corebot.ErrInvalid)
	}
	return &Chain{routes: kept, opts: c.opts, metrics: c.metrics}, nil
}

// Name is the preferred model's. Which one answered is in the answer.
func (c *Chain) Name() string { return c.routes[0].model.Name() }

// Models are what [llm.Request].Model can ask for, in order, as "provider/model".
func (c *Chain) Models() []string {
	names := make([]string, len(c.routes))
	for i, r := range c.routes {
		names[i] = r.name()
	}
	return names
}

// Thinks says what the model that is asked for, as in [llm.Request], does for a level of thinking; see [llm.Thinker].
// name is the model's.
func (c *Chain) Thinks(model string, asked corebot.Thinking) (name string, does corebot.Thinking, sure bool) {
	routes, err := c.order(model)
	if err != nil {
		return model, asked, false
	}
	name, does = routes[0].model.Name(), asked
	if m, ok := routes[0].model.(llm.Thinker); ok {
		does, sure = m.Thinks(asked)
	}
	return name, does, sure
}

// Complete asks one model after the other; see the package doc.
func (c *Chain) Complete(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
	routes, err := c.order(r.Model)
	if err != nil {
		return corebot.Answer{}, err
	}
	s := &stream{onText: onText, onReset: r.OnReset}
	var failures []failure
	var spent []corebot.ModelUsage // by those that broke off
	left := map[string]bool{}      // providers that are not asked any more
	for _, route := range routes {
		if left[route.provider] {
			continue
		}
		answer, tried, err := c.try(ctx, route, r, s)
		f := (*corebot.Failure)(nil)
		if err == nil || !errors.As(err, &f) || llm.IsOfRequest(err) {
			answer.Failed = append(spent, answer.Failed...)
			return answer, err // an error that is no failure is the end of ctx
		}
		if answer.Usage != (corebot.Usage{}) {
			model := cmp.Or(answer.Model, route.model.Name())
			spent = append(spent, corebot.ModelUsage{Model: model, Usage: answer.Usage})
		}
		if tried && len(routes) > 1 {
			zerolog.Ctx(ctx).Warn().Err(err).Str("model", route.name()).Msg("the model failed")
		}
		left[route.provider] = tried && concernsProvider(err)
		failures = append(failures, failure{Failure: f, err: err, wait: c.wait(route, f)})
	}
	return corebot.Answer{Failed: spent}, soonest(failures)
}

// order puts the model that is asked for in front.
func (c *Chain) order(asked string) ([]*route, error) {
	if asked == "" {
		return c.routes, nil
	}
	at := slices.IndexFunc(c.routes, func(r *route) bool { return r.name() == asked })
	if at < 0 {
		at = slices.IndexFunc(c.routes, func(r *route) bool { return r.model.Name() == asked })
	}
	if at < 0 {
		err := corebot.WithHint(fmt.Errorf("%w: no model is called %q", llm.ErrBadRequest, asked),
			"there are: "+strings.Join(c.Models(), ", "))
		return nil, &corebot.Failure{Class: corebot.Permanent, Err: &corebot.Explanation{
			Err:   err,
			Plain: corebot.FaultUnknownModel.Say(),
		}}
	}
	return append([]*route{c.routes[at]}, slices.Delete(slices.Clone(c.routes), at, at+1)...), nil
}

// try asks one model, unless its breaker is open.
func (c *Chain) try(ctx context.Context, r *route, req llm.Request,
	s *stream,
) (answer corebot.Answer, tried bool, err error) {
	ticket := &ticket{chain: c, route: r}
	if wait, cause := ticket.enter(time.Now()); cause != nil {
		c.metrics.skipped(r)
		return answer, false, resting(r, wait, cause)
	}
	defer ticket.giveBack() // also if the model panics
	began := time.Now()
	answer, err = r.ask(ctx, req, s.begin(), len(c.routes) > 1)
	c.metrics.called(r, answer.Usage, err, time.Since(began), trace.From(ctx).At())
	ticket.outcome(time.Now(), err)
	r.last.note(err)
	return answer, true, err
}

// ask asks the model of a route. Where there are several, each has a span of its own below that of the call.
func (r *route) ask(ctx context.Context, req llm.Request, onText func(string), several bool) (corebot.Answer, error) {
	trace.From(ctx).Text("gen_ai.provider.name", r.provider)
	if !several {
		return r.model.Complete(ctx, req, onText)
	}
	ctx, span := trace.Start(ctx, trace.Client, "try", r.name())
	answer, err := r.model.Complete(ctx, req, onText)
	if err != nil {
		span.Fail(llm.FaultOf(err))
	}
	span.End()
	return answer, err
}

// wait is how long until a model that failed can be asked again.
func (c *Chain) wait(r *route, f *corebot.Failure) time.Duration {
	if len(c.routes) == 1 {
		return f.RetryAfter
	}
	return max(f.RetryAfter, r.breaker.Wait(time.Now()))
}
