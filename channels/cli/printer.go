package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/corebot/corebot"
)

// printer puts finished text above the input, in order. Commands of bubbletea run concurrently, so only one is under
// way at a time. It prints at most half a screen at once, because more lines than the screen has would push the input
// out of sight.
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

// print queues text, which must be harmless.
func (m *model) print(text string) { m.printThen(text, nil) }

func (m *model) printThen(text string, done func()) {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, fold(line, m.width, m.printRoom())...)
	}
	m.printer.queue = append(m.printer.queue, printJob{lines, done})
}

// printRoom is how many rows are printed at once.
func (m *model) printRoom() int { return max(m.height/2-1, 1) }

// pump starts the next piece of printing, if there is any and none is under way.
func (m *model) pump() tea.Cmd {
	p := &m.printer
	if p.busy || !m.ready || len(p.queue) == 0 {
		return nil
	}
	p.busy = true
	job := &p.queue[0]
	n := fitting(job.lines, m.width, m.printRoom())
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

// fold makes one line that the terminal can break itself, or several lines that need no breaking. One line stays whole
// when the user copies it. bubbletea makes room for a line by its width. The width is exact only if no character moves
// to the next row as a whole, and if the line does not take all the rows there are.
func fold(line string, width, room int) []string {
	if len(line) < width {
		return []string{line}
	}
	switch columns := ansi.StringWidth(line); {
	case columns < width:
		return []string{line}
	case !isASCII(line) || rows(columns, width) > room:
		return strings.Split(lipgloss.Wrap(line, max(width-1, 1), ""), "\n")
	case columns%width == 0:
		return []string{line + " "} // what clears the rest of the row would clear the last character, see [wrap]
	default:
		return []string{line}
	}
}

// fitting is how many of the lines go into so many rows, one at least.
func fitting(lines []string, width, room int) int {
	for i, line := range lines {
		if len(line) < width {
			room--
		} else {
			room -= rows(ansi.StringWidth(line), width)
		}
		if room < 0 {
			return max(i, 1)
		}
	}
	return len(lines)
}

func rows(columns, width int) int { return columns/width + 1 }

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// maxLine is the longest line of plain input in bytes. It is above every limit that a door can have, so the door says
// what is too large. And memory is bounded.
const maxLine = 16 << 20

// lineReader reads lines of at most limit bytes.
type lineReader struct {
	r     *bufio.Reader
	limit int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{bufio.NewReaderSize(r, 64<<10), limit}
}

// next returns the next line without its end (\n or \r\n); the last one need not have any. A line over the limit is
// skipped whole and is a [corebot.ErrTooLarge]: reading may go on. Every other error, io.EOF first of all, is the end.
func (l *lineReader) next() (string, error) {
	var line []byte
	size := 0
	for {
		part, err := l.r.ReadSlice('\n')
		size += len(part)
		if size <= l.limit+len("\r\n") {
			line = append(line, part...)
		} else {
			line = nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (size == 0 || !errors.Is(err, io.EOF)) {
			return "", err
		}
		return l.finish(line, size)
	}
}

func (l *lineReader) finish(line []byte, size int) (string, error) {
	s := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
	if size > l.limit+len("\r\n") || len(s) > l.limit {
		return "", fmt.Errorf("%w: a line of %d bytes, the limit is %d", corebot.ErrTooLarge, size, l.limit)
	}
	return s, nil
}

// recentIDs is how many ids a [recent] remembers: more than a lane holds, so that what is forgotten is long over.
const recentIDs = 4096

// recent remembers the last ids that were added. The zero recent is empty.
type recent struct {
	ids  map[string]struct{}
	ring []string
	next int
}

func (r *recent) has(id string) bool {
	_, ok := r.ids[id]
	return ok
}

// add reports whether id is new.
func (r *recent) add(id string) bool {
	if r.has(id) {
		return false
	}
	if r.ids == nil {
		r.ids = make(map[string]struct{})
	}
	if len(r.ring) < recentIDs {
		r.ring = append(r.ring, id)
	} else {
		delete(r.ids, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % recentIDs
	}
	r.ids[id] = struct{}{}
	return true
}
