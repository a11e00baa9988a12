package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

const (
	maxArgs  = 2 << 20 // bytes of one call's arguments
	maxDepth = 32      // arrays and objects inside one another
)

// decoder reads arguments as A says, and nothing else.
//
// encoding/json alone takes fields in any case, the last of two that have one name, and what follows the document. All three
// would let policy and tool read different things than the audit shows, so they are refused.
type decoder[A any] struct {
	schema   json.RawMessage
	resolved *jsonschema.Resolved
}

func newDecoder[A any]() (decoder[A], error) {
	r, raw, err := resolved[A]()
	if err != nil {
		return decoder[A]{}, err
	}
	return decoder[A]{schema: raw, resolved: r}, nil
}

// decode takes no text at all for an empty object: that is how some models call a tool without arguments.
func (d decoder[A]) decode(raw json.RawMessage) (args A, err error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := wellFormed(raw); err != nil {
		return args, err
	}
	var loose any
	if err := json.Unmarshal(raw, &loose); err != nil {
		return args, err
	}
	if err := d.resolved.Validate(loose); err != nil {
		return args, err
	}
	err = json.Unmarshal(raw, &args)
	return args, err
}

// wellFormed checks what a schema cannot see: size, encoding, depth, doubled fields, and that there is one document only.
func wellFormed(raw json.RawMessage) error {
	if len(raw) > maxArgs {
		return fmt.Errorf("the arguments have %d bytes, the limit is %d", len(raw), maxArgs)
	}
	if !utf8.Valid(raw) {
		return errors.New("the arguments are not valid UTF-8")
	}
	w := walker{json.NewDecoder(bytes.NewReader(raw))}
	w.d.UseNumber()
	if err := w.value(0); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("the arguments are not good JSON: %w", err)
	}
	if _, err := w.d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the arguments are not good JSON: something follows the object")
	}
	return nil
}

// walker reads a document token by token.
type walker struct{ d *json.Decoder }

func (w walker) value(depth int) error {
	tok, err := w.d.Token()
	if err != nil {
		return err
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	if depth >= maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	names := map[string]bool{}
	for w.d.More() {
		if open == '{' {
			if err := w.name(names); err != nil {
				return err
			}
		}
		if err := w.value(depth + 1); err != nil {
			return err
		}
	}
	_, err = w.d.Token()
	return err
}

func (w walker) name(seen map[string]bool) error {
	tok, err := w.d.Token()
	if err != nil {
		return err
	}
	name, _ := tok.(string)
	if seen[name] {
		return fmt.Errorf("the field %q stands there twice", name)
	}
	seen[name] = true
	return nil
}
