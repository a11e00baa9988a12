package strictjson

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Edit says what [Rewrite] changes.
type Edit struct {
	Name func(name string) (string, error) // the name of a member
	// a text; member is the name before it, or empty in an array
	Text func(member, text string) (string, error)
	Hide func(member string, value Kind) (text string, hide bool) // a text in place of a member's value; nil: none
}

// Rewrite writes a document again, compact and in its order, with its names and texts edited. Numbers stay as they are
// spelt. The rules hold for what is read and for what is written.
func Rewrite(data []byte, rules Rules, edit Edit) ([]byte, error) {
	var out bytes.Buffer
	w := &rewriter{Reader: NewReader(data, rules), edit: edit}
	w.to.Reset(&out, jsontext.AllowDuplicateNames(rules.DoubledNames), jsontext.AllowInvalidUTF8(true),
		jsontext.EscapeForJS(true))
	for first := true; first || w.Depth() > 0; first = false {
		if err := w.word(); err != nil {
			return nil, err
		}
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), w.End()
}

// rewriter copies a document word by word, without calling itself: no nesting is too deep for its stack.
type rewriter struct {
	*Reader
	to     jsontext.Encoder
	edit   Edit
	member string // the last name, until its value has been read
}

// word copies one word, or leaves a whole value out.
func (w *rewriter) word() error {
	in, n := w.tokens.StackIndex(w.Depth())
	isName := in == '{' && n%2 == 0
	if in == '{' && !isName && w.edit.Hide != nil {
		if instead, hide := w.edit.Hide(w.member, w.Kind()); hide {
			return w.hide(instead)
		}
	}
	tok, err := w.Next()
	if err != nil {
		return err
	}
	switch k := tok.Kind(); {
	case k == '"' && isName:
		w.member = tok.String()
		return w.text(w.edit.Name(w.member))
	case k == '"':
		member := w.member
		w.member = ""
		return w.text(w.edit.Text(member, tok.String()))
	default:
		w.member = ""
		return w.write(tok)
	}
}

func (w *rewriter) text(text string, err error) error {
	if err != nil {
		return err
	}
	return w.write(jsontext.String(text))
}

// hide reads a value of any depth and writes a text.
func (w *rewriter) hide(instead string) error {
	for outside, first := w.Depth(), true; first || w.Depth() > outside; first = false {
		if _, err := w.Next(); err != nil {
			return err
		}
	}
	w.member = ""
	return w.write(jsontext.String(instead))
}

func (w *rewriter) write(tok Token) error {
	err := w.to.WriteToken(tok)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return &Error{
			What: Doubled, At: w.Ahead(), Name: tok.String(),
			err: fmt.Errorf("two names become %s", short(tok.String())),
		}
	}
	return err
}
