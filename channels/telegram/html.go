package telegram

import (
	"html"
	"slices"
	"strings"

	"github.com/corebot/corebot/channels/markup"
)

// tag is one element of the platform's HTML.
type tag struct {
	name  string
	attrs string
	part  int // two quotes in a row are two elements
}

// tagsOf are the elements around a span, from the outermost to the innermost. Code has no other look: the platform
// refuses that, and a link in code is a link.
func tagsOf(s markup.Span) (all []tag) {
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
	case s.Style&markup.Code != 0 && s.Link == "":
		return append(all, tag{name: "code"})
	}
	if s.Link != "" {
		all = append(all, tag{name: "a", attrs: ` href="` + html.EscapeString(s.Link) + `"`})
	}
	for _, one := range []struct {
		style markup.Style
		name  string
	}{{markup.Bold, "b"}, {markup.Italic, "i"}, {markup.Struck, "s"}} {
		if s.Style&one.style != 0 {
			all = append(all, tag{name: one.name})
		}
	}
	return all
}

// toHTML writes styled text. An element goes on from one span to the next as long as both have it.
func toHTML(spans []markup.Span) string {
	var b strings.Builder
	var open []tag
	end := func(to int) {
		for _, t := range slices.Backward(open[to:]) {
			b.WriteString("</" + t.name + ">")
		}
		open = open[:to]
	}
	for _, s := range spans {
		tags := tagsOf(s)
		common := 0
		for common < min(len(tags), len(open)) && tags[common] == open[common] {
			common++
		}
		end(common)
		for _, t := range tags[common:] {
			b.WriteString("<" + t.name + t.attrs + ">")
			open = append(open, t)
		}
		b.WriteString(html.EscapeString(s.Text))
	}
	end(0)
	return b.String()
}

// plain is the text without its looks. The addresses of links are shown.
func plain(spans []markup.Span) string {
	var b strings.Builder
	for i, s := range spans {
		b.WriteString(s.Text)
		if s.Link != "" && (i+1 == len(spans) || spans[i+1].Link != s.Link) {
			b.WriteString(" (" + s.Link + ")")
		}
	}
	return b.String()
}
