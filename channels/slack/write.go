package slack

import (
	"strings"

	"github.com/corebot/corebot/channels/markup"
)

// escapes are what Slack reads as its own. Escaped, no word of a model names a person, a group or an address.
var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func escape(text string) string { return escapes.Replace(text) }

// size is the length of a text in a message: with its escapes, and with a mark at each end of a line, as quotes and
// styles have.
func size(text string) int { return len(escape(text)) + 6*strings.Count(text, "\n") }

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

// block is code or a table: the marks stand at its first and its last span.
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

// linked is a link. Only addresses of the web are links, and none has what would end it.
func linked(s markup.Span, label string) string {
	web := strings.HasPrefix(s.Link, "https://") || strings.HasPrefix(s.Link, "http://")
	if !web || strings.ContainsAny(s.Link, "<>| \n") || strings.TrimSpace(label) == "" {
		return styled(s, label) + escape(" ("+s.Link+")")
	}
	label = strings.NewReplacer("|", "¦", "\n", " ").Replace(label)
	return "<" + escape(s.Link) + "|" + label + ">"
}

// styled puts the marks of a style around the words of a text, line by line: white space stays outside.
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

// literal keeps the marks in a text without a style from being marks: a space without width stands behind each that
// could begin a style.
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
