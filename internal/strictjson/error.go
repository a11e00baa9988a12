package strictjson

import "strconv"

// These errors name the kind of mistake in a document.
type What uint8

// All that can be wrong.
const (
	Syntax        What = iota // it is no JSON
	Cut                       // it ends too early
	Trailing                  // something follows it
	Encoding                  // it is not UTF-8
	HalfCharacter             // a \u escape is half a character
	Doubled                   // an object has one name twice
	Deep                      // it is nested too deep
	Misspelt                  // a name is that of no field as it is spelt
)

// Error says what is wrong with a document, and where.
type Error struct {
	What What
	At   int    // the byte at which the word begins that cannot be taken
	Name string // the name that stands there twice, or is misspelt
	err  error
}

func (e *Error) Error() string { return e.err.Error() }

// shown is how much of a name an error shows, in bytes.
const shown = 64

// short shows a name that came from outside, on one line and in ASCII.
func short(name string) string {
	if len(name) > shown {
		return strconv.QuoteToASCII(name[:shown]) + "…"
	}
	return strconv.QuoteToASCII(name)
}
