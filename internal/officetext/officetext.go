// Package officetext gives the text of office documents: .docx, .xlsx and .pptx of Office Open XML, .odt, .ods and .odp
// of OpenDocument. Such a document is a zip archive of XML files.
//
// What callers may rely on:
//
//   - Only the archive's files that have text are opened, by their names. Nothing is unpacked to a disk, and no
//     address in a document is opened.
//   - Bounded, whatever the archive says of itself: [maxParts] files, [maxBytes] of XML in all, [maxToken] of one text
//     or tag, and the text itself. A document over a limit is refused, or its text is cut with a note.
//   - Entities that a document defines are not expanded.
//
// Limits: formulas, pictures, dates and number formats are not told: a date of a sheet is its number. Documents with a
// password have no text.
package officetext

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// The ways in which a document has no text for a reader.
var (
	ErrNoOffice = errors.New("it is not an office document, or a damaged one")
	ErrTooLarge = errors.New("the office document unpacks to more than is read")
	ErrNoText   = errors.New("the office document has no text")
)

const (
	maxParts = 10_000   // files of an archive
	maxBytes = 48 << 20 // of XML that is read
	maxToken = 1 << 20
	maxCells = 64 // empty cells that are shown between two of a row
)

// marks stand in the first kilobytes of an archive that is an office document: they are names of its first files.
var marks = []string{
	"[Content_Types].xml", "_rels/.rels", "word/", "xl/", "ppt/", "docProps/",
	"mimetypeapplication/vnd.oasis.opendocument.",
}

// Is says whether data begins as an office document does.
func Is(data []byte) bool {
	head := string(data[:min(len(data), 4096)])
	return strings.HasPrefix(head, "PK\x03\x04") &&
		slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(head, mark) })
}

// Document is the text of a document.
type Document struct {
	Text string
	Cut  bool // there is more text than this
}

// errFull ends the reading: there is as much text as is wanted.
var errFull = errors.New("the text is cut")

// Read gives the text of a document, of at most so many bytes.
func Read(data []byte, limit int) (Document, error) {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return Document{}, ErrNoOffice
	}
	if len(r.File) > maxParts {
		return Document{}, ErrTooLarge
	}
	b := &book{files: map[string]*zip.File{}, left: maxBytes, limit: limit}
	for _, f := range r.File {
		if _, twice := b.files[f.Name]; !twice {
			b.files[f.Name] = f
		}
	}
	if err = b.read(); err != nil && !errors.Is(err, errFull) {
		return Document{}, err
	}
	text := strings.TrimSpace(b.text.String())
	if text == "" {
		return Document{}, ErrNoText
	}
	return Document{Text: text, Cut: errors.Is(err, errFull)}, nil
}

// book is a document that is read.
type book struct {
	files map[string]*zip.File
	left  int64 // bytes of XML that may still be read
	text  strings.Builder
	limit int
}

// read finds out which kind of document it is by the files that it has.
func (b *book) read() error {
	switch {
	case b.files["word/document.xml"] != nil:
		for _, name := range []string{"word/document.xml", "word/footnotes.xml", "word/endnotes.xml"} {
			if err := b.words(name, "w:"); err != nil {
				return err
			}
		}
		return nil
	case b.files["ppt/presentation.xml"] != nil:
		for _, name := range b.numbered("ppt/slides/slide") {
			if err := b.say(fmt.Sprintf("\n[slide %d]\n", number(name))); err != nil {
				return err
			}
			if err := b.words(name, "a:"); err != nil {
				return err
			}
		}
		return nil
	case b.files["xl/workbook.xml"] != nil:
		return b.sheets()
	case b.files["content.xml"] != nil && b.files["mimetype"] != nil:
		return b.open()
	}
	return ErrNoOffice
}

// numbered are the files whose names are a beginning and a number, in the order of the numbers.
func (b *book) numbered(begin string) (names []string) {
	for name := range b.files {
		if rest, is := strings.CutPrefix(name, begin); is && strings.HasSuffix(rest, ".xml") && number(name) > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(number(a)-number(b), strings.Compare(a, b)) })
	return names
}

// number is the number at the end of the name of a file; 0: there is none.
func number(name string) int {
	base := strings.TrimSuffix(path.Base(name), ".xml")
	n, err := strconv.Atoi(base[len(strings.TrimRight(base, "0123456789")):])
	if err != nil || n > 1_000_000 {
		return 0
	}
	return n
}

// say adds to the text.
func (b *book) say(s string) error {
	if room := b.limit - b.text.Len(); len(s) > room {
		b.text.WriteString(strings.ToValidUTF8(s[:max(room, 0)], ""))
		return errFull
	}
	b.text.WriteString(s)
	return nil
}

// tag is a tag of XML: its name with its prefix, in small letters.
type tag struct {
	name   string
	ends   bool // it is the end of an element, or an element without content
	begins bool // it is the begin of one, or one without content
	attrs  map[string]string
}

// walk reads a file of the archive. Each tag and each text is given to a function. A file that is missing has none.
func (b *book) walk(name string, onTag func(tag) error, onText func(string) error) error {
	f := b.files[name]
	if f == nil {
		return nil
	}
	content, err := f.Open()
	if err != nil {
		return ErrNoOffice
	}
	defer content.Close() //nolint:errcheck // only read
	z := html.NewTokenizer(&bounded{content, &b.left})
	z.SetMaxBuf(maxToken)
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			switch err := z.Err(); {
			case errors.Is(err, io.EOF):
				return nil
			case errors.Is(err, ErrTooLarge), errors.Is(err, html.ErrBufferExceeded):
				return ErrTooLarge
			default:
				return ErrNoOffice
			}
		case html.TextToken:
			if err := onText(string(z.Text())); err != nil {
				return err
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			if err := onTag(read(z, kind)); err != nil {
				return err
			}
		}
	}
}

// wanted are the attributes that somebody looks at.
var wanted = []string{"r", "t", "name", "id", "r:id", "target", "text:c", "table:name"}

func read(z *html.Tokenizer, kind html.TokenType) tag {
	name, more := z.TagName()
	t := tag{
		name: string(name), begins: kind != html.EndTagToken,
		ends: kind != html.StartTagToken,
	}
	for range 64 { // of so many a document with text has the wanted ones
		if !more {
			break
		}
		var key, value []byte
		key, value, more = z.TagAttr()
		if slices.Contains(wanted, string(key)) {
			if t.attrs == nil {
				t.attrs = map[string]string{}
			}
			t.attrs[string(key)] = string(value)
		}
	}
	return t
}

// bounded ends with ErrTooLarge once all files together have given too much.
type bounded struct {
	io.Reader
	left *int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		return 0, ErrTooLarge
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), *b.left)])
	*b.left -= int64(n)
	return n, err
}
