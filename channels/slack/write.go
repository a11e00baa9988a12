package slack

import (
	"strings"

	"github.com/corebot/corebot/channels/markup"
)

// escapes are the characters with which Slack's own marks begin. With them escaped, a model's text cannot mention a
// person or a group, or make a link.
var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func escape(text string) string { return escapes.Replace(text) }

// marksOfLine is an allowance for the marks of a line: a style has one at each end, and a quote one in front.
const marksOfLine = 6

// size estimates the bytes of a text in a message: with its escapes, and with marks for each line.
func size(text string) int { return len(escape(text)) + marksOfLine*strings.Count(text, "\n") }

// write writes styled text as mrkdwn.
func write(spans []markup.Span) string {
	var b strings.Builder
	for i, s := range spans {
		quoted := s.Quote != 0
		begins := i == 0 || spans[i-1].Quote != s.Quote
		if quoted && begins {
			b.WriteString("> ")
		}
		text := escape(s.Text)
		switch {
		case s.Block != 0:
			text = block(spans, i)
		case s.Link != "":
			text = linked(s, text)
		default:
			text = styled(s, text)
		}
		if quoted {
			text = strings.ReplaceAll(text, "\n", "\n> ")
		}
		b.WriteString(text)
	}
	return b.String()
}

// block writes the span i of a code block or a table. The first span of a block begins the block, the last ends it.
func block(spans []markup.Span, i int) string {
	s := spans[i]
	// three of the marks inside would end the block: a space without width keeps them apart
	text := strings.ReplaceAll(escape(s.Text), "```", "`\u200b`\u200b`")
	if i == 0 || spans[i-1].Block != s.Block {
		text = "```\n" + text
	}
	if i+1 == len(spans) || spans[i+1].Block != s.Block {
		text += "\n```"
	}
	return text
}

// linked writes a link if its address is one of the web and has no character that would end the link. Otherwise the
// address stands in parentheses behind the label.
func linked(s markup.Span, label string) string {
	web := strings.HasPrefix(s.Link, "https://") || strings.HasPrefix(s.Link, "http://")
	if !web || strings.ContainsAny(s.Link, "<>| \n") || strings.TrimSpace(label) == "" {
		return styled(s, label) + escape(" ("+s.Link+")")
	}
	label = strings.NewReplacer("|", "¦", "\n", " ").Replace(label)
	return "<" + escape(s.Link) + "|" + label + ">"
}

// styled puts the marks of a style around each line of a text. White space at the ends of a line stays outside of the
// marks, because Slack ignores a mark beside white space.
func styled(s markup.Span, text string) string {
	marks := ""
	if s.Style&markup.Code != 0 {
		marks = "`"
		text = strings.ReplaceAll(text, "`", "'")
	} else {
		for _, one := range []struct {
			style markup.Style
			mark  string
		}{{markup.Bold, "*"}, {markup.Italic, "_"}, {markup.Struck, "~"}} {
			if s.Style&one.style != 0 {
				marks += one.mark
			}
		}
	}
	if marks == "" {
		return literal(text)
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		core := strings.TrimSpace(line)
		if core == "" {
			continue
		}
		begin := strings.Index(line, core)
		lines[i] = line[:begin] + marks + core + reversed(marks) + line[begin+len(core):]
	}
	return strings.Join(lines, "\n")
}

func reversed(marks string) string {
	var b strings.Builder
	for i := len(marks) - 1; i >= 0; i-- {
		b.WriteByte(marks[i])
	}
	return b.String()
}

// literal keeps characters of a plain text, such as *, from beginning a style: it puts a space without width behind
// each of them that could.
func literal(text string) string {
	var b strings.Builder
	for i, r := range text {
		b.WriteRune(r)
		if strings.ContainsRune("*_~`", r) && (i == 0 || strings.ContainsRune(" \n(\"'", rune(text[i-1]))) {
			b.WriteRune('\u200b')
		}
	}
	return b.String()
}
