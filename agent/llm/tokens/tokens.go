// Package tokens counts tokens as OpenAI's models do, without a network.
//
// For models whose vocabulary it has, the counts are the model's own, with two exceptions. Beyond [MaxExact] bytes of
// one text, and in runs of white space longer than a few lines of indentation, it estimates on the high side. The
// splitting expression takes time that grows with the square of such a run; with the estimate any text costs time
// linear in its length. All other models are estimated.
//
// The first count that needs a vocabulary loads it, and it stays (about 25 ms and 7 MiB of heap for o200k_base, 7 ms
// and 4 MiB for cl100k_base). Making a [Tokenizer] costs nothing.
package tokens

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/corebot/corebot/agent/llm"
)

// MaxExact is how much of one text is counted exactly, in bytes; more is estimated. It takes about 30 ms.
const MaxExact = 256 << 10

// maxSpaces is the longest run of white space that is counted exactly, in bytes.
const maxSpaces = 256

// Tokenizer counts for one model. It is safe for concurrent use.
type Tokenizer struct {
	codec func() *codec.Codec // nil: estimate
}

var _ llm.Tokenizer = (*Tokenizer)(nil)

// New finds the vocabulary of a model by its name; a provider's prefix, as in openai/gpt-4o, and that of a fine-tuned
// model do not matter. A model that it does not know gets an estimate.
func New(model string) *Tokenizer {
	switch vocabularyOf(model) {
	case o200k:
		return &Tokenizer{sync.OnceValue(codec.NewO200kBase)}
	case cl100k:
		return &Tokenizer{sync.OnceValue(codec.NewCl100kBase)}
	}
	return &Tokenizer{}
}

// Exact says whether the vocabulary is the model's own.
func (t *Tokenizer) Exact() bool { return t.codec != nil }

// Count is the number of tokens of text, without any markup of messages around it.
func (t *Tokenizer) Count(text string) int {
	if t.codec == nil {
		return llm.Estimate{}.Count(text)
	}
	if text == "" {
		return 0 // without loading the vocabulary
	}
	exact, rest := text, ""
	if len(text) > MaxExact {
		cut := MaxExact
		for cut > MaxExact-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
			cut--
		}
		exact, rest = text[:cut], text[cut:]
	}
	n := llm.Estimate{}.Count(rest)
	for exact != "" {
		start, end := longSpaces(exact)
		n += t.count(exact[:start]) + llm.Estimate{}.Count(exact[start:end])
		exact = exact[end:]
	}
	return n
}

func (t *Tokenizer) count(text string) int {
	n, err := t.codec().Count(text)
	if err != nil { // the expression has no time limit, the only error that it could have
		return llm.Estimate{}.Count(text)
	}
	return n
}

// longSpaces finds the first run of white space that is longer than maxSpaces; without one it is empty, at the end.
func longSpaces(s string) (start, end int) {
	begin, in := 0, false
	for i, r := range s {
		switch space := unicode.IsSpace(r); {
		case space && !in:
			begin, in = i, true
		case !space && in:
			if i-begin > maxSpaces {
				return begin, i
			}
			in = false
		}
	}
	if in && len(s)-begin > maxSpaces {
		return begin, len(s)
	}
	return len(s), len(s)
}

type vocabulary uint8

const (
	unknown vocabulary = iota
	o200k
	cl100k
)

// vocabularyOf goes by the family, so that a dated or smaller member of it is known as well.
func vocabularyOf(model string) vocabulary {
	name := strings.ToLower(strings.TrimPrefix(model, "openai/"))
	name = strings.TrimPrefix(name, "ft:")
	for _, f := range []struct {
		family string
		vocabulary
	}{
		{"gpt-4o", o200k},
		{"chatgpt-4o", o200k},
		{"gpt-4.1", o200k},
		{"gpt-4.5", o200k},
		{"gpt-5", o200k},
		{"o1", o200k},
		{"o3", o200k},
		{"o4", o200k},
		{"gpt-4", cl100k},
		{"gpt-3.5", cl100k},
		{"gpt-35", cl100k},
	} {
		if rest, ok := strings.CutPrefix(name, f.family); ok && (rest == "" || strings.ContainsAny(rest[:1], "-.:")) {
			return f.vocabulary
		}
	}
	return unknown
}
