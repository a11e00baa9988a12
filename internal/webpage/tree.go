package webpage

import (
	"context"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	maxNodes   = 40_000
	maxText    = 1 << 20 // bytes
	maxDepth   = 96      // elements inside one another; those that are deeper lose their tags
	maxNesting = 12      // of lists and quotations among them
	maxCells   = 100     // of one row of a table: all rows are written as long as the longest
	maxValue   = 2 << 10 // bytes of an attribute
	checkEvery = 512     // tokens between two looks at the context
)

// builder makes a tree of the tokens of a page.
//
// It does not use html.Parse, for two reasons. Nothing can stop html.Parse. And its rules for formatting elements that
// are left open make a tree of gigabytes from a page of some megabytes. The builder's rules are simpler: each token
// costs no more than the depth, and the tree is never larger than the limits.
type builder struct {
	document, head, body *html.Node
	title                strings.Builder
	base                 *url.URL

	open    []frame
	beyond  map[string]int // start tags that were too deep, by name, until their ends
	nesting int            // of the open elements
	nodes   int
	text    int
	full    bool // no more is taken in
	cut     bool // something was left out
}

// frame is an open element. Its node is nil where nothing of it is kept.
type frame struct {
	name  string
	node  *html.Node
	cells int // that began in it
}

func newBuilder(address *url.URL) *builder {
	b := &builder{
		document: &html.Node{Type: html.DocumentNode}, head: element("head"), body: element("body"), base: address,
		beyond: map[string]int{},
	}
	root := element("html")
	b.document.AppendChild(root)
	root.AppendChild(b.head)
	root.AppendChild(b.body)
	return b
}

func element(name string) *html.Node {
	return &html.Node{Type: html.ElementNode, Data: name, DataAtom: atom.Lookup([]byte(name))}
}

// parse reads a whole page, or as much of it as the limits let through. The error is the cause of ctx.
func (b *builder) parse(ctx context.Context, text string) error {
	z := html.NewTokenizer(strings.NewReader(text))
	for n := 0; !b.full; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch z.Next() {
		case html.ErrorToken: // the end: a string cannot be read badly
			b.finish()
			return nil
		case html.TextToken:
			b.addText(string(z.Text()))
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			b.start(string(name), attributes(z, more))
		case html.EndTagToken:
			name, _ := z.TagName()
			b.end(string(name))
		}
	}
	b.finish()
	return nil
}

// finish gives the document its title, where readers look for one.
func (b *builder) finish() {
	if b.title.Len() > 0 {
		t := element("title")
		t.AppendChild(&html.Node{Type: html.TextNode, Data: b.title.String()})
		b.head.AppendChild(t)
	}
}

func (b *builder) addText(s string) {
	if n := len(b.open); n > 0 && b.open[n-1].name == "title" {
		if b.title.Len() < maxValue {
			b.title.WriteString(s[:min(len(s), maxValue)])
		}
		return
	}
	to := b.parent()
	if to == nil || s == "" {
		return
	}
	if b.text+len(s) > maxText {
		s, b.full, b.cut = strings.ToValidUTF8(s[:maxText-b.text], ""), true, true
	}
	b.text += len(s)
	b.add(to, &html.Node{Type: html.TextNode, Data: s})
}

// parent is what the next node belongs to; nil if it is not kept.
func (b *builder) parent() *html.Node {
	if n := len(b.open); n > 0 {
		return b.open[n-1].node
	}
	return b.body
}

func (b *builder) add(to, n *html.Node) {
	if b.nodes++; b.nodes > maxNodes {
		b.full, b.cut = true, true
		return
	}
	to.AppendChild(n)
}

func (b *builder) start(name string, attrs []html.Attribute) {
	switch name {
	case "html", "head", "body", "":
		return
	case "base":
		b.rebase(attrs)
		return
	}
	b.endImplied(name)
	if void[name] {
		b.addVoid(name, attrs)
		return
	}
	if n := len(b.open); isCell(name) && n > 0 && b.open[n-1].name != "tr" {
		b.start("tr", nil) // a table without rows would be dropped with all that is in it
	}
	if len(b.open) >= maxDepth || nesting[name] && b.nesting >= maxNesting || isCell(name) && b.fullRow() {
		b.beyond[name]++
		return
	}
	f := frame{name: name}
	if to := b.parent(); to != nil && name != "title" && !dropped[name] && !hidden(attrs) {
		f.node = element(name)
		f.node.Attr = b.keep(attrs)
		b.add(to, f.node)
	}
	b.open = append(b.open, f)
	if nesting[name] {
		b.nesting++
	}
}

func (b *builder) addVoid(name string, attrs []html.Attribute) {
	n := element(name)
	switch to := b.parent(); {
	case name == "meta":
		n.Attr = b.keep(attrs)
		b.add(b.head, n)
	case to != nil && !dropped[name] && !hidden(attrs):
		n.Attr = b.keep(attrs)
		b.add(to, n)
	}
}

// endImplied ends what an element ends by beginning.
func (b *builder) endImplied(name string) {
	if rule, has := impliedEnds[name]; has {
		for i := len(b.open) - 1; i >= 0 && !rule.within[b.open[i].name]; i-- {
			if rule.ends[b.open[i].name] {
				b.truncate(i)
			}
		}
	}
	if blocks[name] {
		b.endNearest("p", func(open string) bool { return scopes[open] })
	}
	if name == "a" {
		b.endNearest("a", func(open string) bool { return !inline[open] })
	}
}

func (b *builder) end(name string) {
	if b.beyond[name] > 0 {
		b.beyond[name]--
		return
	}
	switch {
	case inline[name]: // one that was left open inside a block does not end that block
		b.endNearest(name, func(open string) bool { return !inline[open] })
	case name == "table":
		b.endNearest(name, func(string) bool { return false })
	case scopes[name], name == "tr", impliedEnds[name].ends != nil && name[0] == 't':
		b.endNearest(name, func(open string) bool { return open == "table" })
	default:
		b.endNearest(name, func(open string) bool { return scopes[open] })
	}
}

// endNearest ends the innermost open element of that name, and what is in it, unless the search meets a stop before.
func (b *builder) endNearest(name string, stop func(open string) bool) {
	for i := len(b.open) - 1; i >= 0; i-- {
		if b.open[i].name == name {
			b.truncate(i)
			return
		}
		if stop(b.open[i].name) {
			return
		}
	}
}

func isCell(name string) bool { return name == "td" || name == "th" }

// fullRow counts one more cell of the row that is being filled, and says whether there is no room for it.
func (b *builder) fullRow() bool {
	if n := len(b.open); n > 0 {
		b.open[n-1].cells++
		if b.open[n-1].cells > maxCells {
			b.cut = true
			return true
		}
	}
	return false
}

// truncate ends the open elements from i on.
func (b *builder) truncate(i int) {
	for _, f := range b.open[i:] {
		if nesting[f.name] {
			b.nesting--
		}
	}
	b.open = b.open[:i]
}

// rebase takes the page's word for what its relative links are relative to.
func (b *builder) rebase(attrs []html.Attribute) {
	for _, a := range attrs {
		if a.Key != "href" {
			continue
		}
		if u, err := b.base.Parse(a.Val); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			b.base = u
		}
	}
}
