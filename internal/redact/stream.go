package redact

import (
	"strings"
	"unicode/utf8"
)

// Stream redacts a text that comes in pieces, such as an answer that a model is making. All that it has given is
// always a beginning of what [Redactor.Text] makes of the whole text, however that is cut.
//
// It gives each character at once, unless a secret can begin before the character and end behind it. It takes the
// characters one by one through all patterns, so the time is linear in the text. It is not safe for use by several
// goroutines.
type Stream struct {
	by     *Redactor
	shapes *shapes
	exact  *literals

	held    []byte // what was not given yet
	read    int    // bytes of held that went through the patterns
	inWord  bool   // the character before held is of a word
	last    rune   // the last character that was read; -1: none
	threads []int  // instructions of the patterns that wait for the next character
	spare   []int
	begun   []begun // exact secrets that can go on with the next byte
	ended   bool    // a secret may end with the last character
	found   bool    // a secret may stand in held
}

// begun is the beginning of an exact secret.
type begun struct{ secret, bytes int }

// Stream begins a text.
func (r *Redactor) Stream() *Stream {
	s := &Stream{by: r, shapes: patterns()}
	s.Reset()
	return s
}

// Reset forgets what is held back, and begins another text.
func (s *Stream) Reset() {
	s.exact, s.held, s.read, s.inWord, s.last = s.by.literals.Load(), s.held[:0], 0, false, -1
	s.threads, s.begun, s.ended, s.found = s.threads[:0], s.begun[:0], false, false
}

// Add takes the next piece of the text and gives what can be shown now, which can be empty.
func (s *Stream) Add(piece string) string {
	fresh := len(s.held) == 0
	s.held = append(s.held, piece...)
	var out strings.Builder
	from, safe, wordAtSafe := 0, 0, s.inWord
	for s.read < len(s.held) && utf8.FullRune(s.held[s.read:]) {
		if b := s.held[s.read]; b < utf8.RuneSelf && s.idle(b) {
			s.read++
			s.last, safe, wordAtSafe = rune(b), s.read, isWord(rune(b))
			continue
		}
		char, size := utf8.DecodeRune(s.held[s.read:])
		s.step(char, s.held[s.read:s.read+size])
		s.read += size
		if len(s.threads) > 0 || len(s.begun) > 0 || s.found && !isSpace(char) {
			continue
		}
		safe, wordAtSafe = s.read, isWord(char)
		if s.found {
			out.WriteString(s.by.within(string(s.held[from:safe]), s.inWord))
			from, s.inWord, s.found = safe, wordAtSafe, false
		}
	}
	s.inWord = wordAtSafe
	if fresh && from == 0 && safe == len(s.held) {
		s.held, s.read = s.held[:0], 0
		return piece
	}
	out.Write(s.held[from:safe])
	if safe > 0 {
		s.held, s.read = append(s.held[:0], s.held[safe:]...), s.read-safe
	}
	return out.String()
}

// End gives what was held back, and begins another text.
func (s *Stream) End() string {
	rest := string(s.held)
	if s.found || len(s.threads) > 0 {
		rest = s.by.within(rest, s.inWord)
	}
	s.Reset()
	return rest
}

// idle says whether nothing is held back and no secret can begin with a character, as is so of nearly all.
func (s *Stream) idle(char byte) bool {
	return len(s.threads) == 0 && len(s.begun) == 0 && !s.found && !s.ended && len(s.exact.first[char]) == 0 &&
		len(s.shapes.ascii[behind(s.last)][char]) == 0
}

// behind is the place in the table for what begins behind a character.
func behind(char rune) int {
	if isWord(char) {
		return 1
	}
	return 0
}

// step takes a character through the patterns and the exact secrets.
//
// Text looks for the patterns where exact secrets are marks already, and a mark is no part of a word. So behind
// the end of a secret a pattern can begin as if behind a space. A pattern that a mark stands in reaches as far as the
// word does, so Add gives nothing between a secret and the next space.
func (s *Stream) step(char rune, bytes []byte) {
	edge := s.ended && isWord(s.last)
	s.ended = false
	next := s.spare[:0]
	for _, at := range s.threads {
		next = s.advance(next, at, char)
	}
	next = s.begin(next, behind(s.last), char)
	if edge {
		next = s.begin(next, 0, char)
	}
	s.threads, s.spare, s.last = next, s.threads, char
	for _, b := range bytes {
		s.stepExact(b)
	}
	s.found = s.found || s.ended
}

func (s *Stream) stepExact(b byte) {
	kept := s.begun[:0]
	for _, p := range s.begun {
		secret := s.exact.all[p.secret]
		switch {
		case secret[p.bytes] != b:
		case p.bytes+1 == len(secret):
			s.ended = true
		default:
			kept = append(kept, begun{p.secret, p.bytes + 1})
		}
	}
	for _, i := range s.exact.first[b] {
		kept = append(kept, begun{i, 1})
	}
	s.begun = kept
}

// literals are the exact secrets, by their first bytes.
type literals struct {
	all   []string
	first [256][]int
}

func newLiterals(all []string) *literals {
	l := &literals{all: all}
	for i, secret := range all {
		l.first[secret[0]] = append(l.first[secret[0]], i)
	}
	return l
}

// isWord says whether \b of a pattern takes a character for a part of a word.
func isWord(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
}

// isSpace is \s of a pattern.
func isSpace(r rune) bool { return r >= 0 && strings.ContainsRune(spaces, r) }
