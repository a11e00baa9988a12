package app

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/anthropic"
	"github.com/corebot/corebot/agent/llm/chain"
	"github.com/corebot/corebot/agent/llm/exchange"
	"github.com/corebot/corebot/agent/llm/offline"
	"github.com/corebot/corebot/agent/llm/openai"
	"github.com/corebot/corebot/agent/llm/tokens"
	"github.com/corebot/corebot/internal/breaker"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/storage"
)

// choice is a model with the reason why it is the one.
type choice struct {
	model     llm.Model
	each      []chain.Provider // that the model stands for; none for the offline model
	counters  counters
	tokenizer llm.Tokenizer
	why       string
	settings  config.LLM // of which it was made
}

// counters count tokens, each for the models of one name. All agents that ask a model share its counter, and what the
// counter learns of the provider's reports.
type counters map[string]*tokens.Counter

func (c counters) of(model string) *tokens.Counter {
	if c[model] == nil {
		c[model] = &tokens.Counter{}
	}
	return c[model]
}

// chooseModel: what is configured; else a server on this machine; else the offline model. Models that see get images
// from blobs, which can be nil.
func chooseModel(ctx context.Context, c config.LLM, r *chain.Metrics, blobs llm.Blobs) (choice, error) {
	chosen, err := firstModel(ctx, c, r, blobs)
	chosen.settings = c
	return chosen, err
}

func firstModel(ctx context.Context, c config.LLM, r *chain.Metrics, blobs llm.Blobs) (choice, error) {
	switch {
	case c.Offline:
		return offlineModel("the offline model answers, as configured"), nil
	case len(c.Providers.List()) > 0:
		return providers(c, r, blobs)
	case c.BaseURL != "" || c.APIKey.Reveal() != "":
		c.Model = cmp.Or(c.Model, config.DefaultModel)
		return endpoint(c, r, blobs, "an OpenAI-compatible endpoint answers, "+hostOf(c.BaseURL))
	case c.Discover:
		if found, ok := openai.Discover(ctx, nil); ok {
			c.BaseURL, c.Model = found.BaseURL, cmp.Or(c.Model, found.Model)
			return endpoint(c, r, blobs, found.Server+" on this machine answers")
		}
	}
	return offlineModel("no model is configured and none runs on this machine: the offline model answers"), nil
}

// endpoint is the one model of base_url, api_key and model.
func endpoint(c config.LLM, r *chain.Metrics, blobs llm.Blobs, why string) (choice, error) {
	known := counters{}
	m, err := openai.New(c.BaseURL, exchange.Options{
		Model: c.Model, APIKey: c.APIKey.Reveal(), Tokenizer: known.of(c.Model), Vision: c.Vision, Blobs: blobs,
		Timeout: c.Timeout, FirstByteTimeout: c.FirstByteTimeout, IdleTimeout: c.IdleTimeout,
	})
	if err != nil {
		return choice{}, fmt.Errorf("set up the model: %w", err)
	}
	return chained(c, r, []chain.Provider{{Name: config.OnlyProvider, Models: []llm.Model{m}}}, known, why)
}

// providers are those of the list.
func providers(c config.LLM, r *chain.Metrics, blobs llm.Blobs) (choice, error) {
	var all []chain.Provider
	known := counters{}
	for _, p := range c.Providers.List() {
		made := chain.Provider{Name: p.Name}
		for _, name := range p.Models {
			m, err := modelOf(c, p, name, known, blobs)
			if err != nil {
				return choice{}, fmt.Errorf("set up the model %s of %s: %w", name, p.Name, err)
			}
			made.Models = append(made.Models, m)
		}
		all = append(all, made)
	}
	return chained(c, r, all, known, "")
}

// modelOf is one model of one provider. Limits that the provider does not set come from the section.
func modelOf(c config.LLM, p config.Provider, name string, known counters, blobs llm.Blobs) (llm.Model, error) {
	o := exchange.Options{
		Provider: p.Name, Model: name, APIKey: p.APIKey.Reveal(), Tokenizer: known.of(name), Vision: p.Vision,
		Timeout: cmp.Or(p.Timeout, c.Timeout), FirstByteTimeout: cmp.Or(p.FirstByteTimeout, c.FirstByteTimeout),
		IdleTimeout: cmp.Or(p.IdleTimeout, c.IdleTimeout), Blobs: blobs,
		Header: make(map[string]string, len(p.Headers)),
	}
	for header, value := range p.Headers {
		o.Header[header] = value.Reveal()
	}
	if p.Kind == "anthropic" {
		return anthropic.New(p.BaseURL, anthropic.Options{Options: o, ThinkingTokens: p.ThinkingTokens})
	}
	return openai.New(p.BaseURL, o)
}

func chained(c config.LLM, r *chain.Metrics, each []chain.Provider, known counters, why string) (choice, error) {
	m, err := chain.New(each, chain.Options{Failures: c.BreakerFailures, CoolDown: c.BreakerCoolDown, Metrics: r})
	if err != nil {
		return choice{}, fmt.Errorf("set up the models: %w", err)
	}
	if why == "" {
		why = "models answer in this order: " + strings.Join(m.Models(), ", ")
	}
	return choice{model: m, each: each, counters: known, tokenizer: known.of(m.Name()), why: why}, nil
}

// of is what an agent can ask: the models of its providers.
func (c choice) of(entry config.AgentEntry) (choice, error) {
	all, ok := c.model.(*chain.Chain)
	if !ok { // the offline model
		return c, nil
	}
	m, err := all.Of(entry.HasProvider)
	if err != nil {
		return choice{}, fmt.Errorf("choose the providers of the agent %s: %w", entry.ID, err)
	}
	each := slices.DeleteFunc(slices.Clone(c.each), func(p chain.Provider) bool { return !entry.HasProvider(p.Name) })
	return choice{m, each, c.counters, c.counters.of(m.Name()), c.why, c.settings}, nil
}

// hostOf names an endpoint without what may be secret in its address.
func hostOf(baseURL string) string {
	if u, err := url.Parse(cmp.Or(baseURL, openai.DefaultBaseURL)); err == nil {
		return u.Host
	}
	return "?"
}

// ModelName is the preferred model's.
func (a *App) ModelName() string { return a.models.Load().model.Name() }

// modelNames are the models that a chat of an agent can ask for.
func (a *App) modelNames(agent string) []string {
	entry, ok := a.config.EntryOf(agent)
	if !ok {
		return nil
	}
	if known := a.models.Load().settings.Of(entry).KnownModels(); len(known) > 0 {
		return known
	}
	return []string{a.ModelName()}
}

// thinks implements [router.Thinks].
func (a *App) thinks(agent, model string, asked corebot.Thinking) corebot.Thought {
	entry, ok := a.config.EntryOf(agent)
	if !ok {
		return corebot.Thought{Asked: asked}
	}
	t := corebot.Thought{Asked: cmp.Or(asked, corebot.Thinking(entry.Think))}
	models := a.models.Load()
	if u := a.agents.all[agent]; u != nil {
		models = &u.mind.Load().models
	}
	t.Model, t.Does, t.Sure = models.thinks(cmp.Or(model, entry.Model), t.Asked)
	return t
}

// thinks says what a model does for a level of thinking; the model is named as in [llm.Request].
func (c choice) thinks(model string, asked corebot.Thinking) (name string, does corebot.Thinking, sure bool) {
	if m, ok := c.model.(*chain.Chain); ok {
		return m.Thinks(model, asked)
	}
	does, sure = offline.Model{}.Thinks(asked)
	return c.model.Name(), does, sure
}

// states are the models that answer, in their order, with their breakers; none for the offline model.
func (c choice) states() []chain.ModelState {
	if m, ok := c.model.(*chain.Chain); ok {
		return m.States(time.Now())
	}
	return nil
}

// failing says why no model answers: how the last call of each failed. It is "" if there is one whose last call did
// not.
func (c choice) failing(context.Context) string {
	var all []string
	for _, s := range c.states() {
		if s.Failing == "" {
			return ""
		}
		all = append(all, s.Name+": "+s.Failing)
	}
	return strings.Join(all, "; ")
}

// describe names the preferred model, and those that rest, as a chat may see it: why is the operator's.
func (c choice) describe() string {
	text := c.model.Name()
	for _, s := range c.states() {
		if s.Breaker == breaker.Open.String() {
			text += fmt.Sprintf("; %s failed and rests until %s", s.Name, s.Until.UTC().Format("15:04:05 MST"))
		}
	}
	return text
}

func offlineModel(why string) choice {
	m := offline.Model{}
	return choice{model: m, tokenizer: llm.Estimate{}, why: why}
}

const (
	// unknownContext is what a model that is not known is taken to have, in tokens.
	unknownContext = 32_000
	// maxContext is how much of a model's context is used unless a setting says so: a conversation is paid for anew
	// with each of its messages.
	maxContext = 64_000
)

// brain makes what answers for an agent. It logs what the context was taken to be.
func (a *App) brain(u *agentUnit, chosen choice, r prometheus.Registerer) (*agent.Agent, error) {
	return agent.New(agent.Parts{
		Model: chosen.model, Tools: toolbox{u.box, u.servers, nil}, Journal: storage.NewLedger(a.Store),
		History: storage.NewHistory(a.Store), Notes: u.notes, Roles: storage.NewGrants(a.Store),
		Facts: a.facts(),
	}, a.agentOptions(u.entry, chosen, r))
}

// knowledge is what agents know as facts.
type knowledge struct {
	*storage.Facts
	ledger *storage.Ledger
}

// Learn implements [agent.Facts].
func (k knowledge) Learn(ctx context.Context, d corebot.Delivery, s corebot.Step, facts []corebot.Fact) error {
	return k.ledger.Learn(ctx, d, s, facts)
}

// facts are what turns recall; nil if the settings have none.
func (a *App) facts() agent.Facts {
	if !a.config.Memory.Facts {
		return nil
	}
	return knowledge{storage.NewFacts(a.Store), storage.NewLedger(a.Store)}
}

// agentOptions are the bounds of a turn of an agent.
func (a *App) agentOptions(entry config.AgentEntry, chosen choice, r prometheus.Registerer) agent.Options {
	context, known := contextFor(chosen, chosen.settings)
	a.log.Info().Str("agent", entry.ID).Int("tokens", context).Bool("estimated", !known).Msg("the context of the model")
	c := a.config.Agent
	return agent.Options{
		Untrusted:     a.untrusted(),
		Files:         a.files.placer(a, entry.ID),
		Transcriber:   a.transcriber(),
		Roots:         a.disk.List(),
		MaxIterations: c.MaxToolIterations, MaxTime: c.MaxTime, SessionIdle: c.SessionIdle,
		ContextTokens: context, OutputTokens: chosen.settings.OutputTokens,
		Compaction: agent.Compaction{
			Off: !c.Compaction, Extract: len(chosen.each) == 0, // the offline model cannot summarise
			ReserveTokens: c.CompactionReserve, KeepTokens: c.CompactionKeep, Timeout: c.CompactionTimeout,
		},
		Tokenizer: chosen.tokenizer, Model: entry.Model, Voice: voiceOf(entry), Live: a.Live, Metrics: r,
		Redactor: a.redactor,
		Jobs:     corebot.JobBudget{Tokens: a.config.Jobs.Tokens, Calls: a.config.Jobs.Calls},
	}
}

// voiceOf is how the settings have an agent's models answer.
func voiceOf(entry config.AgentEntry) llm.Voice {
	v := llm.Voice{Think: corebot.Thinking(entry.Think)}
	if warmth, set := entry.Temperature.Value(); set {
		v.Temperature = &warmth
	}
	return v
}

// contextFor is how many tokens the settings give a prompt and its answer; known says that nothing was assumed.
func contextFor(chosen choice, c config.LLM) (tokens int, known bool) {
	if c.ContextTokens > 0 {
		return c.ContextTokens, true
	}
	return contextOf(chosen)
}

// contextOf is how many tokens a prompt and its answer may have together, so that every model in the list takes them.
// The result known says whether the context of each model is known.
func contextOf(chosen choice) (tokens int, known bool) {
	models := []llm.Model{chosen.model}
	if len(chosen.each) > 0 {
		models = nil
	}
	for _, p := range chosen.each {
		models = append(models, p.Models...)
	}
	tokens, known = maxContext, true
	for _, m := range models {
		window, ok := agent.ContextWindow(m.Name())
		tokens, known = min(tokens, cmp.Or(window, unknownContext)), known && ok
	}
	return tokens, known
}
