package markdown

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/corebot/corebot/internal/markdown"
)

// minText is how many columns are left for the text of a container: one that would leave fewer is not indented.
const minText = 10

// page is a text in the making.
type page struct {
	look   look
	source []byte
	width  int
	out    []byte

	lead   []byte // what the next line begins with
	indent []byte // what the lines behind it begin with
	taken  int    // the columns of either
	style  style  // of the text around

	gap       bool   // a blank line is due before the next one
	gapIndent []byte // what it begins with
}

// blocks draws the children of a container, with blank lines between them if it is spaced.
func (p *page) blocks(parent ast.Node, spaced bool) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if spaced && n.PreviousSibling() != nil {
			p.blank()
		}
		p.block(n)
	}
}

func (p *page) block(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		p.heading(n)
	case *ast.Blockquote:
		p.quote(n)
	case *ast.List:
		p.list(n)
	case *ast.CodeBlock:
		p.code(n.Lines(), "")
	case *ast.FencedCodeBlock:
		p.code(n.Lines(), strings.ToLower(string(n.Language(p.source))))
	case *ast.ThematicBreak:
		p.line([]byte(strings.Repeat("─", 8)))
	case *extast.Table:
		p.table(n)
	default:
		p.flow(p.inline(n, p.style))
	}
}

func (p *page) heading(n *ast.Heading) {
	s := p.style | bold | heading
	p.nest(label{strings.Repeat("#", n.Level), "", 1, s}, func() { p.flow(p.inline(n, s)) })
}

func (p *page) quote(n *ast.Blockquote) {
	outer := p.style
	p.style |= faint
	p.nest(label{"│", "│", 1, p.style}, func() { p.blocks(n, true) })
	p.style = outer
}

func (p *page) list(n *ast.List) {
	number, digits := n.Start, 0
	if n.IsOrdered() {
		digits = len(strconv.Itoa(n.Start + n.ChildCount() - 1))
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if !n.IsTight && c.PreviousSibling() != nil {
			p.blank()
		}
		mark := "•"
		if n.IsOrdered() {
			mark = fmt.Sprintf("%*d%c", digits, number, n.Marker)
			number++
		}
		if box, is := markdown.Box(c); is {
			mark = box
		}
		p.nest(label{mark, "", 1, p.style}, func() { p.blocks(c, !n.IsTight) })
	}
}

// code draws lines as they are: whoever copies them wants them whole. Code of a known language has colors of its own.
func (p *page) code(lines *text.Segments, name string) {
	paint := func(line []byte) []byte { return p.look.paint(nil, line, p.style|code) }
	if name == "diff" || name == "patch" {
		paint = func(line []byte) []byte { return p.look.paint(nil, line, p.style|code|diffStyle(line)) }
	} else if known := languages()[name]; known != nil {
		paint = (&lexer{language: known, look: p.look, base: p.style | code}).line
	}
	p.nest(label{gap: 2}, func() {
		for i := range lines.Len() {
			s := lines.At(i)
			p.line(paint(bytes.TrimRight(s.Value(p.source), " \n")))
		}
	})
}

// label is what the first line of a container begins with, and what the others do.
type label struct {
	text, below string // characters one column wide; below may be empty: blanks, then
	gap         int    // blanks behind either
	style       style
}

// nest draws what is in a container. Where that is too narrow the label has a line of its own and nothing is indented.
func (p *page) nest(l label, body func()) {
	marks := utf8.RuneCountInString(l.text)
	if p.taken+marks+l.gap+minText > p.width {
		var f flow
		f.addString(strings.TrimSpace(l.text), l.style)
		p.flow(&f)
		body()
		return
	}
	outer := p.indent
	p.lead = pad(p.look.paint(slices.Clip(p.lead), []byte(l.text), l.style), l.gap)
	p.indent = p.look.paint(slices.Clip(p.indent), []byte(l.below), l.style)
	p.indent = pad(p.indent, marks-utf8.RuneCountInString(l.below)+l.gap)
	p.taken += marks + l.gap
	body()
	if !bytes.Equal(p.lead, p.indent) { // nothing came that would have drawn the mark
		p.line(nil)
	}
	p.indent, p.lead = outer, outer
	p.taken -= marks + l.gap
	p.gap = false // due only before something inside
}

// flow draws running text, broken into lines. Without text it draws nothing.
func (p *page) flow(f *flow) {
	if len(f.text) == 0 {
		return
	}
	for _, l := range f.lines(p.width-p.taken, true) {
		p.line(f.paint(nil, p.look, l))
	}
}

// line draws one line, which must be painted.
func (p *page) line(content []byte) {
	if p.gap {
		p.out = append(p.out, trimRight(p.gapIndent)...)
		p.out = append(p.out, '\n')
		p.gap = false
	}
	p.out = append(p.out, p.lead...)
	p.out = append(trimRight(append(p.out, content...)), '\n')
	p.lead = p.indent
}

// blank asks for a blank line before whatever comes next in this container, if anything does.
func (p *page) blank() { p.gap, p.gapIndent = true, p.indent }

// trimRight takes the blanks off the end of a line.
func trimRight(line []byte) []byte { return bytes.TrimRight(line, " ") }
