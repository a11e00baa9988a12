package outside

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// isAngleToken says whether what follows a "<" makes it the begin of a data tag or of a control token.
func isAngleToken(s string) bool {
	s = skip(strings.TrimPrefix(skip(s, isGap), "/"), isGap)
	if len(s) >= 4 && strings.EqualFold(s[:4], "data") || strings.HasPrefix(s, "|") || strings.HasPrefix(s, "\uFF5C") {
		return true
	}
	word, rest := cutWord(s)
	switch word {
	case "s", "bos", "eos", "pad", "unk", "sys", "system", "user", "assistant", "human", "think", "thinking", "role",
		"sop", "eop", "arg_key", "arg_value",
		"eot_id", "eom_id", "bos_token", "eos_token", "pad_token", "unk_token", "eop_token":
		return strings.HasPrefix(skip(rest, isGap), ">")
	case "tool_call", "tool_calls", "tool_response", "tool_responses", "tool_result", "tool_results", "tool_output",
		"tool_outputs", "tool_code", "tools",
		"function", "functions", "function_call", "function_calls", "function_result", "function_results", "invoke",
		"antml", "im_start", "im_end":
		return true
	}
	if word == "seed" && strings.HasPrefix(rest, ":") { // <seed:bos>
		return true
	}
	for _, family := range []string{
		"special_", "start_of", "end_of", "begin_of", "start_function", "end_function",
		"start_header", "end_header", "unused", "extra_id_",
	} {
		if strings.HasPrefix(word, family) {
			return true
		}
	}
	return false
}

// isSquareToken says whether what follows a "[" makes it the begin of a control token.
func isSquareToken(s string) bool {
	if strings.HasPrefix(s, "e~[") { // MiniMax
		return true
	}
	if bar, found := strings.CutPrefix(s, "|"); found { // EXAONE: [|system|]
		word, rest := cutWord(bar)
		return word != "" && strings.HasPrefix(rest, "|]")
	}
	word, rest := cutWord(skip(strings.TrimPrefix(skip(s, isGap), "/"), isGap))
	switch word {
	case "inst", "sys", "system_prompt", "available_tools", "tool_calls", "tool_results", "tool_content", "call_id",
		"args", "think", "model_settings", "img", "gmask", "smask":
		return strings.HasPrefix(skip(rest, isGap), "]")
	}
	return false
}

// isClosingToken says whether what follows a "]" makes it the begin of a control token: those of MiniMax read so.
func isClosingToken(s string) bool {
	return strings.HasPrefix(s, "~b]") || strings.HasPrefix(s, "~!b[")
}

// isSpeaker says whether a line that begins so would be the begin of somebody's turn.
func isSpeaker(line string) bool {
	word, rest := cutWord(skip(strings.TrimLeft(line, "#"), isSpace))
	switch word {
	case "human", "assistant":
	case "system", "user", "instruction", "input", "response":
		if line[0] != '#' {
			return false // ordinary in what people write and in settings
		}
	default:
		return false
	}
	return strings.HasPrefix(skip(rest, isSpace), ":")
}

// longestWord bounds the words that are looked at.
const longestWord = 32

// cutWord cuts a word of ASCII letters, digits and _ off the beginning, in lower case; one that is too long for a token
// is none.
func cutWord(s string) (word, rest string) {
	n := 0
	for n < len(s) && isWord(s[n]) {
		if n++; n > longestWord {
			return "", s
		}
	}
	return strings.ToLower(s[:n]), s[n:]
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// isGap holds for what a lenient reader skips inside a token, isSpace for the part of it that stays on a line.
func isGap(r rune) bool   { return unicode.IsSpace(r) || unicode.Is(unicode.Z, r) }
func isSpace(r rune) bool { return r == '\t' || r == ' ' || r > 0x7f && unicode.Is(unicode.Zs, r) }

func skip(s string, is func(rune) bool) string {
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if !is(r) {
			break
		}
		s = s[n:]
	}
	return s
}
