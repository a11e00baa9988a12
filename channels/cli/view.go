package cli

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/charmbracelet/x/ansi"
)

const (
	spinner   = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
	toolsSeen = 3 // running tools that are listed
)

// View draws the live part: what streams, what runs, and the input. It is never more than about half the screen high,
// which is what the printer counts on.
func (m *model) View() tea.View {
	if m.gone {
		return tea.NewView("")
	}
	below := slices.Concat(m.toolRows(), m.statusRows(), m.candidateView())
	room := m.height/2 - len(below) - m.editor.area.Height()
	rows := append(m.streamRows(max(room, 1)), below...)
	input := m.editor.area.View()
	v := tea.NewView(strings.Join(append(rows, input), "\n"))
	if c := m.editor.area.Cursor(); c != nil {
		c.Y += len(rows)
		v.Cursor = c
	}
	return v
}

// streamRows are the newest rows of the streaming answer. Only as much of it is wrapped as could be seen.
func (m *model) streamRows(room int) []string {
	text := m.turn.text
	if text == "" && len(m.unsent) > 0 {
		text = m.unsent[len(m.unsent)-1].text
	}
	if text == "" {
		return nil
	}
	if most := room * m.width * 4; len(text) > most { // no more than four bytes a column, nearly always
		text = text[len(text)-most:]
	}
	rows := strings.Split(strings.TrimRight(wrap(drawable(text), m.width), "\n"), "\n")
	return rows[max(len(rows)-room, 0):]
}

func (m *model) toolRows() []string {
	var rows []string
	for _, t := range m.turn.tools[max(len(m.turn.tools)-toolsSeen, 0):] {
		rows = append(rows, m.spin()+" "+m.look.dim.Render(oneLine(t.name+" "+t.args, m.width-4)))
	}
	return rows
}

func (m *model) statusRows() []string {
	if !m.busy() && !m.away {
		return nil
	}
	return []string{m.spin() + " " + m.look.dim.Render(ansi.Truncate(m.status(), max(m.width-4, 1), "…"))}
}

func (m *model) status() string {
	var parts []string
	switch {
	case m.leaving:
		return "leaving when it is sent; Ctrl-C leaves now"
	case m.away:
		return "waiting for Corebot to come back; Ctrl-D leaves"
	case m.stopID != "":
		parts = append(parts, "stopping")
	case len(m.turn.tools) > 0:
		parts = append(parts, "working")
	case m.turn.running:
		parts = append(parts, "answering")
	case len(m.onWay) > 0:
		parts = append(parts, "sending")
	default:
		parts = append(parts, "waiting")
	}
	waiting := len(m.asked)
	if _, ok := m.asked[m.turn.id]; ok {
		waiting--
	}
	if m.turn.running && waiting > 0 {
		parts = append(parts, fmt.Sprintf("%d more waiting", waiting))
	}
	key := "Ctrl-C stops"
	switch {
	case !m.editor.empty():
		key = "Ctrl-C clears the input"
	case m.stopID != "":
		key = "Ctrl-C leaves"
	}
	return strings.Join(append(parts, key), " · ")
}

func (m *model) spin() string {
	frames := []rune(spinner)
	return m.look.question.Render(string(frames[m.frame%len(frames)]))
}

// indent aligns the rows of a question under its first.
func indent(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }

// header is printed once, before the chat begins.
func header(o Options, look styles, width int) string {
	title := "corebot"
	if o.ModelName != "" {
		title += " · " + oneLine(o.ModelName, noteWidth)
	}
	title += " · chat " + oneLine(o.Chat, noteWidth)
	keys := "/help for commands · Alt+Enter for a new line · Ctrl-C stops an answer · Ctrl-D or /quit leaves"
	return look.question.Render(wrap(title, width)) + "\n" + look.dim.Render(wrap(keys, width)) + "\n"
}
