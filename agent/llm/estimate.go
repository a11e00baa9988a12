package llm

import "unicode/utf8"

// Estimate is a [Tokenizer] for every model. It looks at each byte once and allocates nothing.
// For prose, code, JSON, digits and other scripts it counts at least as much as the vocabularies in use, often a third
// more. Only random letters, such as base64, may come out up to a fifth too low.
type Estimate struct{}

// Count estimates the tokens of text.
func (Estimate) Count(text string) int {
	tokens := 0
	for i := 0; i < len(text); {
		if text[i] >= utf8.RuneSelf {
			_, size := utf8.DecodeRuneInString(text[i:])
			tokens += max(1, size-1) // a letter with an accent 1, a Han character 2, an emoji 3, an invalid byte 1
			i += size
			continue
		}
		kind, start := kindOf(text[i]), i
		for i++; i < len(text) && continues(kind, text[i-1], text[i]); i++ {
		}
		tokens += kind.tokens(i-start, start > 0 && alphanumeric(text[start-1]), start == 0)
	}
	return tokens
}

type charKind uint8

const (
	letters charKind = iota
	digits
	spaces
	signs
)

func kindOf(c byte) charKind {
	switch {
	case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
		return letters
	case '0' <= c && c <= '9':
		return digits
	case c == ' ' || '\t' <= c && c <= '\r':
		return spaces
	}
	return signs
}

func alphanumeric(c byte) bool { k := kindOf(c); return k == letters || k == digits }

// continues says whether c belongs to the run that prev ends. Inside a word a capital begins another: names in code and
// base64 take many more tokens than prose.
func continues(kind charKind, prev, c byte) bool {
	if c >= utf8.RuneSelf || kindOf(c) != kind {
		return false
	}
	return kind != letters || prev < 'a' || c >= 'a'
}

// tokens of a run of n bytes. glued says that a letter or digit comes right before it.
func (k charKind) tokens(n int, glued, first bool) int {
	const longestWord = 14 // beyond, it is hardly a word of any language that is written in ASCII
	switch {
	case k == digits:
		return n // some vocabularies have no numbers, only digits
	case k == signs:
		return (n + 1) / 2
	case k == spaces && n == 1 && !first:
		return 0 // part of the token of the word behind it
	case k == letters && n > longestWord:
		return (n + 1) / 2
	case k == letters && glued:
		return n/4 + 1
	}
	return (n + 3) / 4
}
