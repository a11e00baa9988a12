package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/lazy"
	"github.com/corebot/corebot/internal/sorted"
	"github.com/corebot/corebot/policy"
)

// Registry has the tools by name: its own, with which it was made, and guests, which come and go while Corebot runs. It
// is safe for use by several goroutines. A caller that needs the same tools all the time takes [Registry.Frozen].
type Registry struct {
	own []Tool
	now atomic.Pointer[toolset]
}

// toolset is an immutable set of tools.
type toolset struct {
	byName  map[string]Tool
	encoded map[string]string // names by their encoded form, which models see; empty if several names have that form
	sorted  []Tool
}

// toolNames matches the names that a tool can have. It is compiled once, because that is slow.
var toolNames = lazy.Regexp(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64})*$`)

// NewRegistry makes a registry with its own tools. Two tools of one name, and a tool that cannot be offered to a model,
// are a [corebot.ErrInvalid].
func NewRegistry(all ...Tool) (*Registry, error) {
	r := &Registry{own: slices.Clone(all)}
	return r, r.Replace()
}

// Replace puts new guests in the place of the old ones; the registry's own tools stay. The change is atomic: if one
// tool is refused, as by [NewRegistry], nothing has changed.
func (r *Registry) Replace(guests ...Tool) error {
	all := slices.Concat(r.own, guests)
	names, next := toolNames(), &toolset{
		byName:  make(map[string]Tool, len(all)),
		encoded: make(map[string]string, len(all)), sorted: all,
	}
	for _, t := range all {
		if err := t.validate(names); err != nil {
			return err
		}
		if _, ok := next.byName[t.name]; ok {
			return fmt.Errorf("%w: there are two tools called %s", corebot.ErrInvalid, t.name)
		}
		next.byName[t.name] = t
		next.encode(t.name)
	}
	sorted.By(next.sorted, func(a, b Tool) int { return cmp.Compare(a.name, b.name) })
	r.now.Store(next)
	return nil
}

// Frozen is the registry as it is now: later changes do not reach it.
func (r *Registry) Frozen() *Registry {
	f := &Registry{own: r.own}
	f.now.Store(r.now.Load())
	return f
}

// find gives a tool by its name or by its encoded name. A model that calls a tool which it was not offered uses the
// encoded name.
func (r *Registry) find(name string) (Tool, bool) {
	now := r.now.Load()
	if t, ok := now.byName[name]; ok {
		return t, true
	}
	t, ok := now.byName[now.encoded[name]]
	return t, ok
}

// Tool gives a tool by its name.
func (r *Registry) Tool(name string) (Tool, bool) {
	t, ok := r.now.Load().byName[name]
	return t, ok
}

// Has says whether there is a tool by that name now.
func (r *Registry) Has(name string) bool {
	_, ok := r.now.Load().byName[name]
	return ok
}

// encode stores the encoded name of a tool. An encoded name of two tools finds neither.
func (s *toolset) encode(name string) {
	encoded := llm.EncodeName(name)
	if _, taken := s.encoded[encoded]; taken {
		name = ""
	}
	s.encoded[encoded] = name
}

// Offer lists the tools that a model may be shown, sorted by name. For one set of tools and one filter it is the same
// byte for byte, so that a provider's prompt cache holds. The schemas are the registry's own: nobody may change them.
func (r *Registry) Offer(visible func(Tool) bool) []llm.Tool {
	sorted := r.now.Load().sorted
	offered := make([]llm.Tool, 0, len(sorted))
	for _, t := range sorted {
		if visible(t) {
			offered = append(offered, t.Offered())
		}
	}
	return offered
}

// Frozen is the box with the tools that there are now: a turn keeps what it began with.
func (b *Box) Frozen() *Box {
	frozen := *b
	frozen.registry = b.registry.Frozen()
	return &frozen
}

// ErrUnsettled is in the error of a tool that cannot say whether the call took effect: its other side was asked and
// gave no answer. Unless the tool may repeat, the call's outcome is unknown then, and the model is told so.
var ErrUnsettled = errors.New("no answer came")

// maxDynamicArgs bounds the arguments of a dynamic tool, in bytes: they are checked against a schema that somebody else
// wrote.
const maxDynamicArgs = 256 << 10

// Dynamic describes a tool that is not known when Corebot is built.
type Dynamic struct {
	Name    string
	Doc     string
	Schema  json.RawMessage // of the arguments: [NewDynamic] says which are refused
	Traits  Traits
	Timeout time.Duration // of one call; zero: the box's default
	// Definition is the fingerprint of what the other side says of the tool at this moment: an approval is bound to it.
	// Nil: nobody can tell.
	Definition func() string
	// Made is the fingerprint that Definition gave when the tool was made. A tool with another definition counts as
	// reading nothing, whatever its traits.
	Made string
	// SaysReads: the other side says that the tool only reads. People are told so; it lets no call run.
	SaysReads bool
	// GoesTo gives all addresses to which a call of a tool with the trait Egress carries data. Nil: they are unknown.
	GoesTo func(args json.RawMessage) []string
	// Run gets the arguments as the model wrote them: one well-formed object that the schema takes. No arguments at all
	// become {}.
	Run func(ctx context.Context, c Call, args json.RawMessage) (string, error)
}

// NewDynamic makes a tool of a description. It refuses a tool that cannot be offered to a model. It refuses a schema
// that does not describe an object, or is larger than 64 KiB, nested too deeply, or has a reference that leads
// elsewhere. It refuses a schema with so many references that checking arguments would never end. Each refusal is
// [corebot.ErrInvalid]. Invisible characters are taken out of the schema.
//
// Arguments are held to the schema before Run. One exception: where a schema contains itself, as that of a tree does,
// they are only held to be an object; the other side checks the rest.
func NewDynamic(d Dynamic) (Tool, error) {
	raw, checker, err := readSchema(d.Schema)
	if err != nil {
		return Tool{}, fmt.Errorf("%w: the schema of %s: %w", corebot.ErrInvalid, d.Name, err)
	}
	t := Tool{name: d.Name, doc: strings.TrimSpace(d.Doc), schema: raw, traits: d.Traits, timeout: d.Timeout}
	t.saysReads = d.SaysReads
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
			definition: definition, changed: d.Made != definition,

			target:  func(Call) policy.Target { return policy.Target{} },
			named:   func(Call) Named { return Named{} },
			trusted: func(Call) bool { return false },
			change:  func(Call) Change { return Change{} },
			runs:    func(Call) []string { return nil },
			able:    func(Call) error { return nil },
			words:   func(Call) []string { return nil },

			contained: func(Call) bool { return false },
			goes: func(Call) []string {
				if d.GoesTo == nil {
					return nil
				}
				return d.GoesTo(args)
			},
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
