package agent

import (
	"fmt"
	"strings"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/outside"
)

const (
	// messageOverhead is what a message, a call or a tool costs beside its text: role and separators, by the OpenAI cookbook's count, rounded up.
	messageOverhead = 4
	// partTokens is about what a provider counts for an image or a page.
	partTokens = 1_600
	// memoBytes is the shortest text whose count is remembered.
	memoBytes = 64
)

// meter says what messages cost in one turn. It counts each text once: what a turn is shown grows with every call of the model and is otherwise
// the same.
type meter struct {
	tokenizer llm.Tokenizer
	counted   map[string]int
}

func newMeter(t llm.Tokenizer) *meter { return &meter{t, map[string]int{}} }

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

func (m *meter) cost(messages ...llm.Message) int { return sumOf(m.count, messages) }

// costOf is what all of a view costs.
func (m *meter) costOf(v view) int { return sumOfView(m.count, v) }

// fits says whether a view costs no more than a number of tokens. In a short chat that is known without counting: no vocabulary has a token
// of less than a byte.
func (m *meter) fits(v view, tokens int) bool {
	bytes := func(text string) int { return len(text) }
	return sumOfView(bytes, v) <= tokens || m.costOf(v) <= tokens
}

func sumOfView(count func(string) int, v view) int {
	n := sumOf(count, v.head) + sumOf(count, v.present)
	for _, turn := range v.past {
		n += sumOf(count, turn)
	}
	for _, t := range v.tools {
		n += messageOverhead + count(t.Name) + count(t.Description) + count(string(t.Schema))
	}
	return n
}

func sumOf(count func(string) int, messages []llm.Message) int {
	n := 0
	for _, m := range messages {
		n += messageOverhead + count(m.Text) + partTokens*len(m.Parts)
		for _, c := range m.Calls {
			n += messageOverhead + count(c.Tool) + count(string(c.Args))
		}
		if m.Opaque != nil {
			n += count(string(m.Opaque.Data))
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
