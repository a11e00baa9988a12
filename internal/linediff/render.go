package linediff

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxRow   = 400 // bytes of a line that are shown in one row
	around   = 40  // bytes of a long line that are shown around what has changed in it
	noNewEnd = `\ no line end at the end of the file`
)

// row is one row of a rendered diff. Text is of a file, and not yet made safe; a note is Corebot's own.
type row struct {
	op   byte
	text string
	note string
}

// Render is a diff as rows that a person reads, at most limit bytes of whole rows; left is how many rows are left out.
func Render(hunks []Hunk, limit int) (text string, left int) {
	var b strings.Builder
	for _, h := range hunks {
		for _, line := range shown(rowsOf(h)) {
			if left > 0 || b.Len()+len(line)+1 > limit {
				left++
				continue
			}
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String(), left
}

// rowsOf lays a hunk out.
func rowsOf(h Hunk) []row {
	old, new := 0, 0
	for _, l := range h.Lines {
		if l.Op != '+' {
			old++
		}
		if l.Op != '-' {
			new++
		}
	}
	rows := []row{{note: fmt.Sprintf("@@ -%d,%d +%d,%d @@", h.Old, old, h.New, new)}}
	for i := 0; i < len(h.Lines); {
		if h.Lines[i].Op == ' ' {
			rows = append(rows, context(h.Lines[i])...)
			i++
			continue
		}
		removed := run(h.Lines[i:], '-')
		added := run(h.Lines[i+len(removed):], '+')
		for n, l := range removed {
			rows = append(rows, changed(l, at(added, n))...)
		}
		for n, l := range added {
			rows = append(rows, changed(l, at(removed, n))...)
		}
		i += len(removed) + len(added)
	}
	return rows
}

// run is how far lines of one kind go.
func run(lines []Line, op byte) []Line {
	n := 0
	for n < len(lines) && lines[n].Op == op {
		n++
	}
	return lines[:n]
}

func at(lines []Line, n int) string {
	if n < len(lines) {
		return strings.TrimSuffix(lines[n].Text, "\n")
	}
	return ""
}

// context shows a line that stays. The rest of a long one is left out.
func context(l Line) []row {
	text, ended := strings.CutSuffix(l.Text, "\n")
	rest := ""
	if len(text) > maxRow {
		cut := boundary(text, around)
		text, rest = text[:cut], fmt.Sprintf(`\ %d more bytes of this line, which stays as it is`, len(text)-cut)
	}
	return ends([]row{{op: ' ', text: text}}, rest, ended)
}

// changed shows a line that comes or goes, whole, in rows of a bounded length. Text that a long line shares with the
// line in its place is left out.
func changed(l Line, other string) []row {
	text, ended := strings.CutSuffix(l.Text, "\n")
	var rows []row
	rest := ""
	if len(text) > maxRow {
		from, to := differs(text, other)
		if from > 0 {
			rows = append(rows,
				row{note: fmt.Sprintf(
					`\ %d bytes at the beginning of the next line are the same in the old and the new one`, from)})
		}
		if to < len(text) {
			rest = fmt.Sprintf(`\ %d bytes at the end of this line are the same in the old and the new one`,
				len(text)-to)
		}
		text = text[from:to]
	}
	pieces := wrap(text)
	if len(pieces) > 1 {
		rows = append(rows, row{note: fmt.Sprintf(`\ the next %d rows are one line of %d bytes`, len(pieces),
			len(l.Text))})
	}
	for _, piece := range pieces {
		rows = append(rows, row{op: l.Op, text: piece})
	}
	return ends(rows, rest, ended)
}

// ends adds what is to be said behind a line.
func ends(rows []row, rest string, ended bool) []row {
	if rest != "" {
		rows = append(rows, row{note: rest})
	}
	if !ended {
		rows = append(rows, row{note: noNewEnd})
	}
	return rows
}

// differs gives the part of a line in which it is another than the line in its place, with a little around it.
func differs(text, other string) (from, to int) {
	for from < min(len(text), len(other)) && text[from] == other[from] {
		from++
	}
	to = len(text)
	for n := len(other); to > from && n > from && text[to-1] == other[n-1]; n-- {
		to--
	}
	if from = from - around; from < 0 {
		from = 0
	}
	return boundary(text, from), boundary(text, min(len(text), to+around))
}

// boundary is the place of a whole character at or before an index.
func boundary(text string, i int) int {
	for n := 0; n < utf8.UTFMax && i > 0 && i < len(text) && !utf8.RuneStart(text[i]); n++ {
		i--
	}
	return i
}

// wrap cuts a line into rows.
func wrap(text string) (pieces []string) {
	for len(text) > maxRow {
		cut := boundary(text, maxRow)
		pieces, text = append(pieces, text[:cut]), text[cut:]
	}
	return append(pieces, text)
}

// shown makes rows safe, and says before those that need it that they are written with escapes.
func shown(rows []row) (lines []string) {
	for i := 0; i < len(rows); {
		r := rows[i]
		if r.note != "" {
			lines = append(lines, r.note)
			i++
			continue
		}
		n := i
		for n < len(rows) && rows[n].note == "" && plain(rows[n].text) == plain(r.text) {
			n++
		}
		if !plain(r.text) {
			lines = append(lines, fmt.Sprintf(`\ written with escapes: the next %d rows, with \\ for \`, n-i))
		}
		for ; i < n; i++ {
			lines = append(lines, string(rows[i].op)+safe(rows[i].text))
		}
	}
	return lines
}
