package markdown

import (
	"slices"

	extast "github.com/yuin/goldmark/extension/ast"
)

const (
	columnGap = 3 // between two columns: a bar with blanks around
	minColumn = 5 // a table whose columns would be narrower is drawn as a list
)

// table draws a table, with its columns as wide as they have to be or as fits.
func (p *page) table(n *extast.Table) {
	rows := p.rows(n)
	widths := make([]int, len(n.Alignments))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], cell.columns())
		}
	}
	room := p.width - p.taken - columnGap*(len(widths)-1)
	if !fit(widths, room) {
		p.records(rows)
		return
	}
	p.row(rows[0], widths, n.Alignments)
	p.rule(widths)
	for _, row := range rows[1:] {
		p.row(row, widths, n.Alignments)
	}
}

// rows lays out the cells; the first row has the headings.
func (p *page) rows(n *extast.Table) [][]*flow {
	var rows [][]*flow
	for r := n.FirstChild(); r != nil; r = r.NextSibling() {
		s := p.style
		if _, isHeader := r.(*extast.TableHeader); isHeader {
			s |= bold
		}
		var row []*flow
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			row = append(row, p.inline(c, s))
		}
		rows = append(rows, row)
	}
	return rows
}

// fit narrows the widest columns until all of them take no more than room columns. It returns false if that makes them
// too narrow to read.
func fit(widths []int, room int) bool {
	sorted := slices.Sorted(slices.Values(widths))
	for i, w := range sorted {
		share := room / (len(sorted) - i) // what is left, shared by the columns that are at least as wide
		if w <= share {
			room -= w
			continue
		}
		if share < minColumn {
			return false
		}
		for j := range widths {
			widths[j] = min(widths[j], share)
		}
		return true
	}
	return true
}

// row draws a row, in as many lines as its highest cell.
func (p *page) row(row []*flow, widths []int, alignments []extast.Alignment) {
	broken := make([][]line, len(row))
	height := 1
	for i, cell := range row {
		broken[i] = cell.lines(widths[i], false)
		height = max(height, len(broken[i]))
	}
	for y := range height {
		var out []byte
		for i, width := range widths {
			if i > 0 {
				out = p.look.paint(out, []byte(" │ "), p.style)
			}
			if i >= len(row) || y >= len(broken[i]) {
				out = pad(out, width)
				continue
			}
			part := broken[i][y]
			left := leftOf(width-part.columns, alignments[i])
			out = row[i].paint(pad(out, left), p.look, part)
			out = pad(out, width-part.columns-left)
		}
		p.line(out)
	}
}

// leftOf is how many of the free columns are left of the text.
func leftOf(free int, a extast.Alignment) int {
	switch a {
	case extast.AlignRight:
		return free
	case extast.AlignCenter:
		return free / 2
	default:
		return 0
	}
}

func pad(out []byte, n int) []byte {
	for range n {
		out = append(out, ' ')
	}
	return out
}

// rule draws the line below the headings.
func (p *page) rule(widths []int) {
	var dashes []byte
	for i, width := range widths {
		if i > 0 {
			dashes = append(dashes, "─┼─"...)
		}
		for range width {
			dashes = append(dashes, "─"...)
		}
	}
	p.line(p.look.paint(nil, dashes, p.style))
}

// records draws a table that is too wide row by row, each cell behind its heading.
func (p *page) records(rows [][]*flow) {
	if len(rows) == 1 {
		for _, heading := range rows[0] {
			p.flow(heading)
		}
	}
	for i, row := range rows[1:] {
		if i > 0 {
			p.blank()
		}
		for j, cell := range row {
			var f flow
			f.append(rows[0][j])
			f.addString(": ", p.style)
			f.append(cell)
			p.flow(&f)
		}
	}
}
