package llm

import "github.com/corebot/corebot"

// CompleteUsage counts what the provider did not report, and marks the usage as estimated then. a is the answer as
// far as it came, and thought what the model wrote beside it.
func CompleteUsage(u corebot.Usage, t Tokenizer, r Request, a corebot.Answer, thought string) corebot.Usage {
	u.InputTokens, u.OutputTokens = max(0, u.InputTokens), max(0, u.OutputTokens)
	if u.InputTokens == 0 {
		u.InputTokens, u.Estimated = int64(countRequest(t, r)), true
		u.EstimatedTokens += u.InputTokens
	}
	if u.OutputTokens == 0 && (a.Text != "" || len(a.Calls) > 0 || thought != "") {
		u.OutputTokens, u.Estimated = int64(t.Count(a.Text)+countCalls(t, a.Calls)+t.Count(thought)), true
		u.EstimatedTokens += u.OutputTokens
	}
	return u
}

// frameTokens is about what the markup around a message, a call or a tool costs.
const frameTokens = 4

func countRequest(t Tokenizer, r Request) int {
	n := 0
	for _, m := range r.Messages {
		n += frameTokens + t.Count(m.About) + t.Count(m.Text) + countCalls(t, m.Calls)
	}
	for _, tool := range r.Tools {
		n += frameTokens + t.Count(tool.Name) + t.Count(tool.Description) + t.Count(string(tool.Schema))
	}
	return n
}

func countCalls(t Tokenizer, calls []corebot.ToolCall) int {
	n := 0
	for _, c := range calls {
		n += frameTokens + t.Count(c.Tool) + t.Count(string(c.Args))
	}
	return n
}
