package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// ErrUnsettled is in the error of a tool that cannot say whether the call took effect: its other side was asked and gave no answer. Unless the
// tool may repeat, the call's outcome is unknown then, and the model is told so.
var ErrUnsettled = errors.New("no answer came")

// maxDynamicArgs bounds the arguments of a dynamic tool, in bytes: they are checked against a schema that somebody else wrote.
const maxDynamicArgs = 256 << 10

// Dynamic describes a tool that is not known when Corebot is built.
type Dynamic struct {
	Name    string
	Doc     string
	Schema  json.RawMessage // of the arguments; what is taken says [NewDynamic]
	Traits  Traits
	Timeout time.Duration // of one call; zero: the box's default
	// Definition is the fingerprint of what the other side says of the tool at this moment: an approval is bound to it. Nil: nobody can tell.
	Definition func() string
	// Run gets the arguments as they came: one object, well-formed, that the schema takes.
	Run func(ctx context.Context, c Call, args json.RawMessage) (string, error)
}

// NewDynamic makes a tool of a description. It refuses what cannot be offered to a model, and a schema that is no schema of an object, larger than
// 64 KiB, nested too deeply, with a reference that leads elsewhere, or so full of references that checking arguments would never end; all of
// these are [corebot.ErrInvalid]. Invisible characters are taken out of the schema.
//
// Arguments are held to the schema before Run. One exception: where a schema contains itself, as that of a tree does, they are only held to be
// an object; the other side checks the rest.
func NewDynamic(d Dynamic) (Tool, error) {
	raw, checker, err := readSchema(d.Schema)
	if err != nil {
		return Tool{}, fmt.Errorf("%w: the schema of %s: %w", corebot.ErrInvalid, d.Name, err)
	}
	t := Tool{name: d.Name, doc: strings.TrimSpace(d.Doc), schema: raw, traits: d.Traits, timeout: d.Timeout}
	t.bind = func(args json.RawMessage) (bound, error) {
		args, err := decodeDynamic(args, checker)
		if err != nil {
			return bound{}, err
		}
		definition := ""
		if d.Definition != nil {
			definition = d.Definition()
		}
		return bound{
			definition: definition,

			target:  func(Call) policy.Target { return policy.Target{} },
			named:   func(Call) Named { return Named{} },
			trusted: func(Call) bool { return false },
			change:  func(Call) Change { return Change{} },
			run: func(ctx context.Context, c Call) (output, error) {
				text, err := d.Run(ctx, c, args)
				return output{text: text}, err
			},
		}, nil
	}
	return t, t.validate(toolNames())
}

// decodeDynamic takes no text at all for an empty object, as the decoder of typed tools does.
func decodeDynamic(args json.RawMessage, checker *jsonschema.Resolved) (json.RawMessage, error) {
	if args = bytes.TrimSpace(args); len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if len(args) > maxDynamicArgs {
		return nil, fmt.Errorf("the arguments have %d bytes, the limit is %d", len(args), maxDynamicArgs)
	}
	if err := wellFormed(args); err != nil {
		return nil, err
	}
	var loose map[string]any
	if err := json.Unmarshal(args, &loose); err != nil || loose == nil {
		return nil, errors.New("the arguments are no object")
	}
	if checker == nil {
		return args, nil
	}
	return args, checker.Validate(loose)
}
