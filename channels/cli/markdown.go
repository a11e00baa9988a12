package cli

import (
	"strings"

	"charm.land/glamour/v2"
	gansi "charm.land/glamour/v2/ansi"
	"github.com/charmbracelet/x/ansi"
)

// Limits of what is laid out as Markdown; a text beyond them is shown as it is. The renderer's time grows steeply with
// nesting (eighty quote marks in a row take seconds), and the chat stands still meanwhile.
const (
	maxMarkdown   = 32 << 10 // bytes
	maxContainers = 8        // marks of quotes and lists that a line begins with
	maxIndent     = 40       // columns before them: list items nest by indentation
)

// In Markdown "<" begins HTML, which the renderer drops, and "&" begins an entity, which can spell a control character (&#27;).
// In a chat both are nearly always meant as written, so they pass the renderer in disguise. Private-use characters of the
// input that equal a disguise come out as "<" and "&", which are harmless by then.
const (
	hiddenLess = "\ue03c"
	hiddenAmp  = "\ue026"
)

// markdown lays answers out for one width.
type markdown struct {
	noColor bool
	width   int
	page    *glamour.TermRenderer // nil until used, and after a resize
}

// render returns the text for the terminal: harmless, at most width columns wide, without blank lines around it.
func (m *markdown) render(text string, width int) string {
	text = drawable(text)
	if out, ok := m.layOut(text, width); ok {
		text = out
	}
	return strings.Trim(wrap(text, width), "\n")
}

func (m *markdown) layOut(text string, width int) (string, bool) {
	if len(text) > maxMarkdown || tooDeep(text) {
		return "", false
	}
	if m.page == nil || m.width != width {
		page, err := glamour.NewTermRenderer(glamour.WithStyles(pageStyle(m.noColor)), glamour.WithWordWrap(max(width-1, 1)),
			glamour.WithChromaFormatter("terminal16"), glamour.WithPreservedNewLines())
		if err != nil {
			return "", false
		}
		m.page, m.width = page, width
	}
	out, err := m.page.Render(strings.NewReplacer("<", hiddenLess, "&", hiddenAmp).Replace(text))
	if err != nil {
		return "", false
	}
	// Links are percent-encoded on their way; the renderer's own escapes are cut down to colors.
	out = strings.NewReplacer(hiddenLess, "<", hiddenAmp, "&", "%EE%80%BC", "<", "%EE%80%A6", "&").Replace(keepStyles(out))
	return trimLines(out), true
}

// tooDeep holds if a line begins with so many marks or blanks that it could be the end of a deep nesting.
func tooDeep(text string) bool {
	for line := range strings.Lines(text) {
		begin := line[:len(line)-len(strings.TrimLeft(line, " >-*+.)0123456789"))]
		marks := strings.Count(begin, ">")
		for _, bullet := range []string{"- ", "* ", "+ ", ". ", ") "} {
			marks += strings.Count(begin, bullet)
		}
		if marks > maxContainers || strings.Count(begin, " ") > maxIndent {
			return true
		}
	}
	return false
}

// wrap breaks lines at width columns, at words where it can. One column is kept free: writing into the last one leaves
// terminals in a state in which clearing the rest of the line eats the character.
func wrap(s string, width int) string {
	return ansi.Wrap(s, max(width-1, 1), "")
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

// keepStyles leaves the color and style sequences (ESC [ numbers m) of s in place, drops whole every other escape
// sequence, and neutralises what is left of controls.
func keepStyles(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	var state byte
	p := ansi.NewParser()
	for len(s) > 0 {
		seq, width, n, next := ansi.DecodeSequence(s, state, p)
		state = next
		switch {
		case width > 0:
			b.WriteString(neutralise(seq))
		case isStyle(seq):
			b.WriteString(seq)
		case !strings.HasPrefix(seq, "\x1b"):
			b.WriteString(neutralise(seq))
		}
		s = s[n:]
	}
	return b.String()
}

func isStyle(seq string) bool {
	body, found := strings.CutPrefix(seq, "\x1b[")
	if !found {
		return false
	}
	body, found = strings.CutSuffix(body, "m")
	return found && strings.Trim(body, "0123456789;:") == ""
}

// pageStyle is the look of an answer. Without color it keeps the marks of Markdown, so that nothing is lost.
func pageStyle(noColor bool) gansi.StyleConfig {
	s := gansi.StyleConfig{
		BlockQuote:            gansi.StyleBlock{Indent: new(uint(1)), IndentToken: new("│ ")},
		List:                  gansi.StyleList{LevelIndent: 2},
		Item:                  gansi.StylePrimitive{BlockPrefix: "• "},
		Enumeration:           gansi.StylePrimitive{BlockPrefix: ". "},
		Task:                  gansi.StyleTask{Ticked: "[x] ", Unticked: "[ ] "},
		HorizontalRule:        gansi.StylePrimitive{Format: "\n────────\n"},
		Heading:               gansi.StyleBlock{StylePrimitive: gansi.StylePrimitive{BlockSuffix: "\n"}},
		CodeBlock:             gansi.StyleCodeBlock{StyleBlock: gansi.StyleBlock{Margin: new(uint(2))}},
		ImageText:             gansi.StylePrimitive{Format: "image: {{.text}} →"},
		DefinitionDescription: gansi.StylePrimitive{BlockPrefix: "\n  "},
	}
	for prefix, h := range map[string]*gansi.StyleBlock{"# ": &s.H1, "## ": &s.H2, "### ": &s.H3, "#### ": &s.H4, "##### ": &s.H5, "###### ": &s.H6} {
		h.Prefix = prefix
	}
	if noColor {
		s.Strong = gansi.StylePrimitive{BlockPrefix: "**", BlockSuffix: "**"}
		s.Emph = gansi.StylePrimitive{BlockPrefix: "*", BlockSuffix: "*"}
		s.Strikethrough = gansi.StylePrimitive{BlockPrefix: "~~", BlockSuffix: "~~"}
		s.Code = gansi.StyleBlock{StylePrimitive: gansi.StylePrimitive{BlockPrefix: "`", BlockSuffix: "`"}}
		return s
	}
	s.Heading.Bold, s.Heading.Color = new(true), new("4")
	s.Strong.Bold = new(true)
	s.Emph.Italic = new(true)
	s.Strikethrough.CrossedOut = new(true)
	s.Link = gansi.StylePrimitive{Underline: new(true), Color: new("4")}
	s.LinkText.Bold = new(true)
	s.Code.Color = new("3")
	s.BlockQuote.Faint = new(true)
	s.CodeBlock.Chroma = codeColors()
	return s
}

// codeColors are close to the plain colors of a terminal, to which the formatter rounds them.
func codeColors() *gansi.Chroma {
	blue, green, yellow, gray := new("#0000ff"), new("#007f00"), new("#7f7fe0"), new("#555555")
	return &gansi.Chroma{
		Comment:       gansi.StylePrimitive{Color: gray},
		Keyword:       gansi.StylePrimitive{Color: blue},
		KeywordType:   gansi.StylePrimitive{Color: blue},
		LiteralString: gansi.StylePrimitive{Color: green},
		LiteralNumber: gansi.StylePrimitive{Color: yellow},
	}
}
