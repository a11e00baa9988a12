package redact

import (
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
)

// shapes are the patterns of all rules as one automaton. It tells after each character whether some secret can have
// begun and not ended: package regexp only tells of a match.
type shapes struct {
	prog  *syntax.Prog
	reach [][]int       // of each instruction: those that wait for a character and are reached without one
	ascii [2][128][]int // what the first character of a secret leads to, behind a character of a word or another
	other []int         // the instructions that a secret can begin with and that take characters beyond ASCII
}

var patterns = sync.OnceValue(func() *shapes {
	rules := builtIn()
	all := make([]string, len(rules))
	for i, r := range rules {
		all[i] = "(?:" + r.Regex + ")"
	}
	return newShapes(strings.Join(all, "|"))
})

// newShapes makes the automaton of a pattern that compiles.
func newShapes(pattern string) *shapes {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil { // a test reads the rules
		panic(err)
	}
	s := &shapes{}
	if s.prog, err = syntax.Compile(parsed.Simplify()); err != nil {
		panic(err)
	}
	s.reach = make([][]int, len(s.prog.Inst))
	for i := range s.prog.Inst {
		s.reach[i] = s.closure(nil, map[int]bool{}, i)
	}
	var look Stream
	for word, before := range []rune{' ', 'a'} {
		look.shapes, look.last = s, before
		for char := range rune(128) {
			for _, at := range s.reach[s.prog.Start] {
				s.ascii[word][char] = look.advance(s.ascii[word][char], at, char)
			}
		}
	}
	for _, at := range s.reach[s.prog.Start] {
		if s.takesOther(at) {
			s.other = append(s.other, at)
		}
	}
	return s
}

// matched stands in a list of instructions for the end of a match.
const matched = -1

// closure adds the instructions that are reached from one without a character. The next character decides
// what depends on the characters around a place.
func (s *shapes) closure(to []int, seen map[int]bool, at int) []int {
	if seen[at] {
		return to
	}
	seen[at] = true
	switch i := &s.prog.Inst[at]; i.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		return s.closure(s.closure(to, seen, int(i.Out)), seen, int(i.Arg))
	case syntax.InstCapture, syntax.InstNop:
		return s.closure(to, seen, int(i.Out))
	case syntax.InstMatch:
		return append(to, matched)
	case syntax.InstFail:
		return to
	}
	return append(to, at)
}

// takesOther says whether an instruction, or one behind a look at the characters around, takes characters beyond ASCII.
func (s *shapes) takesOther(at int) bool {
	if at == matched {
		return false
	}
	i := &s.prog.Inst[at]
	if i.Op == syntax.InstEmptyWidth {
		return slices.ContainsFunc(s.reach[i.Out], s.takesOther)
	}
	return i.Op == syntax.InstRuneAny || i.Op == syntax.InstRuneAnyNotNL || i.Rune[len(i.Rune)-1] > 127 ||
		i.MatchRune('\u017F') || i.MatchRune('\u212A') // they are s and k to a pattern that ignores case
}

// advance adds to a list where an instruction leads with a character.
func (s *Stream) advance(to []int, at int, char rune) []int {
	i := &s.shapes.prog.Inst[at]
	if i.Op == syntax.InstEmptyWidth {
		if syntax.EmptyOp(i.Arg)&^syntax.EmptyOpContext(s.last, char) != 0 {
			return to
		}
		for _, behind := range s.shapes.reach[i.Out] {
			if behind == matched {
				s.ended = true
			} else {
				to = s.advance(to, behind, char)
			}
		}
		return to
	}
	if !i.MatchRune(char) {
		return to
	}
	return s.add(to, s.shapes.reach[i.Out])
}

func (s *Stream) add(to, reached []int) []int {
	for _, at := range reached {
		if at == matched {
			s.ended = true
		} else if !slices.Contains(to, at) {
			to = append(to, at)
		}
	}
	return to
}

// begin adds where secrets lead that begin with a character, at a place of [behind].
func (s *Stream) begin(to []int, behind int, char rune) []int {
	if char < 128 {
		return s.add(to, s.shapes.ascii[behind][char])
	}
	for _, at := range s.shapes.other {
		to = s.advance(to, at, char)
	}
	return to
}
