package officetext_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/officetext"
)

// archive packs files, given as name and content in turn.
func archive(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		h := &zip.FileHeader{Name: files[i], Method: zip.Deflate}
		if h.Name == "mimetype" { // by which the kind is known without unpacking
			h.Method = zip.Store
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const types = "[Content_Types].xml"

func word(t testing.TB, body string) []byte {
	return archive(t, types, "<Types/>", "word/document.xml", `<?xml version="1.0"?><w:document><w:body>`+body+
		`</w:body></w:document>`)
}

func TestTheTextOfEachKindIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"docx": {
			word(t, `<w:p><w:pPr><w:tabs><w:tab w:val="left"/></w:tabs></w:pPr><w:r><w:t>One &amp; tw</w:t></w:r>`+
				`<w:r><w:t xml:space="preserve">o </w:t><w:tab/><w:t>three</w:t></w:r></w:p>`+
				`<w:p><w:r><w:delText>gone</w:delText><w:t>next</w:t><w:br/><w:t>line</w:t></w:r></w:p>`+
				`<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl>`),
			"One & two \tthree\nnext\nline\na",
		},
		"xlsx": {
			archive(t, types, "<Types/>",
				"xl/workbook.xml", `<workbook><sheets><sheet name="Sales" r:id="rId2"/></sheets></workbook>`,
				"xl/_rels/workbook.xml.rels", `<Relationships><Relationship Id="rId2" Target="worksheets/sheet1.xml"/>`+
					`</Relationships>`,
				"xl/sharedStrings.xml", `<sst><si><t>Ann</t></si><si><r><t>two </t></r><r><t>runs</t></r>`+
					`<rPh><t>aloud</t></rPh></si></sst>`,
				"xl/worksheets/sheet1.xml", `<worksheet><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c>`+
					`<c r="C1"><f>SUM(1)</f><v>3.5</v></c></row><row r="2"><c r="A2" t="s"><v>1</v></c>`+
					`<c r="B2" t="b"><v>1</v></c><c r="C2" t="inlineStr"><is><t>in</t></is></c>`+
					`<c r="D2" t="s"><v>99</v></c></row></sheetData></worksheet>`),
			"[sheet \"Sales\"]\nAnn\t\t3.5\ntwo runs\tTRUE\tin",
		},
		"pptx": {
			archive(t, types, "<Types/>", "ppt/presentation.xml", "<p/>",
				"ppt/slides/slide10.xml", `<p:sld><a:p><a:r><a:t>last</a:t></a:r></a:p></p:sld>`,
				"ppt/slides/slide2.xml", `<p:sld><a:p><a:t>Title</a:t></a:p><a:p><a:t>b</a:t></a:p></p:sld>`),
			"[slide 2]\nTitle\nb\n\n[slide 10]\nlast",
		},
		"odt": {
			archive(t, "mimetype", "application/vnd.oasis.opendocument.text", "content.xml",
				`<office:text><text:h>Head</text:h><text:p>a<text:s text:c="2"/>b<text:tab/>`+
					`<text:span>c</text:span></text:p><table:table table:name="T"><table:table-row>`+
					`<table:table-cell><text:p>x</text:p></table:table-cell><table:table-cell/></table:table-row>`+
					`</table:table>between</office:text>`),
			"Head\na  b\tc\n\n[table \"T\"]\nx",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := officetext.Read(c.data, 1<<20)
			text := strings.ReplaceAll(strings.ReplaceAll(d.Text, " \t", "\t"), "\t\t\n", "\n")
			if err != nil || strings.TrimSpace(text) != c.want && d.Text != c.want || d.Cut || !officetext.Is(c.data) {
				t.Errorf("%q, %v, %v", d.Text, d.Cut, err)
			}
		})
	}
}

func TestALongTextIsCutAndSaysSo(t *testing.T) {
	d, err := officetext.Read(word(t, strings.Repeat("<w:p><w:r><w:t>äöü</w:t></w:r></w:p>", 100)), 100)
	if err != nil || !d.Cut || len(d.Text) > 100 || len(d.Text) < 90 {
		t.Errorf("%d bytes, %+v, %v", len(d.Text), d, err)
	}
}

// bomb is a file of a megabyte for each kilobyte of the archive.
func bomb(n int, around string) string { return around + strings.Repeat(" ", n) }

func TestWhatUnpacksToTooMuchIsRefused(t *testing.T) {
	tag := "<w:b a='" + strings.Repeat(" ", 900_000) + "'/>" // a few large ones are read sooner than many small ones
	files := []string{types, "<Types/>"}
	for i := range 10_001 {
		files = append(files, fmt.Sprint("f", i), "")
	}
	for name, data := range map[string][]byte{
		"xml":   word(t, strings.Repeat(tag, 60)),
		"text":  word(t, "<w:t>"+bomb(2<<20, "x")+"</w:t>"),
		"tag":   word(t, "<w:t a='"+bomb(2<<20, "x")+"'>"),
		"files": archive(t, files...),
	} {
		if len(data) > 2<<20 {
			t.Errorf("%s: the archive itself has %d bytes", name, len(data))
		}
		if d, err := officetext.Read(data, 1<<20); !errors.Is(err, officetext.ErrTooLarge) {
			t.Errorf("%s: %d bytes, %v", name, len(d.Text), err)
		}
	}
}

// A cell that names a long text, many times over, does not make more text than is wanted.
func TestCellsThatShareALongTextEndAtTheLimit(t *testing.T) {
	data := archive(t, types, "<Types/>", "xl/workbook.xml", `<sheet name="a" r:id="r"/>`,
		"xl/_rels/workbook.xml.rels", `<Relationship Id="r" Target="/xl/s.xml"/>`,
		"xl/sharedStrings.xml", "<si><t>"+strings.Repeat("x", 1<<19)+"</t></si>",
		"xl/s.xml", strings.Repeat(`<row><c t="s" r="XFD1"><v>0</v></c></row>`, 100_000))
	if d, err := officetext.Read(data, 4<<20); err != nil || !d.Cut || len(d.Text) > 4<<20 {
		t.Errorf("%d bytes, %v, %v", len(d.Text), d.Cut, err)
	}
}

func TestWhatIsNoOfficeDocumentSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"nothing":      {nil, officetext.ErrNoOffice},
		"cut":          {word(t, "<w:t>x</w:t>")[:100], officetext.ErrNoOffice},
		"other":        {archive(t, "a.txt", "x"), officetext.ErrNoOffice},
		"empty":        {word(t, ""), officetext.ErrNoText},
		"a loop":       {archive(t, types, "", "xl/workbook.xml", `<sheet name="" r:id="r"/>`), nil},
		"other places": {archive(t, types, "", "word/document.xml", "", "../../etc/passwd", "x"), officetext.ErrNoText},
	} {
		if _, err := officetext.Read(c.data, 1000); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if officetext.Is(archive(t, "a.txt", "x")) || officetext.Is([]byte("PK")) {
		t.Error("any archive counts as a document")
	}
}

func FuzzADocumentGivesABoundedText(f *testing.F) {
	f.Add("word/document.xml", "<w:p><w:r><w:t>x</w:t></w:r></w:p>", []byte(nil))
	f.Add("xl/workbook.xml", `<sheet name="a" r:id="r"/>`, []byte(`<c r="ZZ9" t="s"><v>-1</v></c>`))
	f.Add("content.xml", `<text:p><text:s text:c="99999999999"/>`, []byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, name, content string, other []byte) {
		if strings.HasSuffix(name, "/") {
			t.Skip("a directory has no content")
		}
		data := archive(t, "mimetype", "x", "ppt/presentation.xml", "", name, content, "xl/_rels/workbook.xml.rels",
			`<Relationship Id="r" Target="s.xml"/>`, "xl/s.xml", string(other))
		for _, data := range [][]byte{data, other} {
			d, err := officetext.Read(data, 1000)
			if len(d.Text) > 1000 || err == nil && d.Text == "" {
				t.Errorf("%d bytes, %v", len(d.Text), err)
			}
		}
	})
}
