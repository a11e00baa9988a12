// Package tools is how the agent acts: the tools, their registry, and the one path that every call takes.
//
// Guarantees of [Box.Call]:
//
//   - Before a tool runs, its arguments are decoded strictly, the role is read, and policy is asked. A tool never
//     learns a role to decide on. Unknown tools, bad arguments and denials are results for the model, never errors.
//   - A call with effects has its intent stored before it runs. If a crash left an intent without an outcome, the call
//     runs again only if it may repeat. Otherwise its outcome is unknown, and the model is told so.
//   - A call that not everyone may make runs only if its decision is on disk, each time that it runs.
//   - A call that policy keeps for an approval runs only with an approval of exactly this call: see approval.go.
//   - Every ended call has one audit row with redacted arguments.
//   - Output is bounded, and has no invisible characters and no secrets that redact knows, before anyone sees it.
//   - A panic or a hanging tool ends the call, not the turn.
//
// Limit: a tool that ignores the end of its context is left behind after a grace time; its goroutine ends when the tool
// does.
package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/policy"
)

// Traits say what running a tool means. A tool has at least one of the first four.
type Traits uint16

const (
	ReadOnly   Traits = 1 << iota // changes nothing: needs no intent, and runs again after a crash
	Idempotent                    // twice with the same arguments is as once: runs again after a crash
	SideEffect                    // neither: begun and not ended, it is unknown
	// changes only Corebot's own database, by an effect that is committed with its outcome: see [NewOwn]
	OwnData
	Privileged // only admins should have it
	// what it returns may have been written by others than the operator: whoever reads it is tainted
	Outside
	// its description and schema were written by others, and the operator does not stand for them: whoever is offered
	// it is tainted
	Unapproved
	Egress // it can carry data out of this machine, to an address that its arguments choose: see [GoesTo]
	Links  // links in its results are addresses to which later calls of the turn may go
)

// Has says whether all traits of u are set.
func (t Traits) Has(u Traits) bool { return t&u == u }

// mayRepeat says whether a call that was begun before a crash runs again.
func (t Traits) mayRepeat() bool { return t&(ReadOnly|Idempotent|OwnData) != 0 }

func (t Traits) validate() error {
	effects := t & (Idempotent | SideEffect | OwnData)
	switch {
	case t >= Links<<1:
		return fmt.Errorf("%w: traits %b: not known", corebot.ErrInvalid, t)
	case t.Has(ReadOnly) == (effects != 0):
		return fmt.Errorf("%w: traits %b: want either ReadOnly or what its effects are", corebot.ErrInvalid, t)
	case t.Has(SideEffect) && t.mayRepeat():
		return fmt.Errorf("%w: traits %b: SideEffect excludes those that may repeat", corebot.ErrInvalid, t)
	}
	return nil
}

// Call is what a tool is told beside its arguments.
type Call struct {
	corebot.Caller
	StepID string // the same in every attempt of a run: the idempotency key for whoever knows such keys
	// the content of the file to change, or to attach, that the call was approved for: see [Call.Unchanged]; empty: any
	Approved string
	// the content of the file that the call takes from its place, likewise
	ApprovedFrom string

	versions VersionStore // nil: no change of a file is kept; see [Call.Written]
}

// Func runs a tool. The model reads its result; Func should bound the result while it reads, not after. It must return
// soon after ctx ended. The model is shown its error, with the hint.
type Func[A any] func(ctx context.Context, call Call, args A) (string, error)

// OwnFunc prepares a change of Corebot's own data. It changes nothing itself: it returns the change to make (nil: none)
// and the text that the model reads once the change was made.
type OwnFunc[A any] func(ctx context.Context, call Call, args A) (corebot.Effect, string, error)

// SourcedFunc is a [Func] that says of each result whether text from outside is in it.
type SourcedFunc[A any] func(ctx context.Context, call Call, args A) (text string, outside bool, err error)

// Tool is a function that a model may call.
type Tool struct {
	name    string
	doc     string
	schema  json.RawMessage
	traits  Traits
	timeout time.Duration // zero: the box's default
	own     bool          // made by NewOwn
	attach  bool          // made by NewAttaching
	// of an MCP tool: its server says that it only reads, which lets no call run
	saysReads bool
	bind      func(args json.RawMessage) (bound, error)
	err       error
}

// bound is a tool with its decoded arguments.
type bound struct {
	target  func(Call) policy.Target
	named   func(Call) Named
	trusted func(Call) bool
	change  func(Call) Change
	goes    func(Call) []string // the addresses that take all that the call carries out: see [GoesTo]
	runs    func(Call) []string // the program that the call runs, with its arguments: see [Runs]
	able    func(Call) error    // nil, or why the call cannot run whatever anybody says: see [Able]
	words   func(Call) []string // results that are Corebot's own, whoever wrote what the tool reads

	contained func(Call) bool // it changes the files of its chat at most, and carries nothing out
	run       func(context.Context, Call) (output, error)

	definition string // of an MCP tool: the fingerprint of what its server says of it now
	changed    bool   // the definition is another than the one that the tool was made of
}

// output is what a tool gives when it does not fail: what the model reads, and what remains to be done in the commit of
// the outcome.
type output struct {
	text   string
	effect corebot.Effect
	own    bool // whatever the traits say, the text has nothing that others wrote
	wait   Wait // without a kind: the call has its outcome
	attach *corebot.Part
}

// spec is what options set, with the decoded arguments as the second parameter of each function.
type spec struct {
	timeout time.Duration
	target  func(Call, any) policy.Target
	named   func(Call, any) Named
	trusted func(Call, any) bool
	change  func(Call, any) Change
	goes    func(Call, any) []string
	runs    func(Call, any) []string
	able    func(Call, any) error
	words   func(Call, any) []string

	contained func(Call, any) bool
}

// Option refines a tool of arguments A.
type Option[A any] func(*spec)

// untyped is a function of a tool whose arguments are A, as one of any tool. The compiler makes all that is generic
// anew for each of some fifty tools. So little is: this, and the decoding.
func untyped[A, R any](f func(Call, A) R) func(Call, any) R {
	return func(c Call, args any) R { return f(c, args.(A)) }
}

// Touches tells policy what a call touches, from its arguments. Without it a call touches nothing, which the rules of
// most tools deny.
func Touches[A any](target func(Call, A) policy.Target) Option[A] {
	return func(s *spec) { s.target = untyped(target) }
}

// OwnWords gives results of a tool with the trait Outside that are Corebot's own text, such as that there is nothing. A
// result that is one of them has nothing that others wrote.
func OwnWords[A any](words func(Call, A) []string) Option[A] {
	return func(s *spec) { s.words = untyped(words) }
}

// GoesTo says of a tool with the trait Egress to which addresses a call goes. All that the call can carry out must be
// in these addresses. A tool that does not say so goes to addresses that nobody knows.
func GoesTo[A any](goes func(Call, A) []string) Option[A] {
	return func(s *spec) { s.goes = untyped(goes) }
}

// Runs tells which program a call runs, with its arguments. An approval can be bound to it. A tool whose programs reach
// the network must have the trait Egress: then nothing that is bound lets them run in a tainted turn.
func Runs[A any](runs func(Call, A) []string) Option[A] {
	return func(s *spec) { s.runs = untyped(runs) }
}

// Able says why a call cannot run, as far as its arguments alone tell. Nobody is asked to approve such a call.
func Able[A any](able func(Call, A) error) Option[A] {
	return func(s *spec) { s.able = untyped(able) }
}

// Contained says which calls of a tool change nothing but the files of their own chat and carry nothing out of it,
// whatever their arguments do. Such a call runs in a tainted turn without an approval.
func Contained[A any](contained func(Call, A) bool) Option[A] {
	return func(s *spec) { s.contained = untyped(contained) }
}

// Timeout replaces the box's limit on how long one call may take.
func Timeout[A any](d time.Duration) Option[A] {
	return func(s *spec) { s.timeout = d }
}

// New makes a tool of a typed function. A is a struct; its json and jsonschema tags become the schema of the arguments,
// and fields without omitempty are required. A mistake in any of it is reported by [NewRegistry], so that tools can be
// listed in one expression.
func New[A any](name, doc string, traits Traits, fn Func[A], opts ...Option[A]) Tool {
	return newTool(name, doc, traits, func(ctx context.Context, c Call, a A) (output, error) {
		text, err := fn(ctx, c, a)
		return output{text: text}, err
	}, opts)
}

// NewSourced makes a tool with the trait Outside, beside traits, that knows of each result whether anything in it is
// from outside.
func NewSourced[A any](name, doc string, traits Traits, fn SourcedFunc[A], opts ...Option[A]) Tool {
	return newTool(name, doc, traits|Outside, func(ctx context.Context, c Call, a A) (output, error) {
		text, outside, err := fn(ctx, c, a)
		return output{text: text, own: !outside}, err
	}, opts)
}

// AttachFunc keeps the content of a file. It gives the file as a part of the turn's reply, and what the model reads.
type AttachFunc[A any] func(ctx context.Context, call Call, args A) (part corebot.Part, text string, err error)

// NewAttaching makes a tool that adds a file to the reply of its turn: see [corebot.ToolResult]. The part is stored
// with the outcome of the call, so that a resumed turn has it, too. A reply has at most [corebot.MaxAttached] files.
func NewAttaching[A any](name, doc string, traits Traits, fn AttachFunc[A], opts ...Option[A]) Tool {
	t := newTool(name, doc, traits, func(ctx context.Context, c Call, a A) (output, error) {
		part, text, err := fn(ctx, c, a)
		return output{text: text, attach: &part}, err
	}, opts)
	t.attach = true
	return t
}

// NewOwn makes a tool that changes nothing but Corebot's own data, with the trait OwnData beside traits. Its effect and
// its outcome are one commit, which needs no intent before it: after a crash either both happened or the call runs for
// the first time. A change that a rule of the data forbids is an error that the model reads.
func NewOwn[A any](name, doc string, traits Traits, fn OwnFunc[A], opts ...Option[A]) Tool {
	t := newTool(name, doc, traits|OwnData, func(ctx context.Context, c Call, a A) (output, error) {
		effect, text, err := fn(ctx, c, a)
		return output{text: text, effect: effect}, err
	}, opts)
	t.own = true
	return t
}

// Wait is what a call waits for.
type Wait struct {
	corebot.Pending
	Opened func(corebot.Pending) string // of a wait that is opened only: what the model reads

	// Effect and Text are of a call that waits for nothing, as of [NewOwn]; its wait has no kind.
	Effect corebot.Effect
	Text   string
}

// WaitFunc prepares what a call waits for. It stores nothing itself.
type WaitFunc[A any] func(ctx context.Context, call Call, args A) (Wait, error)

// NewWaiting makes a tool whose outcome comes later. Its call waits in its place in the journal, without a worker: see
// [corebot.Pending]. The wait is stored in one commit with its step, so the tool has the trait OwnData. The model
// reads what came.
func NewWaiting[A any](name, doc string, traits Traits, fn WaitFunc[A], opts ...Option[A]) Tool {
	t := newTool(name, doc, traits|OwnData, func(ctx context.Context, c Call, a A) (output, error) {
		w, err := fn(ctx, c, a)
		if w.Kind == "" {
			return output{text: w.Text, effect: w.Effect}, err
		}
		return output{wait: w}, err
	}, opts)
	t.own = true
	return t
}

func newTool[A any](name, doc string, traits Traits, fn func(context.Context, Call, A) (output, error),
	opts []Option[A],
) Tool {
	s := noSpec()
	for _, o := range opts {
		o(&s)
	}
	d, err := newDecoder[A]()
	return s.tool(Tool{name: name, doc: strings.TrimSpace(doc), traits: traits, schema: d.schema}, err,
		func(raw json.RawMessage) (any, error) { return d.decode(raw) },
		func(ctx context.Context, c Call, args any) (output, error) { return fn(ctx, c, args.(A)) })
}

// noSpec is of a tool without options.
func noSpec() spec {
	return spec{
		target:  func(Call, any) policy.Target { return policy.Target{} },
		named:   func(Call, any) Named { return Named{} },
		trusted: func(Call, any) bool { return false },
		change:  func(Call, any) Change { return Change{} },
		goes:    func(Call, any) []string { return nil },
		runs:    func(Call, any) []string { return nil },
		able:    func(Call, any) error { return nil },
		words:   func(Call, any) []string { return nil },

		contained: func(Call, any) bool { return false },
	}
}

// tool adds to t how its arguments are decoded and what its calls do. err says that its arguments have no schema.
func (s spec) tool(t Tool, err error, decode func(json.RawMessage) (any, error),
	run func(context.Context, Call, any) (output, error),
) Tool {
	t.timeout = s.timeout
	if err != nil {
		t.err = fmt.Errorf("tool %s: %w", t.name, err)
		return t
	}
	t.bind = func(raw json.RawMessage) (bound, error) {
		args, err := decode(raw)
		if err != nil {
			return bound{}, err
		}
		return bound{
			target:  func(c Call) policy.Target { return s.target(c, args) },
			named:   func(c Call) Named { return s.named(c, args) },
			trusted: func(c Call) bool { return s.trusted(c, args) },
			change:  func(c Call) Change { return s.change(c, args) },
			goes:    func(c Call) []string { return s.goes(c, args) },
			runs:    func(c Call) []string { return s.runs(c, args) },
			able:    func(c Call) error { return s.able(c, args) },
			words:   func(c Call) []string { return s.words(c, args) },

			contained: func(c Call) bool { return s.contained(c, args) },
			run:       func(ctx context.Context, c Call) (output, error) { return run(ctx, c, args) },
		}, nil
	}
	return t
}

// refusal tells a model what is wrong with its arguments, and which fields there are: it must be able to mend its call.
func (t Tool) refusal(err error) string {
	text := "invalid_args: " + err.Error()
	if fields := fieldsOf(t.schema); fields != "" {
		text += "\nThe fields are: " + fields
	}
	return text
}

// hasEffects says whether running the tool may have changed something. A tool of own data changes nothing before its
// outcome is stored.
func (t Tool) hasEffects() bool { return !t.traits.Has(ReadOnly) && !t.own }

// Name is the tool's internal name, with dots.
func (t Tool) Name() string { return t.name }

// Offered is the tool as a model is shown it.
func (t Tool) Offered() llm.Tool {
	return llm.Tool{Name: t.name, Description: t.doc, Schema: t.schema, Unapproved: t.traits.Has(Unapproved)}
}

// validate finds what cannot be offered to a model or told apart in an audit.
func (t Tool) validate(names *regexp.Regexp) error {
	switch {
	case t.err != nil:
		return t.err
	case len(t.name) > maxToolName || !names.MatchString(t.name):
		return fmt.Errorf("%w: tool name %q: want words of a-z, A-Z, 0-9, _ and - joined by dots, 128 bytes at most",
			corebot.ErrInvalid, t.name)
	case t.doc == "":
		return fmt.Errorf("%w: tool %s has no description", corebot.ErrInvalid, t.name)
	case t.bind == nil:
		return fmt.Errorf("%w: tool %s was not made by New", corebot.ErrInvalid, t.name)
	case strings.HasPrefix(t.name, "mcp__") && !t.traits.Has(Outside):
		return fmt.Errorf("%w: tool %s is of an MCP server and lacks the trait Outside", corebot.ErrInvalid, t.name)
	case t.timeout < 0:
		return fmt.Errorf("%w: tool %s has the timeout %v", corebot.ErrInvalid, t.name, t.timeout)
	}
	if err := t.traits.validate(); err != nil {
		return fmt.Errorf("tool %s: %w", t.name, err)
	}
	return nil
}

// Elsewhere is the tool with its work done by run, such as in another process. It has the same name, description,
// arguments, traits and rules, and the same checks come before run. The function run gets the arguments as they came,
// already accepted by the tool. A tool of own data, whose work is a part of a commit, cannot be elsewhere.
func (t Tool) Elsewhere(run func(ctx context.Context, args json.RawMessage) (string, error)) Tool {
	if t.own || t.attach {
		t.err = fmt.Errorf("%w: tool %s changes Corebot's own data, which cannot be done elsewhere", corebot.ErrInvalid,
			t.name)
		return t
	}
	here := t.bind
	t.bind = func(raw json.RawMessage) (bound, error) {
		b, err := here(raw)
		b.run = func(ctx context.Context, _ Call) (output, error) {
			text, err := run(ctx, raw)
			return output{text: text}, err
		}
		return b, err
	}
	return t
}

// Within is the tool with around about its function, wherever that does its work: around calls do, or gives an error in
// its place. A tool that changes nothing but Corebot's own data, or nothing at all, stays as it is.
func (t Tool) Within(around func(ctx context.Context, who corebot.Caller, do func(context.Context) error) error) Tool {
	if t.err != nil || !t.hasEffects() {
		return t
	}
	inner := t.bind
	t.bind = func(raw json.RawMessage) (bound, error) {
		b, err := inner(raw)
		run := b.run
		b.run = func(ctx context.Context, c Call) (out output, err error) {
			err = around(ctx, c.Caller, func(ctx context.Context) (err error) {
				out, err = run(ctx, c)
				return err
			})
			return out, err
		}
		return b, err
	}
	return t
}

// Work is the other side of [Tool.Elsewhere]: the tool's own function, for arguments that a [Box] has let pass. It asks
// no policy and keeps no journal. In a worker nothing is known of the call but its arguments.
func (t Tool) Work(ctx context.Context, call Call, args json.RawMessage) (string, error) {
	if t.err != nil || t.own {
		return "", fmt.Errorf("%w: tool %s cannot work alone", corebot.ErrInvalid, t.name)
	}
	b, err := t.bind(args)
	if err != nil {
		return "", err
	}
	out, err := b.run(ctx, call)
	return out.text, err
}
