package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Rules are what a document may have that this package refuses otherwise.
type Rules struct {
	HalfCharacters bool // a \u escape of half a character; it is read as U+FFFD
	BadUTF8        bool // bytes that are not UTF-8, and half characters; both are read as U+FFFD
	DoubledNames   bool // an object that has one name twice
}

// Token is one word of a document. It is valid until the next one is read.
type Token = jsontext.Token

// Kind says what a token or a value is: { } [ ] " 0 t f n, or zero where none can be read.
type Kind = jsontext.Kind

// Reader reads one document, word by word. Its errors are [*Error], and the document ends with the first of them.
type Reader struct {
	words jsontext.Decoder
	data  []byte
	bad   error // found before the first word
}

// NewReader reads data, which must not change until the document has been read.
func NewReader(data []byte, rules Rules) *Reader {
	r := &Reader{data: data}
	if !rules.BadUTF8 && !utf8.Valid(data) {
		r.bad = &Error{What: Encoding, At: invalidUTF8(data), err: errors.New("it is not valid UTF-8")}
	}
	r.words.Reset(bytes.NewBuffer(data),
		jsontext.AllowInvalidUTF8(rules.BadUTF8 || rules.HalfCharacters),
		jsontext.AllowDuplicateNames(rules.DoubledNames))
	return r
}

// invalidUTF8 is where the first byte stands that is not UTF-8.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}

// Kind is the kind of the next word.
func (r *Reader) Kind() Kind {
	if r.bad != nil {
		return 0
	}
	return r.words.PeekKind()
}

// More says whether the array or object that is open goes on. It does not where nothing good follows: Next then says
// why.
func (r *Reader) More() bool {
	k := r.Kind()
	return k != 0 && k != '}' && k != ']'
}

// Ahead is where the next word begins.
func (r *Reader) Ahead() int {
	at := int(r.words.InputOffset())
	for at < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[at]) >= 0 {
		at++
	}
	return at
}

// Depth is how many arrays and objects are open.
func (r *Reader) Depth() int { return r.words.StackDepth() }

// Next reads a word.
func (r *Reader) Next() (Token, error) {
	if r.bad != nil {
		return Token{}, r.bad
	}
	tok, err := r.words.ReadToken()
	if err != nil {
		return Token{}, r.explain(err)
	}
	return tok, nil
}

// Value reads a whole value, in which at most levels arrays and objects stand inside one another. It is a part of the
// data.
func (r *Reader) Value(levels int) (json.RawMessage, error) {
	begin, outside := r.Ahead(), r.Depth()
	for {
		at := r.Ahead()
		if _, err := r.Next(); err != nil {
			return nil, err
		}
		switch depth := r.Depth() - outside; {
		case depth > levels:
			return nil, &Error{What: Deep, At: at, err: fmt.Errorf("it is nested deeper than %d", levels)}
		case depth < 0:
			return nil, &Error{What: Syntax, At: at, err: errors.New("a value is missing")}
		case depth == 0:
			return r.data[begin:r.words.InputOffset()], nil
		}
	}
}

// Members reads an object; member reads the value that follows a name.
func (r *Reader) Members(member func(name string) error) error {
	if _, err := r.Next(); err != nil {
		return err
	}
	for r.More() {
		name, err := r.Next()
		if err == nil {
			err = member(name.String())
		}
		if err != nil {
			return err
		}
	}
	_, err := r.Next()
	return err
}

// End is an error unless the document is over.
func (r *Reader) End() error {
	at := r.Ahead()
	if _, err := r.words.ReadToken(); !errors.Is(err, io.EOF) {
		return &Error{What: Trailing, At: at, err: errors.New("something follows the document")}
	}
	return nil
}

// Check is an error unless data is one value, in which at most levels arrays and objects stand inside one another.
func Check(data []byte, levels int, rules Rules) error {
	r := NewReader(data, rules)
	if _, err := r.Value(levels); err != nil {
		return err
	}
	return r.End()
}

// explain says what the library's error means.
func (r *Reader) explain(err error) error {
	e := &Error{What: Syntax, At: r.Ahead(), err: err}
	var bad *jsontext.SyntacticError
	found := errors.As(err, &bad)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.What, e.At, e.err = Cut, len(r.data), errors.New("it ends in the middle")
	case !found:
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.What, e.Name = Doubled, bad.JSONPointer.LastToken()
		e.err = fmt.Errorf("the field %s stands there twice", short(e.Name))
	case halfCharacter(r.data[min(int(bad.ByteOffset), len(r.data)):]):
		e.What, e.err = HalfCharacter,
			errors.New(`it has half a character: a \u escape of a surrogate without its other half`)
	case bad.Err != nil:
		e.err = bad.Err // without the library's name and its offset
	}
	return e
}

// halfCharacter says whether text begins with a \u escape of a surrogate.
func halfCharacter(text []byte) bool {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return err == nil && utf16.IsSurrogate(rune(unit))
}
