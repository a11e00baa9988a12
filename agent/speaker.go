package agent

import (
	"strings"
	"unicode"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/runes"
)

// A message of a person is shown behind a line that says who speaks: the display name, which its bearer chose, and a label, which nobody chose. No name and no
// text can write such a line: it is a data tag, whose begin is replaced wherever else it stands, and a name has no parentheses, in which the label
// stands.

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

// plainName is a display name without what could be taken for anything else: letters, digits, spaces and a few signs of it, on one line.
func plainName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsMark(r), unicode.IsNumber(r), unicode.Is(unicode.So, r), strings.ContainsRune(".,'’-_@+&!#*", r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, redact.Visible(name))
	return strings.TrimSpace(runes.Head(oneLine(name), maxName))
}

// about is what stands before the text of a message: who said it, and what came with it.
func about(p corebot.Principal, name string, with corebot.Metadata) string {
	line := outside.Line("sender", speaker(p, name))
	if with.Empty() {
		return line
	}
	return line + "\n" + outside.Block("metadata of this message", with.String())
}
