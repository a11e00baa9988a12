package telegramtest

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
)

// The tags that the platform knows, and the names of their looks.
var tags = map[string]string{
	"b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline", "s": "strikethrough",
	"code": "code", "pre": "pre", "a": "text_link", "blockquote": "blockquote", "tg-spoiler": "spoiler",
}

var (
	tagForm  = regexp.MustCompile(`^<(/?)([a-z-]+)((?: [a-z]+="[^"<>]*")*)>`)
	attrForm = regexp.MustCompile(` ([a-z]+)="([^"]*)"`)
	charForm = regexp.MustCompile(`^&(?:lt|gt|amp|quot|#[0-9]{1,6}|#x[0-9a-fA-F]{1,6});`)
)

type openTag struct {
	name string
	look Look
}

// Parse reads the platform's HTML: the text without tags, and its looks. It refuses what the platform refuses, and what
// the platform only understands by being lenient. wrong says what that is; empty: nothing.
func Parse(s string) (shown string, looks []Look, wrong string) {
	var text strings.Builder
	var open []openTag
	place := func() int { return len(utf16.Encode([]rune(text.String()))) }
	for i := 0; i < len(s); {
		switch s[i] {
		case '&':
			char := charForm.FindString(s[i:])
			if char == "" {
				return "", nil, fmt.Sprintf("Bare & at byte offset %d", i)
			}
			text.WriteString(html.UnescapeString(char))
			i += len(char)
		case '>':
			return "", nil, fmt.Sprintf("Bare > at byte offset %d", i)
		case '<':
			m := tagForm.FindStringSubmatch(s[i:])
			if m == nil {
				return "", nil, fmt.Sprintf("Unsupported start tag at byte offset %d", i)
			}
			if m[1] == "/" {
				if len(open) == 0 || open[len(open)-1].name != m[2] {
					return "", nil, fmt.Sprintf("Unmatched end tag at byte offset %d, found \"</%s>\"", i, m[2])
				}
				last := open[len(open)-1]
				open = open[:len(open)-1]
				if last.look.Length = place() - last.look.Offset; last.look.Length > 0 {
					looks = append(named(looks, &last.look), last.look)
				}
			} else {
				one, wrong := opened(m[2], m[3], open)
				if wrong != "" {
					return "", nil, wrong
				}
				one.look.Offset = place()
				open = append(open, one)
			}
			i += len(m[0])
		default:
			text.WriteByte(s[i])
			i++
		}
	}
	if len(open) > 0 {
		return "", nil, fmt.Sprintf("Can't find end tag corresponding to start tag %q", open[len(open)-1].name)
	}
	slices.SortStableFunc(looks, func(a, b Look) int { return a.Offset - b.Offset })
	return text.String(), looks, ""
}

// named takes the language out of the code that fills a block, which is no look of its own.
func named(looks []Look, block *Look) []Look {
	if n := len(looks); n > 0 && block.Type == "pre" {
		code := looks[n-1]
		if code.Type == "code" && code.Offset == block.Offset && code.Length == block.Length {
			block.Language = code.Language
			return looks[:n-1]
		}
	}
	return looks
}

// opened is a tag that begins inside others.
func opened(name, attributes string, outer []openTag) (one openTag, wrong string) {
	look, is := tags[name]
	if !is {
		return one, fmt.Sprintf("Unsupported start tag %q", name)
	}
	one = openTag{name, Look{Type: look}}
	for _, o := range outer {
		inPre := o.name == "pre" && name == "code"
		if o.name == "code" || o.name == "pre" && !inPre || o.name == name {
			return one, fmt.Sprintf("Tag %q stands in %q", name, o.name)
		}
	}
	for _, a := range attrForm.FindAllStringSubmatch(attributes, -1) {
		value := html.UnescapeString(a[2])
		switch {
		case name == "a" && a[1] == "href":
			one.look.URL = value
		case name == "code" && a[1] == "class":
			one.look.Language = strings.TrimPrefix(value, "language-")
		default:
			return one, fmt.Sprintf("Tag %q must have no attribute %s", name, a[1])
		}
	}
	if name == "a" && one.look.URL == "" {
		return one, "Tag \"a\" has no address"
	}
	return one, ""
}
