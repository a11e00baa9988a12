package console

import (
	"html"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/corebot/corebot/internal/markdown"
)

var parser = sync.OnceValue(markdown.New)

// maxMarkdown is how many bytes of a text are read as Markdown; a longer text is shown as it is written.
const maxMarkdown = 64 << 10

// rendered is the Markdown of an answer as elements. Nothing but htmlWriter makes markup of a text. It knows a fixed
// list of elements and escapes every character of the text, so that HTML in the text is shown and never takes effect.
func rendered(source string) template.HTML {
	w := &htmlWriter{source: []byte(source)}
	if len(source) > maxMarkdown {
		w.open("pre")
		w.escape(source)
		w.close("pre")
	} else {
		w.blocks(parser().Parse(w.source))
	}
	return template.HTML(w.out.String()) //nolint:gosec // see above
}

// htmlWriter walks over a parsed text.
type htmlWriter struct {
	source []byte
	out    strings.Builder
	tight  bool // paragraphs of a list without blank lines have no element
}

func (w *htmlWriter) open(name string)   { w.out.WriteString("<" + name + ">") }
func (w *htmlWriter) close(name string)  { w.out.WriteString("</" + name + ">") }
func (w *htmlWriter) escape(text string) { w.out.WriteString(html.EscapeString(text)) }

func (w *htmlWriter) in(name string, body func()) {
	w.open(name)
	body()
	w.close(name)
}

func (w *htmlWriter) blocks(parent ast.Node) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		w.block(n)
	}
}

// heading is how a heading of an answer stands on the page, whose own headings are above it.
const heading = "h4"

func (w *htmlWriter) block(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		w.in(heading, func() { w.inline(n) })
	case *ast.Blockquote:
		w.in("blockquote", func() { w.loosely(func() { w.blocks(n) }) })
	case *ast.List:
		w.list(n)
	case *ast.CodeBlock:
		w.code(n.Lines())
	case *ast.FencedCodeBlock:
		w.code(n.Lines())
	case *ast.ThematicBreak:
		w.open("hr")
	case *extast.Table:
		w.table(n)
	case *ast.Paragraph:
		if w.tight {
			w.inline(n)
			return
		}
		w.in("p", func() { w.inline(n) })
	default:
		w.inline(n)
	}
}

func (w *htmlWriter) loosely(body func()) {
	outer := w.tight
	w.tight = false
	body()
	w.tight = outer
}

func (w *htmlWriter) list(n *ast.List) {
	outer := w.tight
	w.tight = n.IsTight
	name := "ul"
	if n.IsOrdered() {
		name = "ol"
	}
	w.out.WriteString("<" + name)
	if n.IsOrdered() && n.Start != 1 {
		w.out.WriteString(` start="` + strconv.Itoa(n.Start) + `"`)
	}
	w.out.WriteString(">")
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		w.in("li", func() {
			if box, is := markdown.Box(c); is {
				w.escape(box + " ")
			}
			w.blocks(c)
		})
	}
	w.close(name)
	w.tight = outer
}

func (w *htmlWriter) code(lines *text.Segments) {
	w.out.WriteString(`<pre tabindex="0"><code>`)
	for i := range lines.Len() {
		s := lines.At(i)
		w.escape(strings.Repeat(" ", s.Padding) + string(w.source[s.Start:s.Stop]))
	}
	w.out.WriteString("</code></pre>")
}

func (w *htmlWriter) table(n *extast.Table) {
	w.out.WriteString(`<div class="scroll" tabindex="0" role="region" aria-label="table"><table>`)
	for r := n.FirstChild(); r != nil; r = r.NextSibling() {
		cell := "td"
		if _, head := r.(*extast.TableHeader); head {
			cell = "th"
		}
		w.in("tr", func() {
			for c := r.FirstChild(); c != nil; c = c.NextSibling() {
				w.in(cell, func() { w.inline(c) })
			}
		})
	}
	w.out.WriteString("</table></div>")
}

func (w *htmlWriter) inline(parent ast.Node) {
	for c := parent.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			w.text(c)
		case *ast.CodeSpan:
			w.in("code", func() { w.codeSpan(c) })
		case *ast.Emphasis:
			name := "strong"
			if c.Level == 1 {
				name = "em"
			}
			w.in(name, func() { w.inline(c) })
		case *extast.Strikethrough:
			w.in("del", func() { w.inline(c) })
		case *ast.Link:
			w.link(string(markdown.Unescaped(c.Destination)), func() { w.inline(c) })
		case *ast.Image: // nothing of another machine is loaded: a picture is a link
			w.escape("image: ")
			w.link(string(markdown.Unescaped(c.Destination)), func() { w.inline(c) })
		case *ast.AutoLink:
			w.link(string(c.URL(w.source)), func() { w.escape(string(c.Label(w.source))) })
		default:
			w.inline(c)
		}
	}
}

// text writes a piece of a line, without the backslashes that kept its punctuation from being marks.
func (w *htmlWriter) text(t *ast.Text) {
	s := t.Segment
	from := s.Start
	for i := s.Start; i+1 < s.Stop; i++ {
		if w.source[i] == '\\' && util.IsPunct(w.source[i+1]) {
			w.escape(string(w.source[from:i]))
			from = i + 1
			i++
		}
	}
	w.escape(string(w.source[from:s.Stop]))
	switch {
	case t.HardLineBreak():
		w.open("br")
	case t.SoftLineBreak():
		w.out.WriteString("\n")
	}
}

func (w *htmlWriter) codeSpan(n *ast.CodeSpan) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, is := c.(*ast.Text); is {
			w.escape(strings.ReplaceAll(string(t.Segment.Value(w.source)), "\n", " "))
		}
	}
}

// link writes text that leads to an address of the web. Another address is shown behind its text.
func (w *htmlWriter) link(to string, body func()) {
	u, err := url.Parse(to)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		body()
		if to != "" {
			w.escape(" (" + to + ")")
		}
		return
	}
	w.out.WriteString(`<a rel="noopener noreferrer" target="_blank" href="` + html.EscapeString(u.String()) + `">`)
	body()
	w.close("a")
}
