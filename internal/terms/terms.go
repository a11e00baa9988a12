package terms

import (
	"iter"
	"unicode"

	"github.com/corebot/corebot/internal/runes"
)

// Term is one term of a text.
type Term struct {
	Text       string // folded
	Start, End int    // where it stands, in bytes
	kind       kind
}

// kind says what a term was made of.
type kind uint8

const (
	word  kind = iota // of a script with spaces
	pair              // two neighbouring characters of a script without
	last              // the last character of such a run, behind the pair that ends with it
	alone             // the only character of such a run
	symbol
)

// class is what a rune does to the run that it stands in.
type class uint8

const (
	between  class = iota // ends it
	letter                // is a part of a word
	dense                 // is a part of a run without spaces
	attached              // belongs to what stands before it
	sign                  // stands for itself
)

func classOf(r rune) class {
	switch {
	case isASCIIWord(r):
		return letter
	case r < 0x80:
		return between
	case unicode.Is(unicode.M, r), unicode.Is(unicode.Cf, r), r == 'ﾞ', r == 'ﾟ', skinTone(r):
		return attached
	case r == 'ー', r == 'ｰ', unicode.In(r, unicode.L, unicode.Nl) && withoutSpaces(r):
		return dense
	case unicode.In(r, unicode.L, unicode.N):
		return letter
	case unicode.In(r, unicode.So, unicode.Sc):
		return sign
	}
	return between
}

// withoutSpaces are the scripts in which words are not told by spaces, and Hangul.
func withoutSpaces(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// All are the terms of a text, in order.
func All(text string) iter.Seq[Term] {
	return func(yield func(Term) bool) {
		c := cutter{text: text, yield: yield}
		for i, r := range text {
			if !c.add(i, classOf(r)) {
				return
			}
		}
		c.end(len(text))
	}
}

// cutter holds the unit that is being read (a word, or a character with its marks) and the one before it in the run.
type cutter struct {
	text    string
	yield   func(Term) bool
	class   class // of the unit; between if there is none
	start   int
	before  Term // of a run without spaces: its unit before this one
	hasPrev bool
	stopped bool
}

// add takes the next rune and says whether more are wanted.
func (c *cutter) add(at int, next class) bool {
	switch {
	case next == attached, next == letter && c.class == letter:
		return true
	case next == dense && c.class == dense:
		c.unit(at)
	default:
		c.end(at)
	}
	c.class, c.start = next, at
	return !c.stopped
}

// unit ends the unit that is being read; its run may go on.
func (c *cutter) unit(end int) {
	u := Term{Text: fold(c.text[c.start:end]), Start: c.start, End: end}
	switch {
	case u.Text == "" || c.class == between:
		return
	case c.class == letter:
		u.kind = word
	case c.class == sign:
		u.kind = symbol
	case c.hasPrev:
		c.emit(Term{Text: runes.Head(c.before.Text+u.Text, maxTerm), Start: c.before.Start, End: end, kind: pair})
		u.kind = last
	default:
		u.kind = alone
	}
	if c.class == dense {
		c.before, c.hasPrev = u, true
		return
	}
	c.emit(u)
}

// end ends the unit and its run.
func (c *cutter) end(at int) {
	c.unit(at)
	if c.hasPrev {
		c.emit(c.before)
	}
	c.hasPrev, c.class = false, between
}

func (c *cutter) emit(t Term) {
	if !c.stopped {
		c.stopped = !c.yield(t)
	}
}
