package builtin_test

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

// teaPDF is a document of two pages.
func teaPDF(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../internal/pdftext/testdata/tea.pdf")
	must(t, err)
	return string(data)
}

func TestAFileThatIsADocumentIsReadAsItsText(t *testing.T) {
	b := newBench(t)
	for name, data := range map[string]string{
		"tea.pdf": teaPDF(t), "tea": teaPDF(t), "broken.pdf": teaPDF(t)[:900], "about.md": "It begins with %PDX-1.4.",
	} {
		must(t, os.WriteFile(filepath.Join(b.dir, name), []byte(data), 0o600))
	}
	for _, path := range []string{"tea.pdf", "tea"} {
		b.wants(corebot.OutcomeSuccess, "[page 2]\nPrices in cups\nOne: 3.", "fs.read", args{"path": path})
		b.wants(corebot.OutcomeSuccess, "[up to byte 29 of 111; go on with offset 29]", "fs.read",
			args{"path": path, "limit": 29})
		b.wants(corebot.OutcomeSuccess, "Green tea, 80 °C", "fs.read", args{"path": path, "offset": 29})
		b.wants(corebot.OutcomeSuccess, "is past the end: "+path+" has 111 bytes", "fs.read",
			args{"path": path, "offset": 5_000})
	}
	b.wants(corebot.OutcomeError, "read broken.pdf: it is not a PDF document, or a damaged one", "fs.read",
		args{"path": "broken.pdf"})
	b.wants(corebot.OutcomeSuccess, "It begins with %PDX-1.4.", "fs.read", args{"path": "about.md"})
}

// letterDocx is a text of Office Open XML.
func letterDocx(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range [][2]string{
		{"[Content_Types].xml", "<Types/>"},
		{"word/document.xml", "<w:p><w:r><w:t>Dear Ann,</w:t></w:r></w:p><w:p><w:r><w:t>come.</w:t></w:r></w:p>"},
	} {
		w, err := z.Create(f[0])
		must(t, err)
		_, err = w.Write([]byte(f[1]))
		must(t, err)
	}
	must(t, z.Close())
	return b.String()
}

func TestAnOfficeDocumentIsReadAsItsText(t *testing.T) {
	b := newBench(t)
	must(t, b.root.Write("letter.docx", []byte(letterDocx(t))))
	must(t, b.root.Write("broken.docx", []byte(letterDocx(t)[:100])))
	b.wants(corebot.OutcomeSuccess, "Dear Ann,\ncome.", "fs.read", args{"path": "letter.docx"})
	b.wants(corebot.OutcomeSuccess, "[up to byte 4 of 15; go on with offset 4]", "fs.read",
		args{"path": "letter.docx", "limit": 4})
	b.wants(corebot.OutcomeSuccess, "come.", "fs.read", args{"path": "letter.docx", "offset": 10})
	b.wants(corebot.OutcomeError, "read broken.docx: it is not an office document, or a damaged one", "fs.read",
		args{"path": "broken.docx"})
}

func TestADocumentOfTheWebIsReadAsItsText(t *testing.T) {
	b, address := site(t, webTime, answer("application/pdf", teaPDF(t)))
	if r := fetch(t, b, address); r.Outcome != corebot.OutcomeSuccess || !r.Outside ||
		!strings.Contains(r.Content, "URL: "+address) || !strings.Contains(r.Content, "Black tea: four.") {
		t.Errorf("%+v", r)
	}
	b, address = site(t, webTime, answer("application/pdf", teaPDF(t)[:700]+strings.Repeat("x", 200_000)))
	if r := fetch(t, b, address); r.Outcome != corebot.OutcomeError ||
		!strings.Contains(r.Content, "it is larger than 100000 bytes, and the rest was not read") {
		t.Errorf("%+v", r)
	}
}
