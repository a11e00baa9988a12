package agent

import (
	"fmt"
	"strings"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/outside"
)

const (
	// messageOverhead is what a message, a call or a tool costs beside its text: role and separators, by the OpenAI
	// cookbook's count, rounded up.
	messageOverhead = 4
	// partTokens is about what a provider counts for an image or a page.
	partTokens = 1_600
	// memoBytes is the shortest text whose count is remembered.
	memoBytes = 64
)

// meter says what messages cost in one turn. It counts each text once: what a turn is shown grows with every call of
// the model and is otherwise the same.
type meter struct {
	tokenizer llm.Tokenizer
	counted   map[string]int
	form      *toolForm // the tools that the turn is offered: they are counted once for many turns
}

func newMeter(t llm.Tokenizer) *meter { return &meter{tokenizer: t, counted: map[string]int{}} }

func (m *meter) count(text string) int {
	if len(text) < memoBytes {
		return m.tokenizer.Count(text)
	}
	n, known := m.counted[text]
	if !known {
		n = m.tokenizer.Count(text)
		m.counted[text] = n
	}
	return n
}

func (m *meter) cost(messages ...llm.Message) int { return m.tokens().sum(messages) }

// costOf is what all of a view costs.
func (m *meter) costOf(v view) int { return m.tokens().sumOf(v) }

// fits says whether a view costs no more than a number of tokens. In a short chat that is known without counting its
// messages: no vocabulary has a token of less than a byte.
func (m *meter) fits(v view, tokens int) bool {
	bound := inBytes
	bound.tools = m.toolTokens
	return bound.sumOf(v) <= tokens || m.costOf(v) <= tokens
}

// measure says how large a text is, in one unit or another; raw is the same for one that is kept as bytes.
type measure struct {
	text  func(string) int
	raw   func([]byte) int
	tools func([]llm.Tool) int
}

var inBytes = measure{text: func(s string) int { return len(s) }, raw: func(b []byte) int { return len(b) }}

func (m *meter) tokens() measure {
	return measure{text: m.count, raw: func(b []byte) int { return m.count(string(b)) }, tools: m.toolTokens}
}

// toolTokens is what tools cost. For those of the turn's form it is known from an earlier turn.
func (m *meter) toolTokens(tools []llm.Tool) int {
	if m.form.has(tools) {
		return m.form.cost(m.tokenizer)
	}
	return countTools(m.tokenizer, tools)
}

func countTools(t llm.Tokenizer, tools []llm.Tool) int {
	n := 0
	for _, tool := range tools {
		n += messageOverhead + t.Count(tool.Name) + t.Count(tool.Description) + t.Count(string(tool.Schema))
	}
	return n
}

func (m measure) sumOf(v view) int {
	n := m.sum(v.head) + m.sum(v.present)
	for _, turn := range v.past {
		n += m.sum(turn)
	}
	return n + m.tools(v.tools)
}

func (m measure) sum(messages []llm.Message) int {
	n := 0
	for _, message := range messages {
		n += messageOverhead + m.text(message.About) + m.text(message.Text) + partTokens*len(message.Parts)
		for _, c := range message.Calls {
			n += messageOverhead + m.text(c.Tool) + m.raw(c.Args)
		}
		if message.Opaque != nil {
			n += m.raw(message.Opaque.Data)
		}
	}
	return n
}

// clip keeps the beginning of a text that costs no more than a number of tokens.
func (m *meter) clip(text string, tokens int) string {
	for limit := len(text); ; limit = limit * 3 / 4 {
		if short := shorten(text, limit); limit == 0 || m.tokenizer.Count(short) <= tokens {
			return short
		}
	}
}

// shorten keeps the first n bytes of a text and says how many it left out. A text that would not become shorter stays.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	note := fmt.Sprintf("… [%d bytes left out]", len(s)-n)
	if len(s) <= n+len(note) {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + note
}

// shortenResult is shorten for the result of a tool: its marks stay.
func shortenResult(s string, n int) string {
	return outside.EditResult(s, func(text string) string { return shorten(text, n) })
}

// ContextWindow is how many tokens a model takes, prompt and answer together, as its maker says. Prefixes do not
// matter: neither a provider's, as in openai/gpt-4o, nor the prefix of a fine-tuned model. ok is false for an unknown
// model.
//
// Models that anybody can serve are not in it: there the server decides, and many serve a small part of what the model
// could take.
func ContextWindow(model string) (tokens int, ok bool) {
	name := strings.ToLower(model)
	name = name[strings.LastIndexByte(name, '/')+1:]
	name = strings.TrimPrefix(name, "ft:")
	longest := -1
	for _, f := range []struct {
		family string
		tokens int
	}{
		{"gpt-3.5", 16_385},
		{"gpt-4", 8_192},
		{"gpt-4-32k", 32_768},
		{"gpt-4-0125", 128_000},
		{"gpt-4-1106", 128_000},
		{"gpt-4-turbo", 128_000},
		{"gpt-4o", 128_000},
		{"chatgpt-4o", 128_000},
		{"gpt-4.1", 1_047_576},
		{"gpt-4.5", 128_000},
		{"gpt-5", 400_000},
		{"gpt-5-chat", 128_000},
		{"o1", 200_000},
		{"o1-mini", 128_000},
		{"o1-preview", 128_000},
		{"o3", 200_000},
		{"o4-mini", 200_000},
		{"claude", 200_000},
		{"claude-2.0", 100_000},
		{"claude-instant", 100_000},
		{"gemini-1.5", 1_048_576},
		{"gemini-2", 1_048_576},
	} {
		rest, of := strings.CutPrefix(name, f.family)
		if of && len(f.family) > longest && (rest == "" || strings.ContainsAny(rest[:1], "-.:")) {
			tokens, ok, longest = f.tokens, true, len(f.family)
		}
	}
	return tokens, ok
}
