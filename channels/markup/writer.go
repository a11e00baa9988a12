package markup

import (
	"bytes"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/corebot/corebot/internal/markdown"
	"github.com/corebot/corebot/internal/runes"
)

// writer walks over a parsed text and makes spans of it.
type writer struct {
	source []byte
	spans  []placed

	now    Span // the looks of what is written now
	parts  int  // quotes and blocks that there are
	indent string
	at     int    // the place behind what was written last
	due    string // what has to stand before the next text: line ends, indentation and a mark
}

// blocks writes the children of a container, with blank lines between them if it is spaced.
func (w *writer) blocks(parent ast.Node, spaced bool) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if n.PreviousSibling() != nil {
			w.apart(spaced)
		}
		w.block(n)
	}
}

// apart begins another line, or leaves one blank.
func (w *writer) apart(spaced bool) {
	ends := "\n"
	if spaced {
		ends = "\n\n"
	}
	w.due = ends + w.indent
}

func (w *writer) block(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		w.with(Bold, func() { w.inline(n) })
	case *ast.Blockquote:
		w.own(&w.now.Quote, func() { w.blocks(n, true) })
	case *ast.List:
		w.list(n)
	case *ast.CodeBlock:
		w.code(n.Lines(), "")
	case *ast.FencedCodeBlock:
		w.code(n.Lines(), string(n.Language(w.source)))
	case *ast.ThematicBreak:
		w.mark("———")
	case *extast.Table:
		w.table(n)
	default:
		w.inline(n)
	}
}

// with writes something with one more style.
func (w *writer) with(s Style, body func()) {
	outer := w.now.Style
	w.now.Style |= s
	body()
	w.now.Style = outer
}

// own writes a quote or a block, which has a number of its own. The line ends before it stand outside. A quote in a
// quote is one with it: platforms show no depth.
func (w *writer) own(number *int, body func()) {
	if *number != 0 {
		body()
		return
	}
	if strings.TrimSpace(w.due) != "" { // the mark of an item: a block begins below it
		w.due += "\n"
	}
	w.mark("")
	w.parts++
	*number = w.parts
	body()
	*number = 0
}

// list writes the items, each behind its mark, as deep as the list is nested.
func (w *writer) list(n *ast.List) {
	outer, number := w.indent, n.Start
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if c.PreviousSibling() != nil {
			w.apart(!n.IsTight)
		}
		mark := "• "
		if n.IsOrdered() {
			mark = strconv.Itoa(number) + string(n.Marker) + " "
			number++
		}
		if box, is := markdown.Box(c); is {
			mark = box + " "
		}
		w.due += mark
		w.indent = outer + "  "
		if n.IsOrdered() {
			w.indent += " "
		}
		w.blocks(c, !n.IsTight)
		w.indent = outer
		if !c.HasChildren() {
			w.mark("")
		}
	}
}

// code writes lines as they are.
func (w *writer) code(lines *text.Segments, lang string) {
	w.own(&w.now.Block, func() {
		w.now.Lang = lang
		for i := range lines.Len() {
			s := lines.At(i)
			if i == lines.Len()-1 {
				s = s.TrimRightSpace(w.source)
			}
			if s.Padding > 0 {
				w.made(strings.Repeat(" ", s.Padding), s.Start)
			}
			w.exact(s.Start, s.Stop)
		}
		w.now.Lang = ""
	})
}

// inline writes what is in a block of text.
func (w *writer) inline(parent ast.Node) {
	for c := parent.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			w.text(c)
		case *ast.CodeSpan:
			w.with(Code, func() { w.codeSpan(c) })
		case *ast.Emphasis:
			style := Bold
			if c.Level == 1 {
				style = Italic
			}
			w.with(style, func() { w.inline(c) })
		case *extast.Strikethrough:
			w.with(Struck, func() { w.inline(c) })
		case *ast.Link:
			w.leading(markdown.Unescaped(c.Destination), c.HasChildren(), func() { w.inline(c) })
		case *ast.Image:
			w.mark("image: ")
			w.leading(markdown.Unescaped(c.Destination), c.HasChildren(), func() { w.inline(c) })
		case *ast.AutoLink:
			label := c.Label(w.source)
			if at := bytes.Index(w.source[w.at:], label); at >= 0 {
				w.exact(w.at+at, w.at+at+len(label))
			}
		default:
			w.inline(c)
		}
	}
}

// text writes a piece of a line, without the backslashes that kept its punctuation from being marks.
func (w *writer) text(t *ast.Text) {
	s := t.Segment
	from := s.Start
	for i := s.Start; i+1 < s.Stop; i++ {
		if w.source[i] == '\\' && util.IsPunct(w.source[i+1]) {
			w.exact(from, i)
			from = i + 1
			i++
		}
	}
	w.exact(from, s.Stop)
	if t.SoftLineBreak() || t.HardLineBreak() {
		w.due = "\n" + w.indent
	}
}

// codeSpan writes code of a line. In a table the bars of code have a backslash, which is no part of it.
func (w *writer) codeSpan(n *ast.CodeSpan) {
	_, inTable := n.Parent().(*extast.TableCell)
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		t, is := c.(*ast.Text)
		if !is {
			continue
		}
		s := t.Segment
		from := s.Start
		for i := s.Start; i < s.Stop; i++ {
			switch {
			case w.source[i] == '\n':
				w.exact(from, i)
				w.made(" ", i)
				from = i + 1
			case inTable && w.source[i] == '\\' && i+1 < s.Stop && w.source[i+1] == '|':
				w.exact(from, i)
				from = i + 1
			}
		}
		w.exact(from, s.Stop)
	}
}

// leading writes text that leads to an address. An address that no platform follows, such as a path, is shown.
func (w *writer) leading(to []byte, named bool, body func()) {
	u, err := url.Parse(string(to))
	follows := err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
	switch {
	case !named:
		w.address(to)
	case !follows:
		body()
		if len(to) > 0 {
			w.mark(" (")
			w.address(to)
			w.mark(")")
		}
	default:
		outer := w.now.Link
		w.now.Link = string(to)
		body()
		w.now.Link = outer
	}
}

// maxAddress bounds an address that is shown where the source has it not, in bytes.
const maxAddress = 200

// address shows where a link leads to. The definition of a link stands elsewhere.
func (w *writer) address(to []byte) {
	at := bytes.Index(w.source[w.at:], to)
	if line := bytes.IndexByte(w.source[w.at:], '\n'); at < 0 || line >= 0 && at > line {
		w.mark(runes.Head(string(to), maxAddress))
		return
	}
	w.exact(w.at+at, w.at+at+len(to))
}

// mark writes text that the source does not have, before the next that it has.
func (w *writer) mark(s string) {
	if due := w.due; due != "" {
		w.due = ""
		w.spans = append(w.spans, placed{Span: Span{Text: due, Quote: w.now.Quote}, at: w.at})
	}
	if s != "" {
		w.add(s, false)
	}
}

// made writes text that stands for a place of the source.
func (w *writer) made(s string, at int) {
	w.at = max(w.at, at)
	w.mark("")
	w.add(s, false)
}

// exact writes text of the source.
func (w *writer) exact(from, to int) {
	if from >= to {
		return
	}
	w.at = max(w.at, from)
	w.mark("")
	w.add(string(w.source[from:to]), w.at == from)
	w.at = max(w.at, to)
}

func (w *writer) add(s string, exact bool) {
	p := placed{Span: w.now, at: w.at, exact: exact}
	p.Text = s
	w.spans = append(w.spans, p)
}

// maxColumns is the width of a table that a phone still shows in columns.
const maxColumns = 44

// table writes a narrow table in columns, and any other row by row.
func (w *writer) table(n *extast.Table) {
	rows, places := w.rows(n)
	widths := make([]int, len(n.Alignments))
	total := 0
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, width := range widths {
		total += width + len(" | ")
	}
	if total > maxColumns {
		w.records(n)
		return
	}
	w.own(&w.now.Block, func() {
		for i, row := range rows {
			line := w.row(row, widths, n.Alignments)
			if i == 0 {
				line += "\n" + w.rule(widths)
			} else {
				line = "\n" + line
			}
			w.made(line, places[i])
		}
	})
}

// rows are the texts of the cells, and where each row begins. A row without text is left out.
func (w *writer) rows(n *extast.Table) (rows [][]string, places []int) {
	for r := n.FirstChild(); r != nil; r = r.NextSibling() {
		var row []string
		at := -1
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			if at < 0 && c.Lines().Len() > 0 {
				at = c.Lines().At(0).Start
			}
			row = append(row, w.flat(c))
		}
		if at >= 0 {
			rows, places = append(rows, row), append(places, at)
		}
	}
	return rows, places
}

// flat is the text of a cell, without its looks.
func (w *writer) flat(cell ast.Node) string {
	inner := writer{source: w.source}
	if cell.Lines().Len() > 0 {
		inner.at = cell.Lines().At(0).Start
	}
	inner.inline(cell)
	return flat(inner.spans)
}

func flat(spans []placed) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.Text)
	}
	return b.String()
}

func (w *writer) row(row []string, widths []int, alignments []extast.Alignment) string {
	var b strings.Builder
	for i, width := range widths {
		cell := ""
		if i < len(row) {
			cell = row[i]
		}
		if i > 0 {
			b.WriteString(" | ")
		}
		if alignments[i] == extast.AlignRight {
			fmt.Fprintf(&b, "%*s", width, cell)
		} else {
			fmt.Fprintf(&b, "%-*s", width, cell)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

func (w *writer) rule(widths []int) string {
	var dashes []string
	for _, width := range widths {
		dashes = append(dashes, strings.Repeat("-", width))
	}
	return strings.Join(dashes, "-+-")
}

// maxHeading bounds the heading that is shown again before each cell of its column, in characters.
const maxHeading = 30

// records writes a table row by row, each cell behind its heading.
func (w *writer) records(n *extast.Table) {
	for r := n.FirstChild(); r != nil; r = r.NextSibling() {
		wrote, heading := false, n.FirstChild().FirstChild()
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			if c.Lines().Len() > 0 {
				if wrote {
					w.apart(false)
				}
				w.cell(c, heading)
				wrote = true
			}
			if heading != nil {
				heading = heading.NextSibling()
			}
		}
		if wrote && r.NextSibling() != nil {
			w.apart(true)
		}
	}
}

// cell writes a cell behind its heading.
func (w *writer) cell(c, heading ast.Node) {
	w.at = max(w.at, c.Lines().At(0).Start)
	if heading != nil && heading != c {
		short := []rune(w.flat(heading))
		if short = short[:min(len(short), maxHeading)]; len(short) > 0 {
			w.with(Bold, func() { w.mark(string(short) + ": ") })
		}
	}
	w.inline(c)
}
