// Package control carries out operations on a home, the directory with Corebot's settings, database and workspace. An
// operation has a name, JSON arguments and a JSON result. If a daemon runs on the home, the daemon carries the
// operation out, and the command asks it through a socket in the data directory. If none runs, the command's own
// process carries the operation out. The caller sees no difference.
//
// The socket is 0600 in a directory that is 0700: whoever can open it may do what the operator may. An operation
// commits its effect before it returns. Errors keep their class and hint on the way.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/strictjson"
)

// Operation takes JSON arguments, carries something out, and returns a result that can be encoded as JSON.
type Operation func(ctx context.Context, args json.RawMessage) (any, error)

// Operations are all operations of a process, by name.
type Operations map[string]Operation

// Typed makes an operation of a function. Arguments with a name twice, or with one that no field of A has as it is
// spelt, are [corebot.ErrInvalid].
func Typed[A, R any](fn func(context.Context, A) (R, error)) Operation {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args A
		if err := decode(raw, &args); err != nil {
			return nil, err
		}
		return fn(ctx, args)
	}
}

// maxLevels is how deep arguments can be nested: as deep as encoding/json reads them.
const maxLevels = 10_000

// rulesOf are lenient for arguments that carry JSON of others, such as a call of an MCP client. The operation judges
// that JSON itself, and notes what it refuses.
func rulesOf(args reflect.Type) strictjson.Rules {
	if args.Kind() == reflect.Struct {
		for f := range args.Fields() {
			if f.Type == reflect.TypeFor[json.RawMessage]() {
				return strictjson.Rules{HalfCharacters: true, BadUTF8: true, DoubledNames: true}
			}
		}
	}
	return strictjson.Rules{}
}

// decode is apart from [Typed], and call from [Call], because the compiler makes those anew for each of some hundred
// operations.
func decode(raw json.RawMessage, args any) error {
	if err := strictjson.Decode(raw, maxLevels, rulesOf(reflect.TypeOf(args).Elem()), args); err != nil {
		return fmt.Errorf("%w: arguments: %v", corebot.ErrInvalid, err)
	}
	return nil
}

// Caller carries an operation out, here or elsewhere.
type Caller interface {
	Call(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error)
}

// Call carries out the named operation and decodes its result.
func Call[R any](ctx context.Context, c Caller, name string, args any) (result R, err error) {
	err = call(ctx, c, name, args, &result)
	return result, err
}

func call(ctx context.Context, c Caller, name string, args, result any) error {
	raw, err := encode(args)
	if err != nil {
		return fmt.Errorf("encode the arguments of %s: %w", name, err)
	}
	if raw, err = c.Call(ctx, name, raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("decode the result of %s: %w", name, err)
	}
	return nil
}

// Call implements [Caller] in this process.
func (o Operations) Call(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	op, ok := o[name]
	if !ok {
		return nil, fmt.Errorf("operation %q: %w", name, corebot.ErrNotFound)
	}
	result, err := op(ctx, args)
	if err != nil {
		return nil, err
	}
	return encode(result)
}

// encode writes JSON without the escapes for HTML: people read <, > and & in the arguments of tools as they are.
func encode(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return out.Bytes(), err
}

// problem is an error as the socket carries it.
type problem struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Class   string `json:"class,omitempty"`
	Busy    *busy  `json:"busy,omitempty"`
}

// busy is what a [corebot.Busy] says beside its error.
type busy struct {
	RetryAfter time.Duration `json:"retryAfter"` // in nanoseconds
	Tell       bool          `json:"tell"`       // the sender is told that Corebot is busy
}

// classes are the errors that a caller can test with errors.Is, by their names in JSON. The first match is sent.
var classes = []struct {
	name string
	err  error
}{
	{"not_found", corebot.ErrNotFound},
	{"conflict", corebot.ErrConflict},
	{"too_large", corebot.ErrTooLarge},
	{"sender_full", corebot.ErrSenderFull}, // before lane_full: ErrSenderFull matches ErrLaneFull, too
	{"lane_full", corebot.ErrLaneFull},
	{"command_rate", corebot.ErrCommandRate},
	{"overloaded", corebot.ErrOverloaded},
	{"disk_full", corebot.ErrDiskFull},
	{"closed", corebot.ErrClosed},
	{"unknown", corebot.ErrCommitUnknown},
	{"invalid", corebot.ErrInvalid},
}

func encodeError(err error) problem {
	p := problem{Message: err.Error(), Hint: corebot.HintOf(err)}
	if b := (*corebot.Busy)(nil); errors.As(err, &b) {
		p.Busy = &busy{b.RetryAfter, b.Tell}
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			p.Class = c.name
			break
		}
	}
	return p
}

// remote is an error of another process: its message, and the error of this process that is its class.
type remote struct {
	text  string
	class error
}

func (e *remote) Error() string { return e.text }
func (e *remote) Unwrap() error { return e.class }

func (p problem) err() error {
	r := &remote{text: p.Message}
	for _, c := range classes {
		if c.name == p.Class {
			r.class = c.err
		}
	}
	err := error(r)
	if p.Busy != nil {
		err = &corebot.Busy{Err: err, RetryAfter: p.Busy.RetryAfter, Tell: p.Busy.Tell}
	}
	if p.Hint != "" {
		err = corebot.WithHint(err, p.Hint)
	}
	return err
}
