package agent

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/runes"
)

// A message of a person is shown behind a line that says who speaks: the display name, which its bearer chose, and a
// label, which nobody chose. No name and no text can forge such a line. The line is a data tag, and the beginning of
// such a tag is replaced in all other text. The label stands in parentheses, and a name has none.

// maxName is how many bytes of a sender's name the model is shown.
const maxName = 64

// speaker is the name and the label of a sender, as a model is shown them.
func speaker(p corebot.Principal, name string) string {
	label := p.Label()
	if label == "" {
		label = "unknown sender"
	}
	if name = plainName(name); name == "" {
		return "(" + label + ")"
	}
	return name + " (" + label + ")"
}

// plainName is a display name without what could be taken for anything else: letters, digits, spaces and a few signs of
// it, on one line. Letters and digits in circles, squares and parentheses are letters and digits: "⒜" shows the
// parentheses of a label.
func plainName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsMark(r), unicode.IsNumber(r), unicode.Is(unicode.So, r),
			strings.ContainsRune(".,'’-_@+&!#*", r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, redact.Visible(unframed(runes.Head(name, 4*maxName))))
	return strings.TrimSpace(runes.Head(oneLine(name), maxName))
}

// unframed writes letters and digits without circles, squares and parentheses around them, and other forms of them in
// the usual one.
func unframed(name string) string {
	return norm.NFKC.String(strings.Map(func(r rune) rune {
		switch {
		case 0x1F150 <= r && r <= 0x1F169: // white on black circles and squares, which no normalisation knows
			return 'A' + r - 0x1F150
		case 0x1F170 <= r && r <= 0x1F189:
			return 'A' + r - 0x1F170
		}
		return r
	}, name))
}

// about is what stands before the text of a message: who said it, and what came with it.
func about(p corebot.Principal, name string, with corebot.Metadata) string {
	line := outside.Line("sender", speaker(p, name))
	if with.Empty() {
		return line
	}
	return line + "\n" + outside.Block("metadata of this message", with.String())
}
