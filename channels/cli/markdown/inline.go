package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"

	"github.com/corebot/corebot/internal/markdown"
)

// inline makes running text of what is in a block.
func (p *page) inline(block ast.Node, s style) *flow {
	f := new(flow)
	p.spans(f, block, s)
	return f
}

// spans adds the children of n to f. Line ends are kept: in a chat they are meant.
func (p *page) spans(f *flow, n ast.Node, s style) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			f.add(markdown.Unescaped(c.Value(p.source)), s)
			if c.SoftLineBreak() || c.HardLineBreak() {
				f.addString("\n", s)
			}
		case *ast.CodeSpan:
			p.codeSpan(f, c, s)
		case *ast.Emphasis:
			if c.Level == 1 {
				p.marked(f, c, "*", s|italic)
			} else {
				p.marked(f, c, "**", s|bold)
			}
		case *extast.Strikethrough:
			p.marked(f, c, "~~", s|struck)
		case *ast.Link:
			p.link(f, c, s)
		case *ast.Image:
			p.image(f, c, s)
		case *ast.AutoLink:
			f.add(c.Label(p.source), s|address)
		default:
			p.spans(f, c, s)
		}
	}
}

func (p *page) marked(f *flow, n ast.Node, mark string, s style) {
	mark = p.look.mark(mark)
	f.addString(mark, s)
	p.spans(f, n, s)
	f.addString(mark, s)
}

// codeSpan adds code of a line. In a table the bars of code have a backslash, which is no part of it.
func (p *page) codeSpan(f *flow, n *ast.CodeSpan, s style) {
	s |= code
	mark := p.look.mark("`")
	_, inTable := n.Parent().(*extast.TableCell)
	f.addString(mark, s)
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		t, ok := c.(*ast.Text)
		if !ok {
			continue
		}
		value := bytes.ReplaceAll(t.Value(p.source), []byte{'\n'}, []byte{' '})
		if inTable {
			value = bytes.ReplaceAll(value, []byte(`\|`), []byte{'|'})
		}
		f.add(value, s)
	}
	f.addString(mark, s)
}

// link adds a link's text and, in parentheses, its address, unless they are the same.
func (p *page) link(f *flow, n *ast.Link, s style) {
	to := markdown.Unescaped(n.Destination)
	if only, ok := n.FirstChild().(*ast.Text); ok && n.ChildCount() == 1 &&
		bytes.Equal(markdown.Unescaped(only.Value(p.source)), to) {
		f.add(to, s|address)
		return
	}
	p.spans(f, n, s|bold)
	p.target(f, to, s)
}

func (p *page) image(f *flow, n *ast.Image, s style) {
	f.addString("image", s)
	if n.HasChildren() {
		f.addString(": ", s)
		p.spans(f, n, s|bold)
	}
	p.target(f, markdown.Unescaped(n.Destination), s)
}

func (p *page) target(f *flow, to []byte, s style) {
	if len(to) == 0 {
		return
	}
	f.addString(" (", s)
	f.add(to, s|address)
	f.addString(")", s)
}
