package tools

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/corebot/corebot"
)

// Elsewhere is the tool with its work done by run, such as in another process: it has the same name, description, arguments, traits and rules, and
// every check comes before run as it came before the tool's own function. run is given the arguments as they came, which the tool takes. A tool of
// own data, whose work is a part of a commit, cannot be elsewhere.
func (t Tool) Elsewhere(run func(ctx context.Context, args json.RawMessage) (string, error)) Tool {
	if t.own {
		t.err = fmt.Errorf("%w: tool %s changes Corebot's own data, which cannot be done elsewhere", corebot.ErrInvalid, t.name)
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

// Work is the other side of [Tool.Elsewhere]: the tool's own function, for arguments that a [Box] has let pass. It asks no policy and keeps no journal.
// The function is told no more of the call than its arguments.
func (t Tool) Work(ctx context.Context, args json.RawMessage) (string, error) {
	if t.err != nil || t.own {
		return "", fmt.Errorf("%w: tool %s cannot work alone", corebot.ErrInvalid, t.name)
	}
	b, err := t.bind(args)
	if err != nil {
		return "", err
	}
	out, err := b.run(ctx, Call{})
	return out.text, err
}
