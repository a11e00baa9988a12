package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
)

const (
	promptMark    = "› "
	promptColumns = 2
	editorRows    = 8    // most rows of the input that are visible
	editorFull    = 5000 // most rows that it holds; what is longer is pasted and kept aside

	asideLines = 30   // a paste of more lines, or
	asideRunes = 4000 // more characters, is kept aside
)

// editor is the input: several lines, pastes, and the way back through the history.
//
// The text area rewrites tabs and control characters, and becomes slow when it is long. Such a text is kept aside, and
// a mark such as "[pasted 1: 120 lines]" stands for it. A mark that the user changes stands for nothing any more.
type editor struct {
	area    textarea.Model
	aside   []pasted
	pastes  int // how many marks were given out
	history *history
	at      int    // which prompt of the history is shown; len(history.prompts) is none
	draft   string // what was being typed when the way back began
}

type pasted struct {
	mark, text string
}

func newEditor(h *history, s styles) *editor {
	a := textarea.New()
	a.Prompt = promptMark
	a.Placeholder = "say something, or /help"
	a.ShowLineNumbers = false
	a.DynamicHeight = true
	a.MaxHeight, a.MaxContentHeight, a.MaxWidth = editorRows, editorFull, 0
	a.SetVirtualCursor(false) // the terminal's own cursor: nothing to redraw while nothing happens
	a.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "ctrl+j", "shift+enter"))
	a.KeyMap.Paste, a.KeyMap.CopySelection = key.NewBinding(), key.NewBinding() // these run programs of the desktop
	look := textarea.StyleState{Prompt: s.question, Placeholder: s.dim, Selection: s.question.Reverse(true)}
	a.SetStyles(textarea.Styles{Focused: look, Blurred: look, Cursor: textarea.CursorStyle{Blink: true}})
	a.Focus()
	return &editor{area: a, history: h, at: len(h.prompts)}
}

func (e *editor) setWidth(columns int) { e.area.SetWidth(max(columns-1, promptColumns+1)) }

// text is what was typed, with every paste in its place.
func (e *editor) text() string {
	var swap []string
	for _, p := range e.aside {
		swap = append(swap, p.mark, p.text)
	}
	return strings.NewReplacer(swap...).Replace(e.area.Value())
}

func (e *editor) empty() bool { return e.area.Value() == "" }

// set replaces everything, and ends the way back through the history.
func (e *editor) set(text string) {
	e.replace(text)
	e.at, e.draft = len(e.history.prompts), ""
}

// discard empties the input. Its text becomes the newest entry of the history, which lasts for this session only.
func (e *editor) discard() {
	e.history.keep(prompt{Text: e.text()})
	e.set("")
}

func (e *editor) replace(text string) {
	e.area.Reset()
	e.aside = nil
	e.insert(text)
}

// insert puts text at the cursor as one piece. Terminals paste line ends as \r.
func (e *editor) insert(text string) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	if !fitsEditor(text) {
		e.pastes++
		p := pasted{fmt.Sprintf("[pasted %d: %d lines]", e.pastes, strings.Count(text, "\n")+1), text}
		e.aside = append(e.aside, p)
		text = p.mark
	}
	e.area.InsertString(text)
}

func fitsEditor(text string) bool {
	return strings.Count(text, "\n") < asideLines && utf8.RuneCountInString(text) <= asideRunes &&
		!strings.ContainsFunc(text, func(r rune) bool {
			return r != '\n' && unicode.IsControl(r) ||
				r == utf8.RuneError
		})
}

// before is the line of the cursor up to the cursor, and whether that is the first line.
func (e *editor) before() (text string, first bool) {
	at := e.area.Line()
	line := []rune(strings.Split(e.area.Value(), "\n")[at])
	return string(line[:min(e.area.Column(), len(line))]), at == 0
}

// retype puts text in the place of the last n characters before the cursor.
func (e *editor) retype(n int, text string) {
	for range n {
		e.area, _ = e.area.Update(tea.KeyPressMsg{Code: tea.KeyBackspace})
	}
	e.area.InsertString(text)
}

// press gives a key to the text area, or goes through the history with the arrows at the first and last row.
func (e *editor) press(msg tea.KeyPressMsg) tea.Cmd {
	switch msg.String() {
	case "up", "ctrl+p":
		if e.onFirstRow() {
			e.older()
			return nil
		}
	case "down", "ctrl+n":
		if e.onLastRow() {
			e.newer()
			return nil
		}
	}
	var cmd tea.Cmd
	e.area, cmd = e.area.Update(msg)
	return cmd
}

func (e *editor) onFirstRow() bool { return e.area.Line() == 0 && e.area.LineInfo().RowOffset == 0 }

func (e *editor) onLastRow() bool {
	return e.area.Line() == e.area.LineCount()-1 && e.area.LineInfo().RowOffset+1 >= e.area.LineInfo().Height
}

// older shows the prompt before the one shown, skipping repetitions.
func (e *editor) older() {
	now := e.text()
	for i := min(e.at, len(e.history.prompts)) - 1; i >= 0; i-- {
		if text := e.history.prompts[i].Text; text != now {
			if e.at == len(e.history.prompts) {
				e.draft = now
			}
			e.replace(text)
			e.at = i
			return
		}
	}
}

// newer shows the prompt after the one shown, and at last what was being typed.
func (e *editor) newer() {
	if e.at >= len(e.history.prompts) {
		return
	}
	now := e.text()
	for i := e.at + 1; i < len(e.history.prompts); i++ {
		if text := e.history.prompts[i].Text; text != now {
			e.replace(text)
			e.at = i
			return
		}
	}
	e.set(e.draft)
}
