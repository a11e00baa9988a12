package offline

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/sorted"
)

// passage is one line of the context and where it comes from.
type passage struct {
	text   string
	source string
	words  map[string]bool
}

const (
	maxQuotes       = 3
	maxQuoteRunes   = 300
	maxPassages     = 5000 // the newest messages come first, so what is beyond is the oldest
	maxKeyText      = 1000 // bytes of a line or question that are looked at; keeps a search linear
	offlineMarker   = "(offline model)"
	fromData        = "what is noted about this chat"
	earlierByUser   = "said earlier in this chat"
	earlierByAgent  = "answered earlier in this chat"
	fromEarlierTool = "an earlier tool result"
)

// passagesOf takes the context apart: system sections first, then the chat from its newest message back. A line under a
// heading has that heading as its source. The model's own quotes are left out, or it would come to quote itself.
func passagesOf(given []llm.Message) []passage {
	var all []passage
	for _, m := range given {
		if m.Role == llm.System {
			all = appendLines(all, withoutFirstConversation(m.Text), "system prompt")
		}
	}
	for _, m := range slices.Backward(given) {
		switch {
		case m.Role == llm.User && strings.HasPrefix(m.Text, "<data"):
			all = appendLines(all, m.Text, fromData)
		case m.Role == llm.User:
			all = appendLines(all, m.Text, earlierByUser)
		case m.Role == llm.Assistant && !strings.Contains(m.Text, offlineMarker) &&
			!strings.Contains(m.Text, introduction):
			all = appendLines(all, m.Text, earlierByAgent)
		case m.Role == llm.ToolRole:
			all = appendLines(all, m.Text, fromEarlierTool)
		}
	}
	return all
}

// withoutFirstConversation leaves out the instructions for the first conversation. This model can follow none of them,
// and a
// quotation of them would answer no question. They wait for a model that can.
func withoutFirstConversation(system string) string {
	before, _, _ := strings.Cut("\n"+system, "\n# "+llm.FirstConversation+"\n")
	return before
}

func appendLines(all []passage, text, origin string) []passage {
	source := origin
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			source = origin + ", section " + strings.TrimSpace(heading)
			continue
		}
		line = strings.TrimSpace(strings.TrimLeft(line, "-*> "))
		if line == "" || strings.HasPrefix(line, "<data") || line == "</data>" || strings.HasPrefix(line, "/tool") ||
			len(all) == maxPassages {
			continue
		}
		p := passage{text: shorten(line), source: source, words: make(map[string]bool)}
		for _, w := range keywords(line + " " + strings.TrimPrefix(source, origin)) {
			p.words[w] = true
		}
		all = append(all, p)
	}
	return all
}

// search returns the passages that share most keywords with the question, rare ones counting more. Those that share
// much less than the best are noise.
func search(question string, passages []passage) []passage {
	asked := keywords(question)
	weight := make(map[string]float64)
	for _, w := range asked {
		n := 0
		for _, p := range passages {
			if p.words[w] {
				n++
			}
		}
		weight[w] = math.Log1p(float64(len(passages)) / float64(n+1))
	}
	type hit struct {
		passage
		score float64
	}
	var hits []hit
	for _, p := range passages {
		h := hit{passage: p}
		for _, w := range asked {
			if p.words[w] {
				h.score += weight[w]
			}
		}
		if h.score > 0 {
			hits = append(hits, h)
		}
	}
	sorted.By(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	var best []passage
	for _, h := range hits {
		repeated := slices.ContainsFunc(best, func(p passage) bool { return p.text == h.text })
		if len(best) < maxQuotes && h.score >= hits[0].score/2 && !repeated {
			best = append(best, h.passage)
		}
	}
	return best
}

func wordsOf(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) &&
			!unicode.IsDigit(r)
	})
}

// keywords are the distinct words that say what a text is about, without the plural's s; of a long text those at its
// beginning.
func keywords(s string) []string {
	var keys []string
	for _, w := range wordsOf(s[:min(len(s), maxKeyText)]) {
		if functionWord(w) {
			continue
		}
		if len(w) > 3 && !strings.HasSuffix(w, "ss") {
			w = strings.TrimSuffix(w, "s")
		}
		if !slices.Contains(keys, w) {
			keys = append(keys, w)
		}
	}
	return keys
}

func functionWord(w string) bool {
	switch w {
	case "a", "an", "the", "and", "or", "but", "if", "of", "in", "on", "at", "to", "for", "from", "by", "with", "about",
		"as",
		"is", "are", "was", "were", "be", "been", "am", "do", "does", "did", "has", "have", "had", "can", "could",
		"will", "would", "should",
		"i", "me", "my", "you", "your", "he", "she", "it", "its", "we", "our", "they", "their", "this", "that", "these",
		"those",
		"what", "who", "whom", "which", "when", "where", "why", "how", "s", "t", "m", "re", "please", "tell", "know",
		"there", "not", "no":
		return true
	}
	return false
}

func shorten(s string) string {
	if r := []rune(s); len(r) > maxQuoteRunes {
		return string(r[:maxQuoteRunes]) + "…"
	}
	return s
}
