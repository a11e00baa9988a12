package webpage

import (
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

const maxAttributes = 32 // of an element; those that follow are not looked at

// attributes of the tag that z stands at, the first of each name.
func attributes(z *html.Tokenizer, more bool) []html.Attribute {
	var out []html.Attribute
	for n := 0; more && n < maxAttributes; n++ {
		var key, value []byte
		key, value, more = z.TagAttr()
		name := string(key)
		if len(value) <= maxValue && (kept[name] || name == "style" || name == "hidden") && !has(out, name) {
			out = append(out, html.Attribute{Key: name, Val: string(value)})
		}
	}
	return out
}

func has(attrs []html.Attribute, name string) bool {
	for _, a := range attrs {
		if a.Key == name {
			return true
		}
	}
	return false
}

// hidden says whether an element is not shown, as far as it says so itself.
func hidden(attrs []html.Attribute) bool {
	for _, a := range attrs {
		if a.Key == "hidden" || a.Key == "style" && hides(a.Val) {
			return true
		}
	}
	return false
}

func hides(style string) bool {
	for declaration := range strings.SplitSeq(strings.ToLower(style), ";") {
		name, value, _ := strings.Cut(declaration, ":")
		value, _, _ = strings.Cut(value, "!")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "display":
			if value == "none" {
				return true
			}
		case "visibility":
			if value == "hidden" || value == "collapse" {
				return true
			}
		case "opacity", "font-size":
			number := strings.TrimRight(value, "abcdefghijklmnopqrstuvwxyz%")
			if n, err := strconv.ParseFloat(number, 64); err == nil && n == 0 {
				return true
			}
		}
	}
	return false
}

// keep is what stays of the attributes, with absolute links.
func (b *builder) keep(attrs []html.Attribute) []html.Attribute {
	var out []html.Attribute
	for _, a := range attrs {
		if a.Key == "href" || a.Key == "src" {
			a.Val = b.link(a.Val)
		}
		if kept[a.Key] && a.Val != "" {
			out = append(out, a)
		}
	}
	return out
}

// link is a link as one can follow it from anywhere; empty if it leads nowhere else.
func (b *builder) link(to string) string {
	to = strings.TrimSpace(to)
	if to == "" || to[0] == '#' {
		return ""
	}
	u, err := b.base.Parse(to)
	if err != nil {
		return ""
	}
	switch u.Scheme {
	case "http", "https", "mailto", "tel":
		return u.String()
	}
	return ""
}
