package markup

import (
	"html"
	"slices"
	"strings"
)

// HTML is the kind of HTML in which a chat network takes styled text: the names of the elements of each look.
type HTML struct {
	Bold, Italic, Struck string
	Break                string // of a line that ends outside of a block of code; empty: a line end
}

// tag is one element.
type tag struct {
	name  string
	attrs string
	part  int // two quotes in a row are two elements
}

// tagsOf are the elements around a span, from the outermost to the innermost. Code has no other look: some platforms
// refuse that, and a link in code is a link.
func (h HTML) tagsOf(s Span) (all []tag) {
	if s.Quote != 0 {
		all = append(all, tag{name: "blockquote", part: s.Quote})
	}
	switch {
	case s.Block != 0:
		all = append(all, tag{name: "pre", part: s.Block})
		if s.Lang != "" {
			all = append(all, tag{name: "code", attrs: ` class="language-` + html.EscapeString(s.Lang) + `"`})
		}
		return all
	case s.Style&Code != 0 && s.Link == "":
		return append(all, tag{name: "code"})
	}
	if s.Link != "" {
		all = append(all, tag{name: "a", attrs: ` href="` + html.EscapeString(s.Link) + `"`})
	}
	for _, one := range []struct {
		style Style
		name  string
	}{{Bold, h.Bold}, {Italic, h.Italic}, {Struck, h.Struck}} {
		if s.Style&one.style != 0 {
			all = append(all, tag{name: one.name})
		}
	}
	return all
}

// Write writes styled text. An element goes on from one span to the next as long as both have it.
func (h HTML) Write(spans []Span) string {
	var b strings.Builder
	var open []tag
	end := func(to int) {
		for _, t := range slices.Backward(open[to:]) {
			b.WriteString("</" + t.name + ">")
		}
		open = open[:to]
	}
	for _, s := range spans {
		tags := h.tagsOf(s)
		common := 0
		for common < min(len(tags), len(open)) && tags[common] == open[common] {
			common++
		}
		end(common)
		for _, t := range tags[common:] {
			b.WriteString("<" + t.name + t.attrs + ">")
			open = append(open, t)
		}
		text := html.EscapeString(s.Text)
		if h.Break != "" && s.Block == 0 {
			text = strings.ReplaceAll(text, "\n", h.Break)
		}
		b.WriteString(text)
	}
	end(0)
	return b.String()
}

// Text is the text without its looks. The addresses of links are shown.
func Text(spans []Span) string {
	var b strings.Builder
	for i, s := range spans {
		b.WriteString(s.Text)
		if s.Link != "" && s.Link != s.Text && (i+1 == len(spans) || spans[i+1].Link != s.Link) {
			b.WriteString(" (" + s.Link + ")")
		}
	}
	return b.String()
}

// Plain says whether the text has no look that HTML would show.
func (h HTML) Plain(spans []Span) bool {
	return !slices.ContainsFunc(spans, func(s Span) bool { return len(h.tagsOf(s)) > 0 })
}
