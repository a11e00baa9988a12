package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/charmbracelet/x/ansi"

	"github.com/corebot/corebot"
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
		rows = append(rows, m.spin()+" "+m.look.dim.Render(oneLine(t.name+" "+briefArgs(t.args), m.width-4)))
	}
	return rows
}

func (m *model) statusRows() []string {
	if m.request != nil && !m.away && !m.leaving {
		asks := m.request.prompt(max(m.width-4, 1))
		return []string{m.look.question.Render("? ") + m.look.dim.Render(asks)}
	}
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
	text := look.question.Render(wrap(title, width)) + "\n" + look.dim.Render(wrap(keys, width)) + "\n"
	if o.Charset != "" {
		text += look.bad.Render(wrap("This terminal's locale says "+oneLine(o.Charset, noteWidth)+", and Corebot "+
			"speaks UTF-8: letters beyond ASCII can go wrong. Set LC_ALL=C.UTF-8.", width)) + "\n"
	}
	return text
}

// Charset is the character set of the locale in an environment, in upper case, if one is named that is not UTF-8. A
// locale without a character set says nothing of the terminal.
func Charset(getenv func(string) string) string {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"))
	_, charset, _ := strings.Cut(locale, ".")
	charset, _, _ = strings.Cut(strings.ToUpper(charset), "@")
	if charset == "UTF-8" || charset == "UTF8" {
		return ""
	}
	return charset
}

// pastRows is how many rows of one earlier message are shown.
const pastRows = 6

// clockColumns is the width of what stands before an earlier message: its time and a space.
const clockColumns = len("15:04 ")

// pastText shows what was said before the chat was opened, dimmed and with times. A long message is cut to its
// beginning. Without any message it is empty.
func pastText(past []corebot.HistoryEntry, look styles, width int, now time.Time) string {
	var b strings.Builder
	day := now.Local().Format(time.DateOnly)
	for _, e := range past {
		if e.Speaker == corebot.SpeakerUser && nobodyTyped(e.MessageID) {
			continue
		}
		at := e.At.Local()
		if on := at.Format(time.DateOnly); on != day {
			day = on
			b.WriteString(look.dim.Render(wrap("— "+at.Format("Monday, 2 January 2006")+" —", width)) + "\n")
		}
		mark := strings.Repeat(" ", promptColumns)
		if e.Speaker == corebot.SpeakerUser {
			mark = promptMark
		}
		lead := at.Format("15:04 ") + mark
		room := max(width-clockColumns-promptColumns, 1)
		for i, row := range headRows(typedText(e.Text()), room, pastRows) {
			if i > 0 {
				lead = strings.Repeat(" ", clockColumns+promptColumns)
			}
			b.WriteString(look.dim.Render(strings.TrimRight(lead+row, " ")) + "\n")
		}
	}
	return b.String()
}

// headRows lays a text out in at most so many rows. A mark in the last row says that more follows.
func headRows(text string, width, most int) []string {
	const bytesPerColumn = 8
	whole := text
	if enough := most * (width + 1) * bytesPerColumn; len(text) > enough {
		text = text[:enough] // the cut may split a character, which the last rows would show; they are cut below
	}
	rows := strings.Split(strings.Trim(wrap(drawable(text), width), "\n"), "\n")
	if len(rows) <= most && len(text) == len(whole) {
		return rows
	}
	rows = rows[:min(len(rows), most)]
	last := &rows[len(rows)-1]
	*last = ansi.Truncate(*last, max(width-2, 0), "") + "…"
	return rows
}
