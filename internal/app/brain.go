package app

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/storage"
)

const (
	// unknownContext is what a model that is not known is taken to have, in tokens.
	unknownContext = 32_000
	// maxContext is how much of a model's context is used unless a setting says so: a conversation is paid for anew with each of its messages.
	maxContext = 64_000
)

// brain makes what answers for an agent. It logs what the context was taken to be.
func (a *App) brain(u *agentUnit, r prometheus.Registerer) (*agent.Agent, error) {
	return agent.New(agent.Parts{
		Model: a.models.model, Tools: toolbox{u.box, u.servers}, Journal: storage.NewLedger(a.Store), History: storage.NewHistory(a.Store), Notes: u.notes, Roles: storage.NewGrants(a.Store),
	}, a.agentOptions(u.entry, r))
}

// agentOptions are the bounds of a turn of an agent.
func (a *App) agentOptions(entry config.AgentEntry, r prometheus.Registerer) agent.Options {
	chosen := a.models
	context, known := contextFor(chosen, a.config.LLM)
	a.log.Info().Str("agent", entry.ID).Int("tokens", context).Bool("estimated", !known).Bool("counts_estimated", !chosen.tokenizer.Exact()).Msg("the context of the model")
	c := a.config.Agent
	return agent.Options{
		Untrusted:     untrusted(),
		MaxIterations: c.MaxToolIterations, MaxTime: c.MaxTime, SessionIdle: c.SessionIdle,
		ContextTokens: context, OutputTokens: a.config.LLM.OutputTokens,
		Compaction: agent.Compaction{
			Off: !c.Compaction, Extract: len(chosen.each) == 0, // the offline model cannot summarise
			ReserveTokens: c.CompactionReserve, KeepTokens: c.CompactionKeep, Timeout: c.CompactionTimeout,
		},
		Tokenizer: chosen.tokenizer, Model: entry.Model, Voice: voiceOf(entry), Live: a.Live, Metrics: r,
	}
}

// voiceOf is how the settings have an agent's models answer.
func voiceOf(entry config.AgentEntry) llm.Voice {
	v := llm.Voice{Think: llm.Thinking(entry.Think)}
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

// contextOf is how many tokens a prompt and its answer may have together, so that every model that may be asked takes it. known says that all of
// them are.
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
