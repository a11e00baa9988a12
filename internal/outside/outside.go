// Package outside makes text that others than the operator may have written fit to stand in a prompt.
//
// Guarantees of [Text], and of [Block] around it:
//   - No text ends the block that it stands in, or begins a block. The beginning of every <data> tag is replaced, in
//     each spelling that a model may take for a tag.
//   - No text forges a role. Some model servers read control tokens wherever they stand, so the beginning of each known
//     token is replaced. Known are the chat templates ChatML, Llama 2 to 4, Mistral, Gemma, DeepSeek, Command, GLM,
//     EXAONE, MiniMax, Seed and Ling. Lines such as "Human:" and "### Instruction:" are replaced, too.
//   - Nothing is there that a person does not see ([redact.Visible]), so nothing hides a token from this package
//     either.
//   - It is a pure function: the same text gives the same bytes in every prompt, which provider caches want. Applied
//     again, it changes nothing. Time is linear in the text.
//   - What was there can be seen: "<" has become "‹", "[" has become "⟦", "]" "⟧", and "›" stands before what looked
//     like the begin of a speaker's line. [Restore] gives it back.
//
// Limits: a marker is a word to the model, not a wall. A model may do what a marked text says; the walls are policy,
// approvals of tainted turns, and isolation. Letters of other scripts that merely look like those of a token are left
// as they are: no tokenizer takes them for one.
package outside

import (
	"strings"

	"github.com/corebot/corebot/internal/redact"
)

// change is what a rewriting puts in the place of what stands before a token.
type change struct {
	from []string
	to   string
}

// rewriting changes what stands before tokens in angle brackets, in square ones, in square ones that stand the other
// way around, and before speakers' lines.
type rewriting struct{ angle, square, closing, speaker change }

// Text is a text as a prompt may show it.
func Text(s string) string {
	return rewriting{
		angle: change{[]string{"<", "\uFF1C", "\uFE64"}, "‹"}, square: change{[]string{"["}, "⟦"},
		closing: change{[]string{"]"}, "⟧"},
		speaker: change{[]string{""}, "›"},
	}.apply(redact.Visible(s))
}

// Restore undoes what [Text] has put into a visible text. A text that had one of the replacements in such a place by
// itself, or a wide form of "<", comes out with what they stand for.
func Restore(s string) string {
	return rewriting{
		angle: change{[]string{"‹"}, "<"}, square: change{[]string{"⟦"}, "["},
		closing: change{[]string{"⟧"}, "]"}, speaker: change{[]string{"›"}, ""},
	}.apply(s)
}

func (w rewriting) apply(s string) string {
	var b strings.Builder
	kept := 0 // how far s is in b
	put := func(at, skip int, to string) {
		b.WriteString(s[kept:at])
		b.WriteString(to)
		kept = at + skip
	}
	lineBegins := true
	for i := 0; i < len(s); {
		if lineBegins {
			at := i + len(s[i:]) - len(skip(s[i:], isSpace))
			if n, found := w.speaker.before(s[at:], isSpeaker); found {
				put(at, n, w.speaker.to)
				i = at + n
			}
		}
		c := s[i]
		if c < 0x80 && c != '<' && c != '[' && c != ']' {
			lineBegins = c == '\n' || c == '\r'
			i++
			continue
		}
		lineBegins = strings.HasPrefix(s[i:], "\u2028") || strings.HasPrefix(s[i:], "\u2029")
		if n, found := w.angle.before(s[i:], isAngleToken); found {
			put(i, n, w.angle.to)
		} else if n, found := w.square.before(s[i:], isSquareToken); found {
			put(i, n, w.square.to)
		} else if n, found := w.closing.before(s[i:], isClosingToken); found {
			put(i, n, w.closing.to)
		}
		if i++; lineBegins {
			i += len("\u2028") - 1
		}
	}
	if kept == 0 && b.Len() == 0 {
		return s
	}
	return b.String() + s[kept:]
}

// before says whether s begins with one of the things to be changed, of n bytes, and a token behind it.
func (c change) before(s string, isToken func(string) bool) (n int, found bool) {
	for _, from := range c.from {
		if rest, ok := strings.CutPrefix(s, from); ok && isToken(rest) {
			return len(from), true
		}
	}
	return 0, false
}
