package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/corebot/corebot/channels/cli/markdown"
)

// answers lay out what a model says for one look.
type answers struct{ page *markdown.Renderer }

func newAnswers(noColor bool) answers {
	return answers{markdown.New(markdown.Options{NoColor: noColor})}
}

// render returns the text for the terminal: harmless, without blank lines around it, and less than width columns wide.
// Only lines of code and addresses can be wider; [fold] makes them fit the screen. A text that cannot be laid out is
// shown as it is.
func (a answers) render(text string, width int) string {
	text = drawable(text)
	if out, ok := a.page.Render(text, width-1); ok {
		return strings.Trim(out, "\n")
	}
	return strings.Trim(wrap(text, width), "\n")
}

// wrap breaks lines at width columns, at words where it can. One column is kept free: writing into the last one leaves
// terminals in a state in which clearing the rest of the line eats the character.
func wrap(s string, width int) string {
	return ansi.Wrap(s, max(width-1, 1), "")
}

// styles draw the chat. They use the sixteen colors that a terminal's own theme defines, and no background. So Corebot
// need not ask the terminal anything, and every theme stays readable.
type styles struct {
	plain    lipgloss.Style
	question lipgloss.Style // what the user said, and the prompt
	dim      lipgloss.Style // what Corebot itself says
	good     lipgloss.Style
	bad      lipgloss.Style
}

func newStyles(noColor bool) styles {
	plain := lipgloss.NewStyle()
	if noColor {
		return styles{plain, plain, plain, plain, plain}
	}
	return styles{
		plain:    plain,
		question: plain.Bold(true).Foreground(lipgloss.Cyan),
		dim:      plain.Faint(true),
		good:     plain.Foreground(lipgloss.Green),
		bad:      plain.Foreground(lipgloss.Red),
	}
}

// tabWidth is what a tab is drawn as where columns are counted.
const tabWidth = 4

// neutralise makes text from elsewhere safe to write to a terminal. Control characters, and with them every escape
// sequence, become visible pictures (ESC is ␛). Characters that reorder text are dropped. Bytes that are not UTF-8
// become U+FFFD. Line ends of all kinds become \n, since a bare \r would let a line overwrite itself. Tabs stay.
//
// Its result contains no control character but \n and \t, and neutralising it again changes nothing.
func neutralise(s string) string {
	if isHarmless(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == '\r':
			if !strings.HasPrefix(s[i:], "\n") {
				b.WriteByte('\n')
			}
		case r == '\u2028' || r == '\u2029': // line and paragraph separators
			b.WriteByte('\n')
		case r < ' ':
			b.WriteRune('\u2400' + r)
		case r == 0x7f:
			b.WriteRune('\u2421')
		case unicode.IsControl(r): // C1: a terminal may take U+009B for the start of an escape
			b.WriteRune(utf8.RuneError)
		case reorders(r):
		default:
			b.WriteRune(r) // RuneError for each byte that is not UTF-8
		}
	}
	return b.String()
}

func isHarmless(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' || r == '\u2028' || r == '\u2029' || reorders(r)
	})
}

// reorders holds for the bidirectional embeddings, overrides and isolates, which can make a line read as another one.
// The plain direction marks, that right-to-left text needs, are not among them.
func reorders(r rune) bool {
	return '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069'
}

// drawable is neutralise for where columns are counted: tabs become spaces.
func drawable(s string) string {
	return strings.ReplaceAll(neutralise(s), "\t", strings.Repeat(" ", tabWidth))
}

// oneLine is text from elsewhere as a single line of at most width columns.
func oneLine(s string, width int) string {
	const enough = 8 // bytes a column may take, so that a huge text is not walked for one line of it
	if most := max(width, 1) * enough; len(s) > most {
		s = s[:most]
	}
	return ansi.Truncate(strings.Join(strings.Fields(neutralise(s)), " "), max(width, 1), "…")
}
