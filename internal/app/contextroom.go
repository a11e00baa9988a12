package app

import (
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/config"
)

// ownTools are Corebot's own tools as a model is offered them. Those of shell.exec and of MCP servers are not among
// them.
func ownTools(c config.Config) ([]llm.Tool, error) {
	all, err := (&App{config: c}).builtins(&agentUnit{notes: &notes{}}) // which only describes them: none is called
	offered := make([]llm.Tool, 0, len(all))
	for _, t := range all {
		offered = append(offered, t.Offered())
	}
	return offered, err
}

// checkRoom says what the tools leave of a prompt.
func checkRoom(c config.Config, chosen choice) Finding {
	context, _ := contextFor(chosen, c.LLM)
	offered, err := ownTools(c)
	if err != nil {
		return fail("the tools", err)
	}
	prompt := context - c.LLM.OutputTokens
	whole, brief := agent.ToolTokens(chosen.tokenizer, offered)
	const hint = "set llm.context_tokens to what the model takes, or lower llm.output_tokens"
	switch {
	case !agent.TooManyToolTokens(whole, prompt):
		return ok("Corebot's own tools take %d of the %d tokens of a prompt", whole, prompt)
	case 2*brief <= prompt:
		return warn(hint, "the context is small: a prompt has %d tokens, and the descriptions of Corebot's own tools are shortened from %d to %d", prompt, whole, brief)
	}
	return warn(hint, "the context is too small for the tools: a prompt has %d tokens, and Corebot's own tools take %d of them, shortened", prompt, brief)
}

// WarnOfRoom says in words that the context of the settings is small for the tools; empty if it is not, or if the
// settings leave its size open.
func WarnOfRoom(c config.Config) string {
	if c.LLM.ContextTokens == 0 {
		return ""
	}
	if f := checkRoom(c, choice{tokenizer: llm.Estimate{}}); f.Level != "ok" {
		return "llm.context_tokens: " + f.What
	}
	return ""
}
