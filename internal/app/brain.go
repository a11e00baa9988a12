package app

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/config"
)

const (
	// unknownContext is what a model that is not known is taken to have, in tokens.
	unknownContext = 32_000
	// maxContext is how much of a model's context is used unless a setting says so: a conversation is paid for anew with each of its messages.
	maxContext = 64_000
)

// agentOptions are the bounds of a turn with the model that was chosen. It logs what the context was taken to be.
func (a *App) agentOptions(chosen choice, r prometheus.Registerer) agent.Options {
	context, known := contextFor(chosen, a.config.LLM)
	a.log.Info().Int("tokens", context).Bool("estimated", !known).Bool("counts_estimated", !chosen.tokenizer.Exact()).Msg("the context of the model")
	c := a.config.Agent
	return agent.Options{
		MaxIterations: c.MaxToolIterations, MaxTime: c.MaxTime, SessionIdle: c.SessionIdle,
		ContextTokens: context, OutputTokens: a.config.LLM.OutputTokens,
		Compaction: agent.Compaction{
			Off: !c.Compaction, Extract: len(chosen.each) == 0, // the offline model cannot summarise
			ReserveTokens: c.CompactionReserve, KeepTokens: c.CompactionKeep, Timeout: c.CompactionTimeout,
		},
		Tokenizer: chosen.tokenizer, Live: a.Live, Metrics: r,
	}
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
