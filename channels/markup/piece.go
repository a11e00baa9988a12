package markup

import (
	"strings"
	"unicode/utf8"
)

// Piece is the part of the document that begins at a place of the source. It is at most limit large, as size measures
// text. The next piece begins at to. At the end of the source there is none. The limit is at least 256: a
// heading of a table, or the marks of nested lists, stay in one piece.
//
// A cut is at the last paragraph, line, sentence or word that fits, unless that would make too small a piece.
func (d Document) Piece(from, limit int, size func(string) int) (spans []Span, to int) {
	for {
		rest := d.from(from)
		n, whole := fits(rest, limit, size)
		if whole {
			return trimmed(rest, n), len(d.source)
		}
		n = cut(rest, n)
		to = max(d.behind(rest, n), min(from+1, len(d.source)))
		if spans = trimmed(rest, n); len(spans) > 0 || to == len(d.source) {
			return spans, to
		}
		from = to
	}
}

// Line is like Piece, and ends where the line of the text ends, where the source has a place of its own there.
func (d Document) Line(from, limit int, size func(string) int) (spans []Span, to int) {
	rest := d.from(from)
	n, _ := fits(rest, limit, size)
	text := head(rest, n)
	for at := len(text) - len(strings.TrimLeft(text, " \n")); at < n; at++ {
		if text[at] == '\n' && allowed(rest, at) {
			return trimmed(rest, at), max(d.behind(rest, at), min(from+1, len(d.source)))
		}
	}
	return d.Piece(from, limit, size)
}

// from are the spans behind a place.
func (d Document) from(place int) []placed {
	for i, s := range d.spans {
		switch {
		case s.at >= place:
			return d.spans[i:]
		case s.exact && s.at+len(s.Text) > place:
			rest := append([]placed{s}, d.spans[i+1:]...)
			rest[0].Text, rest[0].at = s.Text[place-s.at:], place
			return rest
		}
	}
	return nil
}

// fits is how many bytes of the text are within the limit. whole says that these are all.
func fits(spans []placed, limit int, size func(string) int) (n int, whole bool) {
	room := limit
	for _, s := range spans {
		if used := bounded(s.Text, room, size); used < len(s.Text) {
			return n + used, false
		}
		room -= size(s.Text)
		n += len(s.Text)
	}
	return n, true
}

// bounded is how many bytes of a text have room, whole characters. It measures no more of a long text than can have.
func bounded(text string, room int, size func(string) int) int {
	n := 0
	for n < len(text) {
		_, width := utf8.DecodeRuneInString(text[n:])
		need := size(text[n : n+width])
		if need > room {
			return n
		}
		room -= need
		n += width
	}
	return n
}

// cut is where a piece ends whose text has at most n bytes. A boundary in the first half would make too small a piece.
// A place in the middle of what the source does not have cannot be told to the next piece.
func cut(spans []placed, n int) int {
	text := head(spans, n)
	for _, boundary := range []string{"\n\n", "\n", ". ", " "} {
		for end := len(text); ; {
			i := strings.LastIndex(text[:end], boundary)
			if i < n/2 {
				break
			}
			for _, at := range []int{i + len(boundary), i} {
				if at > 0 && allowed(spans, at) {
					return at
				}
			}
			end = i + len(boundary) - 1
		}
	}
	for i := n; i > 0; i-- {
		if allowed(spans, i) {
			return i
		}
	}
	_, width := utf8.DecodeRuneInString(head(spans, utf8.UTFMax))
	return max(n, width)
}

// head is the beginning of the text.
func head(spans []placed, n int) string {
	var b strings.Builder
	for _, s := range spans {
		if b.Len() >= n {
			break
		}
		b.WriteString(s.Text[:min(len(s.Text), n-b.Len())])
	}
	return b.String()
}

// allowed says whether a piece can end behind n bytes: there the source has a place of its own.
func allowed(spans []placed, n int) bool {
	for i, s := range spans {
		if n < len(s.Text) {
			return s.exact && utf8.RuneStart(s.Text[n])
		}
		if n -= len(s.Text); n == 0 {
			return i+1 < len(spans) && spans[i+1].at > s.at
		}
	}
	return false
}

// behind is the place in the source behind n bytes of the text and the white space that follows. Where the text ends in
// the middle of what only stands for a place, it is the next place.
func (d Document) behind(spans []placed, n int) int {
	past := -1
	for _, s := range spans {
		if n >= len(s.Text) {
			n -= len(s.Text)
			past = s.at
			continue
		}
		left := strings.TrimLeft(s.Text[n:], s.space())
		switch {
		case s.exact && left != "":
			return s.at + len(s.Text) - len(left)
		case left != "" && n == 0 && s.at > past:
			return s.at
		}
		n, past = 0, max(past, s.at)
	}
	return len(d.source)
}

// space is the white space that can be left out between two pieces. Lines of code keep their indentation.
func (p placed) space() string {
	if p.Block != 0 {
		return "\n"
	}
	return " \n"
}

// trimmed are the first n bytes of the text without white space at either end.
func trimmed(spans []placed, n int) (kept []Span) {
	for _, s := range spans {
		if n <= 0 {
			break
		}
		s.Text = s.Text[:min(len(s.Text), n)]
		n -= len(s.Text)
		if len(kept) == 0 {
			s.Text = strings.TrimLeft(s.Text, s.space())
		}
		if s.Text != "" {
			kept = append(kept, s.Span)
		}
	}
	for len(kept) > 0 {
		last := &kept[len(kept)-1]
		if last.Text = strings.TrimRight(last.Text, " \n"); last.Text != "" {
			return kept
		}
		kept = kept[:len(kept)-1]
	}
	return nil
}

func blank(spans []placed) bool {
	for _, s := range spans {
		if strings.TrimSpace(s.Text) != "" {
			return false
		}
	}
	return true
}
