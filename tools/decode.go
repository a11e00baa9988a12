package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corebot/corebot/internal/strictjson"
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
	err := strictjson.Check(raw, maxDepth, strictjson.Rules{HalfCharacters: true})
	if bad := (*strictjson.Error)(nil); errors.As(err, &bad) {
		switch bad.What {
		case strictjson.Encoding:
			return errors.New("the arguments are not valid UTF-8")
		case strictjson.Trailing:
			return errors.New("the arguments are not good JSON: something follows the object")
		case strictjson.Cut:
			err = io.ErrUnexpectedEOF
		}
	}
	if err != nil {
		return fmt.Errorf("the arguments are not good JSON: %w", err)
	}
	return nil
}
