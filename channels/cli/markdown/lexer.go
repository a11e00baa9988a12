package markdown

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// syntax is what the lexer knows of a language: enough for comments, strings, numbers and keywords.
type syntax struct {
	names   string // by which fences call it, separated by blanks
	comment string // what begins a comment to the end of the line, separated by blanks
	open    string // of a comment of several lines; empty: there is none
	close   string
	quotes  string // each begins a string that ends on its line; \ escapes in it
	raw     string // delimiters of strings of several lines, separated by blanks
	words   string // keywords, separated by blanks
	fold    bool   // keywords are the same in upper case
}

var syntaxes = []syntax{
	{
		names: "go golang", comment: "//", open: "/*", close: "*/", quotes: `"'`, raw: "`",
		words: "break case chan const continue default defer else fallthrough for func go goto if import interface " +
			"map package range return select struct switch type var nil true false iota",
	},
	{
		names: "python py", comment: "#", quotes: `"'`, raw: `""" '''`,
		words: "and as assert async await break class continue def del elif else except finally for from global if " +
			"import in is lambda nonlocal not or pass raise return try while with yield None True False",
	},
	{
		names: "javascript js jsx typescript ts tsx", comment: "//", open: "/*", close: "*/", quotes: `"'`, raw: "`",
		words: "async await break case catch class const continue default delete do else enum export extends finally " +
			"for from function if implements import in instanceof interface let new of private public return static " +
			"super switch this throw try type typeof var void while yield null undefined true false",
	},
	{
		names: "rust rs", comment: "//", open: "/*", close: "*/", quotes: `"`,
		words: "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod " +
			"move mut pub ref return self Self static struct super trait type unsafe use where while true false",
	},
	{
		names: "c h cpp c++ cc java kotlin swift", comment: "//", open: "/*", close: "*/", quotes: `"'`,
		words: "auto bool break case catch char class const continue default do double else enum extends extern " +
			"final float for fun func goto if implements import inline int interface let long namespace new package " +
			"private protected public return short signed sizeof static struct super switch template this throw " +
			"try typedef union unsigned using val var virtual void volatile while null nullptr true false",
	},
	{
		names: "sh bash zsh shell console", comment: "#", quotes: `"'`,
		words: "case do done elif else esac exit export fi for function if in local return set then until while",
	},
	{names: "json jsonc", comment: "//", quotes: `"`, words: "true false null"},
	{names: "yaml yml", comment: "#", quotes: `"'`, words: "true false null yes no"},
	{names: "toml ini", comment: "# ;", quotes: `"'`, words: "true false"},
	{
		names: "sql", comment: "--", open: "/*", close: "*/", quotes: `"'`, fold: true,
		words: "add all alter and as asc begin between by case commit constraint create cross default delete desc " +
			"distinct drop else end exists foreign from group having if in index inner insert into is join key left " +
			"like limit not null offset on or order outer primary references right rollback select set table then " +
			"union unique update values view when where with",
	},
	{
		names: "ruby rb", comment: "#", quotes: `"'`,
		words: "alias and begin break case class def do else elsif end ensure false for if in module next nil not or " +
			"redo rescue retry return self super then true unless until when while yield",
	},
	{names: "html xml svg", open: "<!--", close: "-->", quotes: `"`},
	{names: "css", open: "/*", close: "*/", quotes: `"'`},
}

// language is a syntax that is ready for use.
type language struct {
	syntax
	comments, raws []string
	keywords       map[string]bool
}

// languages are all syntaxes by each of their names, made when a fence first asks for one.
var languages = sync.OnceValue(func() map[string]*language {
	all := map[string]*language{}
	for _, s := range syntaxes {
		l := &language{s, strings.Fields(s.comment), strings.Fields(s.raw), map[string]bool{}}
		for _, word := range strings.Fields(s.words) {
			l.keywords[word] = true
		}
		for _, name := range strings.Fields(s.names) {
			all[name] = l
		}
	}
	return all
})

// lexer gives pieces of code their styles, line by line. It looks at each byte a bounded number of times.
type lexer struct {
	*language
	out   []byte
	look  look
	base  style
	until string // what ends the comment or string of several lines that the next line begins in; empty: none
	in    style  // of that comment or string
}

// line paints one line.
func (l *lexer) line(b []byte) []byte {
	l.out = l.out[:0]
	plain := 0 // where the text that is nothing special begins
	for i := 0; i < len(b); {
		n, s := l.next(b, i)
		if s != 0 {
			l.paint(b[plain:i], 0)
			l.paint(b[i:i+n], s)
			plain = i + n
		}
		i += n
	}
	l.paint(b[plain:], 0)
	return l.out
}

func (l *lexer) paint(b []byte, s style) { l.out = l.look.paint(l.out, b, l.base|s) }

// next finds the piece that begins at a place: its length, and its style or 0.
func (l *lexer) next(b []byte, at int) (n int, s style) {
	rest := b[at:]
	if l.until != "" {
		return l.rest(rest, 0, l.in)
	}
	for _, mark := range l.comments {
		if bytes.HasPrefix(rest, []byte(mark)) && (mark != "#" || at == 0 || b[at-1] == ' ') {
			return len(rest), comment
		}
	}
	if l.open != "" && bytes.HasPrefix(rest, []byte(l.open)) {
		l.until, l.in = l.close, comment
		return l.rest(rest, len(l.open), comment)
	}
	for _, mark := range l.raws {
		if bytes.HasPrefix(rest, []byte(mark)) {
			l.until, l.in = mark, literal
			return l.rest(rest, len(mark), literal)
		}
	}
	switch c := rest[0]; {
	case strings.IndexByte(l.quotes, c) >= 0:
		return quoted(rest), literal
	case isDigit(c):
		return span(rest, func(c byte) bool { return isWord(c) || c == '.' }), number
	case isWord(c):
		n = span(rest, isWord)
		word := string(rest[:min(n, maxKeyword)])
		if l.fold {
			word = strings.ToLower(word)
		}
		if n <= maxKeyword && l.keywords[word] {
			return n, keyword
		}
		return n, 0
	}
	return 1, 0
}

// maxKeyword is longer than any keyword.
const maxKeyword = 16

// rest is the piece up to what ends it, or the whole line. The first from bytes are its beginning.
func (l *lexer) rest(b []byte, from int, s style) (int, style) {
	end := bytes.Index(b[from:], []byte(l.until))
	if end < 0 {
		return len(b), s
	}
	n := from + end + len(l.until)
	l.until = ""
	return n, s
}

// quoted is how long the string is that a line begins with.
func quoted(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case b[0]:
			return i + 1
		}
	}
	return len(b)
}

// span is how many bytes at the beginning are of a kind.
func span(b []byte, of func(byte) bool) int {
	if n := slices.IndexFunc(b, func(c byte) bool { return !of(c) }); n >= 0 {
		return n
	}
	return len(b)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWord holds for what names are made of, all that is not ASCII included.
func isWord(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}

// diffStyle is the style of a line of a diff.
func diffStyle(b []byte) style {
	switch {
	case bytes.HasPrefix(b, []byte("+++")), bytes.HasPrefix(b, []byte("---")):
		return bold
	case bytes.HasPrefix(b, []byte("@@")):
		return number
	case bytes.HasPrefix(b, []byte("+")):
		return literal
	case bytes.HasPrefix(b, []byte("-")):
		return removed
	}
	return 0
}
