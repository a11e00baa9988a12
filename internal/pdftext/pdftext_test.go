package pdftext

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// tea has two pages whose lines begin in all ways in which they can.
func tea(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/tea.pdf")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheTextOfADocumentIsReadPageByPage(t *testing.T) {
	d, err := Read(tea(t), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	const want = "[page 1]\nThe tea of the house\nGreen tea, 80 °C, two minutes.\nBlack tea: four.\n\n" +
		"[page 2]\nPrices in cups\nOne: 3."
	if d.Text != want || d.Pages != 2 || d.Cut {
		t.Errorf("%d pages, cut %v:\n%s", d.Pages, d.Cut, d.Text)
	}
}

func TestTextOverTheLimitIsCut(t *testing.T) {
	d, err := Read(tea(t), 40)
	if err != nil || !d.Cut || len(d.Text) > 40 || !strings.HasPrefix(d.Text, "[page 1]\nThe tea") {
		t.Errorf("%v, cut %v: %q", err, d.Cut, d.Text)
	}
}

func TestWhatHasNoTextIsAnErrorThatSaysWhy(t *testing.T) {
	whole := tea(t)
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"nothing":        {nil, ErrNoPDF},
		"a page of HTML": {[]byte("<html>%PDE-1.4"), ErrNoPDF},
		"only the magic": {[]byte("%PDF-1.7\n%%EOF"), ErrNoPDF},
		"the first half": {whole[:len(whole)/2], ErrNoPDF},
		"no fonts, no text": {bytes.ReplaceAll(bytes.ReplaceAll(whole, []byte(" Tj"), []byte(" Tz")), []byte("TJ"),
			[]byte("Tz")), ErrNoText},
		"encrypted": {bytes.Replace(whole, []byte("/Root 1 0 R >>"), []byte("/Root 1 0 R /ID [(a)(b)] /Encrypt << "+
			"/Filter /Standard /V 1 /R 2 /O (aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) /U (aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) "+
			"/P -4 >> >>"), 1), ErrEncrypted},
	} {
		if name == "no fonts, no text" {
			c.data = bytes.ReplaceAll(c.data, []byte(" '"), []byte(" z"))
		}
		if d, err := Read(c.data, 1<<20); !errors.Is(err, c.want) || d.Text != "" {
			t.Errorf("%s: %v, %q", name, err, d.Text)
		}
	}
}

// FuzzRead looks for panics and for text over the limit. A document can keep the library busy; that is why such
// documents are read in workers.
func FuzzRead(f *testing.F) {
	whole := tea(f)
	f.Add(whole)
	f.Add(bytes.Replace(whole, []byte("/Contents 5 0 R"), []byte("/Contents 4 0 R"), 1))
	f.Add(bytes.Replace(whole, []byte("/Kids ["), []byte("/Kids [2 0 R "), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if d, err := Read(data, 1_000); len(d.Text) > 1_000 || err != nil && d.Text != "" {
				t.Errorf("%d bytes, %v", len(d.Text), err)
			}
		}()
		select {
		case <-ended:
		case <-time.After(2 * time.Second):
			t.Skip("it goes on and on")
		}
	})
}
