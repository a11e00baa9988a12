package cli

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/corebot/corebot/channels/cli/markdown"
)

// answers lay out what a model says for one look.
type answers struct{ page *markdown.Renderer }

func newAnswers(noColor bool) answers {
	return answers{markdown.New(markdown.Options{NoColor: noColor})}
}

// render returns the text for the terminal: harmless, without blank lines around it, and less than width columns wide, but for
// lines of code and addresses, which [fold] makes fit the screen. A text that cannot be laid out is shown as it is.
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
