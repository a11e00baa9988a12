package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/corebot/corebot/internal/mention"
)

// tab presses Tab and plays what comes of it.
func (d *desk) tab() {
	if cmd := d.onKey(press(tea.KeyTab, 0)); cmd != nil {
		d.do(cmd())
	}
}

func TestTabCompletesCommandsAndPaths(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"notes.txt", "notable.md", "my file.txt", "evil\x1b[2Jname"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("dir", 0o700); err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string]string{
		"/he": "/help ", "/HE": "/help ", "/st": "/st", "/sta": "/status ", "/q": "/quit ", "/zzz": "/zzz",
		"see @not": "see @not", "see @note": "see @notes.txt ", "@di": "@dir/", "@my": `@"my file.txt" `,
		`see @"my f`: `see @"my file.txt" `, "in notab": "in notable.md ", "": "", "see ": "see ",
		"@nowhere/x": "@nowhere/x",
		"first\n/he": "first\n/he",
	} {
		d := newDesk(t)
		d.paths = mention.Reader{}.Complete
		d.do(tea.PasteMsg{Content: typed})
		d.tab()
		if got := d.editor.text(); got != want {
			t.Errorf("%q and Tab gives %q, want %q", typed, got, want)
		}
	}
}

func TestCandidatesAreShownUntilTheNextKey(t *testing.T) {
	d := newDesk(t)
	d.typed("/st")
	d.tab()
	if got := d.editor.text(); got != "/st" {
		t.Errorf("the input is %q", got)
	}
	requireHas(t, d.screen(), "/status  /steer  /stop")
	d.typed("o")
	requireLacks(t, d.screen(), "/status  /steer")

	d.paths = func(string) (many []string) {
		for range 500 {
			many = append(many, "xy\x1b[2J/long name")
		}
		return append(many, "xz")
	}
	for _, width := range []int{80, 20, 5, 1} {
		d.do(tea.WindowSizeMsg{Width: width, Height: 24}, press('u', tea.ModCtrl))
		d.typed("x")
		d.tab()
		rows := d.candidateView()
		if len(rows) != candidateRows || slices.ContainsFunc(rows, func(r string) bool {
			return ansi.StringWidth(r) > max(width, 2) || strings.Contains(r, "\x1b[2J")
		}) {
			t.Errorf("at width %d: %q", width, rows)
		}
	}
}

func TestACompletionThatComesTooLateIsNotPutIn(t *testing.T) {
	d := newDesk(t)
	d.paths = func(string) []string { return []string{"notes.txt"} }
	d.typed("@no")
	cmd := d.onKey(press(tea.KeyTab, 0))
	d.typed("w")
	d.do(cmd())
	if got := d.editor.text(); got != "@now" {
		t.Errorf("the input is %q", got)
	}
}

func TestHelpListsWhatTheTerminalDoesItself(t *testing.T) {
	d := newDesk(t)
	l := d.enter("/help")
	d.do(deliveredMsg{letter: l})
	d.show(notice("n", l.id, "Commands of this chat:\n/stop"))
	for _, want := range []string{"Commands of this chat:", "/quit", "@FILE", "Tab"} {
		requireHas(t, d.printed(), want)
	}
}

func TestAnImageGoesWithTheLetterAsItIs(t *testing.T) {
	t.Chdir(t.TempDir())
	const png = "\x89PNG\r\n\x1a\n\xff\x00"
	if err := os.WriteFile("a.png", []byte(png), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := newLetter("what is @a.png").attach(mention.Reader{})
	if err != nil || l.attached != "a.png (10 bytes)" {
		t.Fatalf("%+v: %v", l, err)
	}
	d := &fakeDoor{}
	if err := (courier{door: d}).deliver(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	in := d.seen()[0]
	if in.Text() != "what is @a.png" || len(in.Parts) != 2 || in.Parts[1].Name != "a.png" || len(in.Files) != 1 ||
		in.Files[0].Part != 0 || string(in.Files[0].Data) != png {
		t.Errorf("%+v", in)
	}
}

func TestALetterKeepsTheFilesThatItWasGivenFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(text string) {
		if err := os.WriteFile("a.txt", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	first, err := newLetter("see @a.txt").attach(mention.Reader{})
	if err != nil || !strings.Contains(first.body, "\none\n") || first.attached != "a.txt (3 bytes)" {
		t.Fatalf("%+v: %v", first, err)
	}
	write("two")
	if again, err := first.attach(mention.Reader{}); err != nil || again != first {
		t.Errorf("another attempt is %+v: %v", again, err)
	}
	for _, text := range []string{"/steer see @a.txt", "/export @a.txt", "see nothing"} {
		if l, err := newLetter(text).attach(mention.Reader{}); err != nil || l.body != "" {
			t.Errorf("%q attaches %+v: %v", text, l, err)
		}
	}
	if _, err := newLetter("/new see @b.txt").attach(mention.Reader{}); err == nil {
		t.Error("a file that is missing was attached")
	}
}
