package linediff

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxRow   = 400 // bytes of a line in one row; a longer line is a long one
	around   = 40  // bytes of a long line that are shown around its change; of an unchanged one, its beginning
	noNewEnd = `\ no line end at the end of the file`
)

// row is one row of a rendered diff: text of a file, not yet made safe, or a note of Corebot.
type row struct {
	op   byte // ' ', '+' or '-'; of text only
	text string
	note string
}

// Render writes a diff as rows that a person reads. It stops at the first row that would exceed limit, in bytes; left
// is how many rows are left out, notes included.
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

// run is the lines of one kind with which lines begins.
func run(lines []Line, op byte) []Line {
	n := 0
	for n < len(lines) && lines[n].Op == op {
		n++
	}
	return lines[:n]
}

// at is the text of a line; empty if there are not that many lines.
func at(lines []Line, n int) string {
	if n < len(lines) {
		return strings.TrimSuffix(lines[n].Text, "\n")
	}
	return ""
}

// context shows an unchanged line. Only the beginning of a long line is shown.
func context(l Line) []row {
	text, ended := strings.CutSuffix(l.Text, "\n")
	rest := ""
	if len(text) > maxRow {
		cut := boundary(text, around)
		text, rest = text[:cut], fmt.Sprintf(`\ %d more bytes of this line, which stays as it is`, len(text)-cut)
	}
	return ends([]row{{op: ' ', text: text}}, rest, ended)
}

// changed shows an added or removed line, in as many rows as it needs. other is the line in its place on the other
// side. Of a long line, the beginning and the end that both share are left out.
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

// ends adds the notes after a line: rest, if it is not empty, and that the file ends without a line end.
func ends(rows []row, rest string, ended bool) []row {
	if rest != "" {
		rows = append(rows, row{note: rest})
	}
	if !ended {
		rows = append(rows, row{note: noNewEnd})
	}
	return rows
}

// differs gives the part of text that differs from other, with at most around bytes on each side.
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

// boundary is the start of the character at an index of a text.
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

// shown makes rows safe. A note precedes the rows that are written with escapes.
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
