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

// Rules permit things that the package refuses by default. The zero value permits nothing.
type Rules struct {
	HalfCharacters bool // a \u escape of one surrogate without the other; it is read as U+FFFD
	BadUTF8        bool // bytes that are not UTF-8, and half characters; both are read as U+FFFD
	DoubledNames   bool // an object that has one name twice
}

// Token is one token of a document. It is valid until the next token is read.
type Token = jsontext.Token

// Kind says what a token or a value is: one of the characters { } [ ] " t f n, or the character 0 for any number. It is
// zero if no token can be read.
type Kind = jsontext.Kind

// Reader reads one document, token by token. Its errors are [*Error], but for those of the functions that a caller
// passes. A reader that has returned an error must not be used any more.
type Reader struct {
	tokens jsontext.Decoder
	data   []byte
	bad    error // found before the first token
}

// NewReader reads data, which must not change until the document has been read.
func NewReader(data []byte, rules Rules) *Reader {
	r := &Reader{data: data}
	if !rules.BadUTF8 && !utf8.Valid(data) {
		r.bad = &Error{What: Encoding, At: invalidUTF8(data), err: errors.New("it is not valid UTF-8")}
	}
	r.tokens.Reset(bytes.NewBuffer(data),
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

// Kind is the kind of the next token.
func (r *Reader) Kind() Kind {
	if r.bad != nil {
		return 0
	}
	return r.tokens.PeekKind()
}

// More says whether the open array or object has another element. It is also false at an error and at the end of the
// document; [Reader.Next] then returns the error.
func (r *Reader) More() bool {
	k := r.Kind()
	return k != 0 && k != '}' && k != ']'
}

// Ahead is the offset at which the next token begins.
func (r *Reader) Ahead() int {
	at := int(r.tokens.InputOffset())
	for at < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[at]) >= 0 {
		at++
	}
	return at
}

// Depth is how many arrays and objects are open.
func (r *Reader) Depth() int { return r.tokens.StackDepth() }

// Next reads a token.
func (r *Reader) Next() (Token, error) {
	if r.bad != nil {
		return Token{}, r.bad
	}
	tok, err := r.tokens.ReadToken()
	if err != nil {
		return Token{}, r.explain(err)
	}
	return tok, nil
}

// Value reads a whole value. Arrays and objects are nested at most as deep as levels; a number has depth 0. The result
// shares memory with the data of the reader: a caller must not change it.
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
			return r.data[begin:r.tokens.InputOffset()], nil
		}
	}
}

// Text reads a text, the next value of the document. The bytes are those of the document, unless the text has escapes:
// a long text without any is not copied.
func (r *Reader) Text() ([]byte, error) {
	at := r.Ahead()
	token, err := r.Next()
	if err != nil {
		return nil, err
	}
	raw := r.data[min(at, len(r.data)):r.tokens.InputOffset()]
	if len(raw) < 2 || raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return []byte(token.String()), nil
	}
	return raw[1 : len(raw)-1], nil
}

// Members reads an object, the next value of the document. The function member must read exactly one value, that of the
// name.
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

// End returns an error if anything but white space follows.
func (r *Reader) End() error {
	at := r.Ahead()
	if _, err := r.tokens.ReadToken(); !errors.Is(err, io.EOF) {
		return &Error{What: Trailing, At: at, err: errors.New("something follows the document")}
	}
	return nil
}

// Check returns an error unless data is one value with arrays and objects nested at most as deep as levels.
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
