package cli

import (
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/corebot/corebot"
)

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
