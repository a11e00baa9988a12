package markdown

import (
	"math"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// flow is a piece of running text with its styles: a paragraph, a cell of a table. A line feed in it begins another
// line.
type flow struct {
	text []byte
	runs []run
}

// run is a piece of a flow in one style: from the end of the run before to end.
type run struct {
	end   int
	style style
}

func (f *flow) add(text []byte, s style) {
	f.text = append(f.text, text...)
	f.restyle(s)
}

func (f *flow) addString(text string, s style) {
	f.text = append(f.text, text...)
	f.restyle(s)
}

// append adds another flow with its styles.
func (f *flow) append(other *flow) {
	begin := 0
	for _, r := range other.runs {
		f.add(other.text[begin:r.end], r.style)
		begin = r.end
	}
}

// restyle gives what was added to the text its style.
func (f *flow) restyle(s style) {
	if n := len(f.runs); n > 0 && f.runs[n-1].style == s {
		f.runs[n-1].end = len(f.text)
		return
	}
	f.runs = append(f.runs, run{len(f.text), s})
}

// line is a part of a flow that is drawn as one line.
type line struct {
	from, to int
	columns  int
}

// lines breaks the flow into lines of at most width columns: at blanks, and between the ideographs of scripts that have
// none. A word that is wider is cut, unless it holds an address and keep is true.
func (f *flow) lines(width int, keep bool) []line {
	var out []line
	var now line
	empty := true
	for at := 0; ; {
		start := at
		for start < len(f.text) && f.text[start] == ' ' {
			start++
		}
		if start == len(f.text) || f.text[start] == '\n' {
			out = append(out, now)
			if start == len(f.text) {
				return out
			}
			at, now, empty = start+1, line{}, true
			continue
		}
		n, columns := word(f.text[start:], width)
		if !empty && now.columns+start-at+columns > width {
			out = append(out, now)
			empty = true
		}
		if empty {
			if columns > width {
				n, columns = f.oversized(start, start+n, width, keep)
			}
			now, at, empty = line{from: start}, start, false
		}
		now.columns += start - at + columns
		now.to = start + n
		at = now.to
	}
}

// oversized measures what a line takes of a word that is too wide for it. The word begins at from, and is known to as
// far as to.
func (f *flow) oversized(from, to, width int, keep bool) (n, columns int) {
	if keep && f.hasAddress(from, to) {
		return word(f.text[from:], math.MaxInt)
	}
	return fitting(f.text[from:to], width)
}

// columns is the width of the flow on one line.
func (f *flow) columns() int {
	widest := 0
	for _, l := range f.lines(math.MaxInt, true) {
		widest = max(widest, l.columns)
	}
	return widest
}

// hasAddress says whether a part of the text holds one.
func (f *flow) hasAddress(from, to int) bool {
	for i, begin := f.runAt(from); i < len(f.runs) && begin < to; i++ {
		if f.runs[i].style&address != 0 {
			return true
		}
		begin = f.runs[i].end
	}
	return false
}

// paint appends a line of the flow to out.
func (f *flow) paint(out []byte, l look, part line) []byte {
	for i, begin := f.runAt(part.from); i < len(f.runs) && begin < part.to; i++ {
		end := min(f.runs[i].end, part.to)
		out = l.paint(out, f.text[begin:end], f.runs[i].style)
		begin = end
	}
	return out
}

// runAt finds the run that a place in the text belongs to, and returns the place with it.
func (f *flow) runAt(at int) (run, from int) {
	return sort.Search(len(f.runs), func(i int) bool { return f.runs[i].end > at }), at
}

// word measures the first piece of text that is not broken, to its end or until it is wider than enough. A caller that
// measured a long word whole for each of its lines would need time in the square of its length. It is empty only if
// text begins with a blank or a line end.
func word(text []byte, enough int) (n, columns int) {
	together := true
	for n < len(text) && columns <= enough && text[n] != ' ' && text[n] != '\n' {
		size, wide := cluster(text[n:])
		if wide > 1 {
			r, _ := utf8.DecodeRune(text[n:])
			if !together && mayBeginLine(r) {
				break
			}
			together = strings.ContainsRune(opening, r)
		} else {
			together = false
		}
		n, columns = n+size, columns+wide
	}
	return n, columns
}

// fitting measures how much of a word fits into width columns, one character at least.
func fitting(text []byte, width int) (n, columns int) {
	for n < len(text) {
		size, wide := cluster(text[n:])
		if n > 0 && columns+wide > width {
			break
		}
		n, columns = n+size, columns+wide
	}
	return n, columns
}

// cluster measures the first character of text as a reader sees it, with all that is combined with it.
func cluster(text []byte) (size, columns int) {
	if text[0] < utf8.RuneSelf && (len(text) == 1 || text[1] < utf8.RuneSelf) {
		return 1, 1
	}
	first, columns := ansi.FirstGraphemeCluster(text, ansi.GraphemeWidth)
	return len(first), columns
}

// Text without blanks may be broken before each ideograph, but not behind an opening bracket, nor before small kana and
// marks of repetition. Closing brackets and stops are no ideographs, so they never begin a line.
const (
	opening = "（「『【〈《〔［｛"
	small   = "々ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ"
)

func mayBeginLine(r rune) bool {
	return strings.ContainsRune(opening, r) ||
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo) &&
			!strings.ContainsRune(small, r)
}
