package discord

import (
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/corebot/corebot/channels/markup"
	"github.com/corebot/corebot/internal/lazy"
)

// units is the length of a text as the platform counts it at most.
func units(s string) (n int) {
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// writer writes styled text in the Markdown of the platform. Each span has its own marks: they never overlap.
type writer struct {
	strings.Builder
	quote  int  // the number of the quote that the line is in
	marked bool // the last thing that was written is a mark
}

// write gives spans as the platform's Markdown. Text that only looks like Markdown is shown as it is.
func write(spans []markup.Span) string {
	var w writer
	for i, s := range spans {
		if s.Quote != 0 && s.Quote != w.quote {
			w.begin()
			w.WriteString("> ")
		}
		w.quote = s.Quote
		if s.Block != 0 {
			first := i == 0 || spans[i-1].Block != s.Block
			last := i+1 == len(spans) || spans[i+1].Block != s.Block
			w.block(s, first, last)
			continue
		}
		w.span(s)
	}
	return w.String()
}

// begin ends a line that has something.
func (w *writer) begin() {
	if text := w.String(); text != "" && !strings.HasSuffix(text, "\n") {
		w.WriteByte('\n')
	}
}

// raw writes text without marks of its own. A line of a quote begins with its mark.
func (w *writer) raw(s string) {
	if w.quote != 0 {
		s = strings.ReplaceAll(s, "\n", "\n> ")
	}
	if s != "" {
		w.WriteString(s)
		w.marked = false
	}
}

// language is what a fence can name.
var language = lazy.Regexp(`^[A-Za-z0-9+#_.-]{1,20}$`)

// block writes lines of code between fences. A fence in the code is broken by a character that has no width.
func (w *writer) block(s markup.Span, first, last bool) {
	if first {
		w.raw("```")
		if language().MatchString(s.Lang) {
			w.raw(s.Lang)
		}
		w.raw("\n")
	}
	w.raw(strings.ReplaceAll(s.Text, "```", "``\u200b`"))
	if last {
		w.raw("\n```")
	}
}

// span writes text of one look, with the white space at its ends outside of the marks: inside they would be no marks.
func (w *writer) span(s markup.Span) {
	text := strings.TrimLeftFunc(s.Text, unicode.IsSpace)
	w.raw(s.Text[:len(s.Text)-len(text)])
	body := strings.TrimRightFunc(text, unicode.IsSpace)
	if body == "" {
		return
	}
	marks, shown := "", ""
	switch {
	case s.Style&markup.Code != 0 && s.Link == "":
		marks, shown = "`", body
		if strings.Contains(body, "`") {
			marks, shown = "``", " "+strings.ReplaceAll(body, "``", "`\u200b`")+" "
		}
	default:
		for _, one := range []struct {
			style markup.Style
			mark  string
		}{{markup.Struck, "~~"}, {markup.Bold, "**"}, {markup.Italic, "*"}} {
			if s.Style&one.style != 0 {
				marks += one.mark
			}
		}
		shown = escape(body, w.atLineStart())
		if s.Link != "" && s.Link != body {
			shown = "[" + shown + "](<" + addresses.Replace(s.Link) + ">)"
		}
	}
	if marks == "" {
		w.raw(shown)
	} else {
		if w.marked { // marks side by side would be read as one
			w.raw("\u200b")
		}
		w.raw(marks + shown + reversed(marks))
		w.marked = true
	}
	w.raw(text[len(body):])
}

func (w *writer) atLineStart() bool {
	text := w.String()
	return text == "" || strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "\n> ")
}

// addresses keeps an address inside its brackets.
var addresses = strings.NewReplacer(">", "%3E", "<", "%3C", " ", "%20", "\n", "%0A", "\\", "%5C")

func reversed(marks string) string {
	switch marks {
	case "~~**":
		return "**~~"
	case "~~*":
		return "*~~"
	case "~~***":
		return "***~~"
	}
	return marks
}

// inAddress is a character in an address. A `<` ends it, and a `>` does not.
const inAddress = `[^\s\v\p{Z}\x{feff}<]`

var (
	// address is what the platform's programs take for an address, with the marks behind it that end a sentence.
	address = lazy.Regexp(`https?://` + inAddress + `+[^\s\v\p{Z}\x{feff}<.,:;"')\]]` + inAddress + `*`)
	// special are characters that can be marks anywhere; the others can only begin a line.
	special = strings.NewReplacer(
		`\`, `\\`, "*", `\*`, "_", `\_`, "~", `\~`, "`", "\\`", "|", `\|`, "[", `\[`, "<", `\<`,
		"://", `:\/\/`, // it begins no address, and the escapes behind it would be one
	)
	lineMark = lazy.Regexp(`(?m)^(\s*)(#{1,3} |>|-# )`)
)

// escape has text shown as it is, but for addresses: the platform shows those as they are by itself. An address ends at
// a `<`, and would take in its escape. So a character that has no width breaks what begins there.
func escape(text string, lineStart bool) string {
	var b strings.Builder
	at := 0
	for _, found := range address().FindAllStringIndex(text, -1) {
		b.WriteString(special.Replace(text[at:found[0]]))
		b.WriteString(text[found[0]:found[1]])
		if at = found[1]; strings.HasPrefix(text[at:], "<") {
			b.WriteString("<\u200b")
			at++
		}
	}
	b.WriteString(special.Replace(text[at:]))
	if lineStart {
		return lineMark().ReplaceAllString(b.String(), `$1\$2`)
	}
	first, rest, more := strings.Cut(b.String(), "\n")
	if !more {
		return first
	}
	return first + "\n" + lineMark().ReplaceAllString(rest, `$1\$2`)
}
