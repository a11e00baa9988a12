package cli

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// printer puts finished text above the input, in order. Commands of bubbletea run concurrently, so only one is under way
// at a time; and it prints at most half a screen at once, because what does not fit on the screen would push the
// input out of sight.
type printer struct {
	queue []printJob
	busy  bool
}

// printJob is some lines, and whom to tell when the last of them was written.
type printJob struct {
	lines []string
	done  func()
}

// printedMsg says that the lines under way were written.
type printedMsg struct{}

// print queues text, which must be harmless and wrapped.
func (m *model) print(text string) { m.printThen(text, nil) }

func (m *model) printThen(text string, done func()) {
	m.printer.queue = append(m.printer.queue, printJob{strings.Split(text, "\n"), done})
}

// pump starts the next piece of printing, if there is any and none is under way.
func (m *model) pump() tea.Cmd {
	p := &m.printer
	if p.busy || !m.ready || len(p.queue) == 0 {
		return nil
	}
	p.busy = true
	job := &p.queue[0]
	n := min(len(job.lines), max(m.height/2-1, 1))
	piece := strings.Join(job.lines[:n], "\n")
	job.lines = job.lines[n:]
	if piece == "" {
		piece = " " // an empty piece would print no line at all
	}
	// The second message is taken only after the first was handled, which is when it was written.
	return tea.Sequence(tea.Println(piece), func() tea.Msg { return printedMsg{} })
}

func (m *model) onPrinted() {
	p := &m.printer
	p.busy = false
	if len(p.queue[0].lines) > 0 {
		return
	}
	if done := p.queue[0].done; done != nil {
		done()
	}
	p.queue = p.queue[1:]
}
