// Package pdftext gives the text of PDF documents, page by page, in the order in which a page draws it.
//
// Limits: a document is read by a library that was not made for hostile input. Its panics are errors here, but a
// document can keep it busy for ever, or have it use all memory. So whoever reads documents of others calls this
// package in a process that can be ended. Pictures of text, such as scanned pages, have no text. Columns come as they
// are drawn.
package pdftext

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/ledongthuc/pdf"
)

// The ways in which a document has no text for a reader.
var (
	ErrNoPDF     = errors.New("it is not a PDF document, or a damaged one")
	ErrEncrypted = errors.New("the PDF document is encrypted")
	ErrNoText    = errors.New("the PDF document has no text: its pages are pictures")
)

// magic stands in the first kilobyte of every PDF document.
var magic = []byte("%PDF-")

// Is says whether data begins as a PDF document does.
func Is(data []byte) bool { return bytes.Contains(data[:min(len(data), 1024)], magic) }

// maxPages bounds the pages that are read.
const maxPages = 2_000

// Document is the text of a document.
type Document struct {
	Pages int // that the document says it has
	Text  string
	Cut   bool // there is more text than this
}

// Read gives the text of a document, of at most so many bytes.
func Read(data []byte, limit int) (d Document, err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics on what it does not understand
			err = ErrNoPDF
		}
	}()
	if !Is(data) {
		return d, ErrNoPDF
	}
	r, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
	switch {
	case errors.Is(err, pdf.ErrInvalidPassword):
		return d, ErrEncrypted
	case err != nil:
		return d, ErrNoPDF
	}
	d.Pages = r.NumPage()
	var text strings.Builder
	for n := 1; n <= d.Pages && n <= maxPages && text.Len() <= limit; n++ {
		page, err := pageText(r.Page(n), limit)
		if err != nil {
			page = "[this page cannot be read]"
		}
		if page = strings.TrimSpace(page); page == "" {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\n\n")
		}
		fmt.Fprintf(&text, "[page %d]\n%s", n, page)
	}
	if text.Len() == 0 {
		return d, ErrNoText
	}
	d.Text, d.Cut = text.String(), text.Len() > limit || d.Pages > maxPages
	if len(d.Text) > limit {
		d.Text = strings.ToValidUTF8(d.Text[:limit], "")
	}
	return d, nil
}

// pageText gives the text of one page. A page that cannot be understood leaves the others readable.
func pageText(p pdf.Page, limit int) (_ string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = ErrNoPDF
		}
	}()
	w := writer{page: p, limit: limit, fonts: map[string]*pdf.Font{}}
	w.draw(p.V.Key("Contents"), p.Resources(), 0)
	return w.text.String(), nil
}

// writer follows the operators of a page that show text: section 9.4 of ISO 32000-1.
type writer struct {
	page  pdf.Page
	limit int
	text  strings.Builder
	fonts map[string]*pdf.Font
	font  pdf.TextEncoding
	line  float64 // where the text matrix puts the line, from the bottom of the page
}

// maxForms bounds how deep forms, which are pages within pages, are followed.
const maxForms = 4

func (w *writer) draw(contents, resources pdf.Value, depth int) {
	if contents.IsNull() {
		return
	}
	pdf.Interpret(contents, func(stack *pdf.Stack, operator string) {
		args := make([]pdf.Value, stack.Len())
		for i := len(args) - 1; i >= 0; i-- {
			args[i] = stack.Pop()
		}
		if w.text.Len() > w.limit {
			return
		}
		if n := operands[operator]; len(args) < n {
			return
		}
		w.do(operator, args, resources, depth)
	})
}

// operands are how many operands the operators have that are followed.
var operands = map[string]int{"Tf": 2, "Td": 2, "TD": 2, "Tm": 6, "Tj": 1, "TJ": 1, "'": 1, `"`: 3, "Do": 1}

// gap is the shift between two strings that stands for a space, in thousandths of the font's size.
const gap = 180

func (w *writer) do(operator string, args []pdf.Value, resources pdf.Value, depth int) {
	switch operator {
	case "Tf":
		w.font = w.fontOf(args[0].Name(), resources, depth)
	case "Td", "TD":
		if args[1].Float64() != 0 {
			w.newLine()
		} else {
			w.space()
		}
	case "Tm":
		if at := args[5].Float64(); at != w.line {
			w.line = at
			w.newLine()
		} else {
			w.space()
		}
	case "T*":
		w.newLine()
	case "Tj":
		w.show(args[0])
	case "'":
		w.newLine()
		w.show(args[0])
	case `"`:
		w.newLine()
		w.show(args[2])
	case "TJ":
		for i := range args[0].Len() {
			if v := args[0].Index(i); v.Kind() == pdf.String {
				w.show(v)
			} else if v.Float64() < -gap {
				w.space()
			}
		}
	case "Do":
		form := resources.Key("XObject").Key(args[0].Name())
		if depth < maxForms && form.Key("Subtype").Name() == "Form" {
			inner := form.Key("Resources")
			if inner.IsNull() {
				inner = resources
			}
			w.newLine()
			w.draw(form, inner, depth+1)
		}
	}
}

// fontOf is how the bytes of a font are read. Forms have fonts of their own under the same names.
func (w *writer) fontOf(name string, resources pdf.Value, depth int) pdf.TextEncoding {
	if depth > 0 {
		f := pdf.Font{V: resources.Key("Font").Key(name)}
		return f.Encoder()
	}
	f := w.fonts[name]
	if f == nil {
		f = &pdf.Font{V: resources.Key("Font").Key(name)}
		w.fonts[name] = f
	}
	return f.Encoder()
}

func (w *writer) show(v pdf.Value) {
	text := v.RawString()
	if w.font != nil {
		text = w.font.Decode(text)
	}
	for _, c := range text {
		switch {
		case c == '\u00ad', c == unicode.ReplacementChar: // a soft hyphen, and what the font has no letter for
		case unicode.IsControl(c):
			w.space()
		default:
			w.text.WriteRune(c)
		}
	}
}

func (w *writer) space() {
	if !w.endsWith(" \n") {
		w.text.WriteByte(' ')
	}
}

func (w *writer) newLine() {
	if !w.endsWith("\n") {
		w.text.WriteByte('\n')
	}
}

// endsWith says whether the text ends with one of some characters, or has not begun.
func (w *writer) endsWith(chars string) bool {
	s := w.text.String()
	return s == "" || strings.ContainsRune(chars, rune(s[len(s)-1]))
}
