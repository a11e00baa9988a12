package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

func TestAPasteOfSeveralLinesIsOneText(t *testing.T) {
	d := newDesk(t)
	d.do(tea.PasteMsg{Content: "one\r\ntwo\rthree"})
	if l := d.enter("!"); l.text != "one\ntwo\nthree!" || len(d.letters) != 1 {
		t.Errorf("sent %+v", d.letters)
	}
}

func TestAPasteTheEditorCannotHoldIsSentAsItWas(t *testing.T) {
	for name, text := range map[string]string{
		"tabs": "a\n\tb", "controls": "x\x1b[1my", "long": strings.Repeat("line\n", 12_000) + "end",
		"wide": strings.Repeat("x", 70_000),
	} {
		d := newDesk(t)
		d.typed("see ")
		d.do(tea.PasteMsg{Content: text})
		requireHas(t, d.screen(), "[pasted 1: ")
		if l := d.enter(" ok"); l.text != "see "+text+" ok" {
			t.Errorf("%s: sent %d bytes of %d", name, len(l.text), len(text)+7)
		}
	}
}

func TestNewlineKeysDoNotSend(t *testing.T) {
	d := newDesk(t)
	d.typed("a")
	d.do(press(tea.KeyEnter, tea.ModAlt))
	d.typed("b")
	d.do(press('j', tea.ModCtrl))
	if l := d.enter("c"); l.text != "a\nb\nc" || len(d.letters) != 1 {
		t.Errorf("sent %+v", d.letters)
	}
	if d.do(press(tea.KeyEnter, 0)); len(d.letters) != 1 {
		t.Error("an empty input was sent")
	}
}

func TestArrowsGoThroughTheHistoryAndBackToTheDraft(t *testing.T) {
	d := newDesk(t)
	for _, text := range []string{"first", "second", "second"} {
		d.do(deliveredMsg{letter: d.enter(text)})
	}
	d.typed("draft")
	up, down := press(tea.KeyUp, 0), press(tea.KeyDown, 0)
	for i, step := range []struct {
		key  tea.Msg
		want string
	}{{up, "second"}, {up, "first"}, {up, "first"}, {down, "second"}, {down, "draft"}, {down, "draft"}} {
		d.do(step.key)
		if got := d.editor.text(); got != step.want {
			t.Fatalf("step %d shows %q, want %q", i, got, step.want)
		}
	}
}

func TestArrowsMoveWithinATextOfSeveralLines(t *testing.T) {
	d := newDesk(t)
	d.do(deliveredMsg{letter: d.enter("earlier")})
	d.do(tea.PasteMsg{Content: "one\ntwo"})
	d.do(press(tea.KeyUp, 0))
	if got := d.editor.text(); got != "one\ntwo" {
		t.Fatalf("the first Up left the text for %q", got)
	}
	d.do(press(tea.KeyUp, 0))
	if got := d.editor.text(); got != "earlier" {
		t.Fatalf("Up in the first row shows %q", got)
	}
}

func TestTheHistoryFileIsTheOwnersAndSurvivesDamage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	good := `{"id":"1","text":"one"}`
	if err := os.WriteFile(file, []byte(good+"\nnot json\n{\"id\":\"2\"}\n"+`{"id":"3","text":"cut sho`),
		0o644); err != nil {
		t.Fatal(err)
	}
	h, err := openHistory(file)
	if err != nil || len(h.prompts) != 1 || h.prompts[0].Text != "one" {
		t.Fatalf("read %+v, %v", h.prompts, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	h, err = openHistory(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.add(prompt{"1", "a\nb"}); err != nil {
		t.Fatal(err)
	}
	if info, err = os.Stat(fresh); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a new file has mode %v, %v", info.Mode(), err)
	}
}

func TestTheHistoryIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	h := &history{path: file}
	for range 2*historyEntries + 1 {
		if err := h.add(prompt{"id", "text"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.add(prompt{"big", strings.Repeat("x", historyEntryBytes+1)}); err != nil {
		t.Fatal(err)
	}
	if _, found := h.question("big"); found || len(h.prompts) != historyEntries {
		t.Errorf("%d prompts are kept, the big one: %v", len(h.prompts), found)
	}
	if _, err := openHistory(file); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil || strings.Count(string(data), "\n") != historyEntries {
		t.Errorf("the file has %d lines, %v", strings.Count(string(data), "\n"), err)
	}
}

func TestAHistoryThatCannotBeWrittenIsSaidOnceAndLosesNothing(t *testing.T) {
	d := newDesk(t)
	d.history.path = filepath.Join(t.TempDir(), "no", "such", "directory")
	d.do(deliveredMsg{letter: d.enter("one")}, deliveredMsg{letter: d.enter("two")})
	if n := strings.Count(d.printed(), "write the prompt history"); n != 1 {
		t.Errorf("said %d times", n)
	}
	if len(d.history.prompts) != 2 {
		t.Errorf("remembered %+v", d.history.prompts)
	}
	if _, err := openHistory(t.TempDir()); err == nil {
		t.Error("a directory was taken for a history")
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte("{\"id\":\"1\",\"text\":\"one\"}\n{}\n\x00\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h := new(history)
		h.parse(data)
		if len(h.prompts) > historyEntries {
			t.Fatalf("%d prompts", len(h.prompts))
		}
		for _, p := range h.prompts {
			if p.Text == "" || len(p.Text) > historyEntryBytes {
				t.Fatalf("kept a prompt of %d bytes", len(p.Text))
			}
		}
	})
}
