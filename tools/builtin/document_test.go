package builtin_test

import (
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
