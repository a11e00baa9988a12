package mail

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const maxText = 256 << 10 // bytes that are kept of the text of a mail

// pageText is the text of an HTML mail. Quotes have "> " before their lines, as in plain mails. Text that is not shown
// is left out. Time and memory are linear in the page.
func pageText(page []byte) string {
	w := pageWriter{z: html.NewTokenizer(bytes.NewReader(page))}
	w.z.SetMaxBuf(1 << 20)
	for w.out.Len() < maxText {
		switch w.z.Next() {
		case html.ErrorToken:
			return w.out.String()
		case html.TextToken:
			if w.hidden == 0 {
				w.text(string(w.z.Text()))
			}
		case html.StartTagToken:
			w.start()
		case html.SelfClosingTagToken:
			if name, _ := w.z.TagName(); atom.Lookup(name) == atom.Br {
				w.line()
			}
		case html.EndTagToken:
			w.end()
		}
	}
	return w.out.String()
}

type pageWriter struct {
	z      *html.Tokenizer
	out    strings.Builder
	quotes int
	hidden int    // in how many elements that are not shown
	pre    int    // in how many elements that keep their spaces
	began  bool   // the line has text
	space  bool   // a space is due before the next word
	link   string // the address of the link that is open
	label  int    // where its text begins
}

func (w *pageWriter) start() {
	name, more := w.z.TagName()
	switch a := atom.Lookup(name); a {
	case atom.Script, atom.Style, atom.Head, atom.Title, atom.Template, atom.Noscript:
		w.hidden++
	case atom.Body: // it ends a head that was not ended
		w.hidden = 0
	case atom.Br:
		w.line()
	case atom.Blockquote:
		w.line()
		w.quotes++
	case atom.Pre:
		w.line()
		w.pre++
	case atom.Li:
		w.line()
		w.text("• ")
	case atom.Td, atom.Th:
		w.space = true
	case atom.A:
		w.link, w.label = "", w.out.Len()
		for n := 0; more && n < 32; n++ {
			var key, value []byte
			if key, value, more = w.z.TagAttr(); string(key) == "href" && len(value) < 2000 {
				w.link = strings.TrimSpace(string(value))
			}
		}
	default:
		if block(a) {
			w.line()
		}
	}
}

func (w *pageWriter) end() {
	name, _ := w.z.TagName()
	switch a := atom.Lookup(name); a {
	case atom.Script, atom.Style, atom.Head, atom.Title, atom.Template, atom.Noscript:
		w.hidden = max(w.hidden-1, 0)
	case atom.Blockquote:
		w.line()
		w.quotes = max(w.quotes-1, 0)
	case atom.Pre:
		w.line()
		w.pre = max(w.pre-1, 0)
	case atom.A:
		shown := w.out.String()[min(w.label, w.out.Len()):]
		if to := w.link; strings.HasPrefix(to, "http") && !strings.Contains(shown, to) && w.hidden == 0 {
			w.text(" (" + to + ")")
		}
		w.link = ""
	default:
		if block(a) {
			w.line()
		}
		if a == atom.P {
			w.blank()
		}
	}
}

func block(a atom.Atom) bool {
	switch a {
	case atom.P, atom.Div, atom.Tr, atom.Table, atom.Ul, atom.Ol, atom.Li, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5,
		atom.H6, atom.Hr, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Address, atom.Dl, atom.Dt, atom.Dd:
		return true
	}
	return false
}

// line ends a line that has text.
func (w *pageWriter) line() {
	w.space = false
	if w.began {
		w.out.WriteByte('\n')
		w.began = false
	}
}

// blank leaves a line empty.
func (w *pageWriter) blank() {
	w.line()
	if s := w.out.String(); s != "" && !strings.HasSuffix(s, "\n\n") {
		w.out.WriteString("\n")
	}
}

func (w *pageWriter) text(s string) {
	if w.pre > 0 {
		for i, line := range strings.Split(s, "\n") {
			if i > 0 {
				w.begin()
				w.out.WriteByte('\n')
				w.began = false
			}
			if line != "" {
				w.begin()
				w.out.WriteString(line)
			}
		}
		return
	}
	s = strings.ReplaceAll(s, "\u00a0", " ")
	if s != "" && strings.TrimLeft(s, " \t\r\n") != s {
		w.space = true
	}
	for _, word := range strings.Fields(s) {
		w.begin()
		if w.space && !strings.HasSuffix(w.last(), " ") {
			w.out.WriteByte(' ')
		}
		w.out.WriteString(word)
		w.space = true
	}
	if s != "" {
		w.space = strings.TrimRight(s, " \t\r\n") != s
	}
}

// last is the last character that was written in the line; a space where it begins.
func (w *pageWriter) last() string {
	s := w.out.String()
	if s == "" || s[len(s)-1] == '\n' {
		return " "
	}
	return s[len(s)-1:]
}

// begin writes the marks of quotes where a line begins.
func (w *pageWriter) begin() {
	if w.began {
		return
	}
	w.began = true
	w.space = false
	if n := min(w.quotes, 5); n > 0 {
		w.out.WriteString(strings.Repeat("> ", n))
	}
}
