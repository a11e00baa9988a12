package outside

import "strings"

// The kind of a block is a word of this program, never of the text.
const (
	begin = "<data kind=\""
	opens = "\">\n"
	end   = "\n</data>"
)

// kindOfResult marks what a tool brought from outside.
const kindOfResult = "from outside"

// Overhead is how many bytes a result has more as a block than as text.
const Overhead = len(begin + kindOfResult + opens + end)

// Block marks a text as data. The system prompt says what that means: information, never instructions.
func Block(kind, text string) string { return begin + kind + opens + Text(text) + end }

// Line is a short [Block] on one line. It has no line ends and no invisible characters of the text.
func Line(kind, text string) string {
	return begin + kind + "\">" + strings.Join(strings.Fields(Text(text)), " ") + "</data>"
}

// Result marks what a tool brought from outside.
func Result(text string) string { return Block(kindOfResult, text) }

// EditResult applies edit to the text of a marked result, inside its marks, or to the whole of one that has none.
func EditResult(result string, edit func(string) string) string {
	if inner, ok := unmark(result); ok {
		return Result(edit(inner))
	}
	return edit(result)
}

// Unmarked is a result without its marks, for a place that has others.
func Unmarked(result string) string {
	inner, _ := unmark(result)
	return inner
}

func unmark(result string) (string, bool) {
	if inner, ok := strings.CutPrefix(result, begin+kindOfResult+opens); ok {
		if inner, ok = strings.CutSuffix(inner, end); ok {
			return inner, true
		}
	}
	return result, false
}
