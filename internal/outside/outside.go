// Package outside makes text that others than the operator may have written fit to stand in a prompt.
//
// Guarantees of [Text], and of [Block] around it:
//   - No text ends the block that it stands in, or begins one: the begin of every <data> tag, in each spelling that a model may take for it, is
//     replaced.
//   - No text forges a role: so is the begin of each control token of the chat templates that are known here (ChatML, Llama 2 to 4, Mistral,
//     Gemma, DeepSeek, Command, and the lines of "Human:" and "### Instruction:" kind), since some model servers read them wherever they stand.
//   - Nothing is there that a person does not see ([redact.Visible]), so nothing hides a token from this package either.
//   - It is a pure function: the same text gives the same bytes in every prompt, which provider caches want. Applied again, it changes nothing.
//   - What was there can be seen: "<" has become "‹", "[" has become "⟦", and "›" stands before what looked like the begin of a speaker's line.
//     [Restore] gives it back.
//
// Limits: a marker is a word to the model, not a wall. A model may do what a marked text says; the walls are policy, approvals of tainted turns,
// and isolation. Letters of other scripts that merely look like those of a token are left as they are: no tokenizer takes them for one.
package outside

import (
	"regexp"
	"strings"

	"github.com/corebot/corebot/internal/redact"
)

const (
	angle  = "‹" // in the place of <
	square = "⟦" // in the place of [
	quoted = "›" // before a speaker's line
)

// What follows the first character of a token. gap is what a lenient reader skips, space the part of it that stays on a line.
const (
	gap   = `[\s\pZ]*`
	space = `[\t\p{Zs}]*`

	afterAngle = `(` + gap + `/?` + gap + `(?:data|[|\x{FF5C}]|` +
		`(?:s|bos|eos|pad|unk|sys|system|user|assistant|human|think|thinking)` + gap + `>|` +
		`(?:tool_calls?|tool_(?:response|result|output|code)s?|tools|function(?:_calls?|_results?|s)?|invoke|antml|im_start|im_end|unused\d+|extra_id_\d+|` +
		`(?:start|end|begin)_(?:of|function|header)[a-z_]*)\b))`

	afterSquare = `(` + gap + `/?` + gap + `(?:inst|sys|system_prompt|available_tools|tool_calls|tool_results|tool_content|call_id|args|think|model_settings|img)` + gap + `\])`

	speaker = `((?:#+` + space + `(?:human|assistant|system|user|instruction|input|response)|human|assistant)` + space + `:)`
)

var (
	angles   = regexp.MustCompile(`(?i)[<\x{FF1C}\x{FE64}]` + afterAngle)
	squares  = regexp.MustCompile(`(?i)\[` + afterSquare)
	speakers = regexp.MustCompile(`(?i)(^|[\r\n\x{2028}\x{2029}])(` + space + `)` + speaker)

	plainAngles   = regexp.MustCompile(`(?i)` + angle + afterAngle)
	plainSquares  = regexp.MustCompile(`(?i)` + square + afterSquare)
	plainSpeakers = regexp.MustCompile(`(?i)(^|[\r\n\x{2028}\x{2029}])(` + space + `)` + quoted + speaker)
)

// Text is a text as a prompt may show it.
func Text(s string) string {
	s = redact.Visible(s)
	if strings.ContainsAny(s, "<\uFF1C\uFE64") {
		s = angles.ReplaceAllString(s, angle+"$1")
	}
	if strings.Contains(s, "[") {
		s = squares.ReplaceAllString(s, square+"$1")
	}
	if strings.Contains(s, ":") {
		s = speakers.ReplaceAllString(s, "${1}${2}"+quoted+"${3}")
	}
	return s
}

// Restore undoes what [Text] has put into a visible text. A text that had one of the replacements in such a place by itself, or a wide form of "<",
// comes out with what they stand for.
func Restore(s string) string {
	s = plainAngles.ReplaceAllString(s, "<$1")
	s = plainSquares.ReplaceAllString(s, "[$1")
	return plainSpeakers.ReplaceAllString(s, "${1}${2}${3}")
}
