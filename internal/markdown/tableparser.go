package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// MaxTableColumns is how many columns a table may have: more never fit a terminal.
const MaxTableColumns = 64

// tableTransformer makes tables of paragraphs: a row of headings, a row of dashes with as many cells, then rows to the
// end. A row has no cells but those that are written, so that a small text never becomes a large table.
type tableTransformer struct{}

// Transform cuts p before the table that it holds, if any, and puts the table behind it.
func (tableTransformer) Transform(p *ast.Paragraph, reader text.Reader, _ parser.Context) {
	lines, source := p.Lines(), reader.Source()
	for i := 1; i < lines.Len(); i++ {
		delimiter := lines.At(i)
		if bytes.IndexByte(delimiter.Value(source), '|') < 0 {
			continue
		}
		alignments := tableAlignments(cells(delimiter, source))
		header := cells(lines.At(i-1), source)
		if len(alignments) == 0 || len(header) != len(alignments) {
			continue
		}
		table := extast.NewTable()
		table.Alignments = alignments
		table.AppendChild(table, extast.NewTableHeader(tableRow(header, alignments)))
		for j := i + 1; j < lines.Len(); j++ {
			table.AppendChild(table, tableRow(cells(lines.At(j), source), alignments))
		}
		p.Parent().InsertAfter(p.Parent(), p, table)
		cut(p, i-1, source)
		return
	}
}

// cut keeps the first n lines of p, and p itself only if there are any.
func cut(p *ast.Paragraph, n int, source []byte) {
	if n == 0 {
		p.Parent().RemoveChild(p.Parent(), p)
		return
	}
	p.Lines().SetSliced(0, n)
	last := p.Lines().At(n - 1)
	p.Lines().Set(n-1, last.TrimRightSpace(source))
}

// cell is what stands between two bars of a line.
type cell struct {
	segment text.Segment
	value   []byte
}

// cells cuts a line at its bars, but for those behind a backslash, into one cell more than there may be columns at
// most. Bars at its ends only frame it.
func cells(line text.Segment, source []byte) []cell {
	line = line.TrimLeftSpace(source)
	line = line.TrimRightSpace(source)
	value := line.Value(source)
	from, to := 0, len(value)
	if to > 0 && value[0] == '|' {
		from++
	}
	if to > from && value[to-1] == '|' && !escapedAt(value, to-1) {
		to--
	}
	var found []cell
	for from <= to {
		end := from
		for end < to && (value[end] != '|' || escapedAt(value, end) || len(found) == MaxTableColumns) {
			end++
		}
		s := text.NewSegment(line.Start+from, line.Start+end)
		s = s.TrimLeftSpace(source)
		s = s.TrimRightSpace(source)
		found = append(found, cell{s, s.Value(source)})
		from = end + 1
	}
	return found
}

func escapedAt(line []byte, i int) bool { return i > 0 && line[i-1] == '\\' }

// tableAlignments reads the row of dashes. It returns nil if it is none.
func tableAlignments(row []cell) []extast.Alignment {
	if len(row) > MaxTableColumns {
		return nil
	}
	var found []extast.Alignment
	for _, c := range row {
		left, right := bytes.HasPrefix(c.value, []byte{':'}), bytes.HasSuffix(c.value, []byte{':'})
		dashes := bytes.TrimSuffix(bytes.TrimPrefix(c.value, []byte{':'}), []byte{':'})
		if len(dashes) == 0 || len(bytes.Trim(dashes, "-")) > 0 {
			return nil
		}
		switch {
		case left && right:
			found = append(found, extast.AlignCenter)
		case right:
			found = append(found, extast.AlignRight)
		default:
			found = append(found, extast.AlignLeft)
		}
	}
	return found
}

// tableRow makes nodes of cells. Text behind the last column belongs to that column.
func tableRow(row []cell, alignments []extast.Alignment) *extast.TableRow {
	r := extast.NewTableRow(alignments)
	columns := len(alignments)
	if len(row) > columns {
		row[columns-1].segment.Stop = row[len(row)-1].segment.Stop
		row = row[:columns]
	}
	for i, c := range row {
		node := extast.NewTableCell()
		node.Alignment = alignments[i]
		if !c.segment.IsEmpty() {
			node.Lines().Append(c.segment)
		}
		r.AppendChild(r, node)
	}
	return r
}
