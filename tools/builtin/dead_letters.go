package builtin

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/tools"
)

//go:embed dead_letter_list.md
var deadLetterListDoc string

// DeadLetters lists the messages that were given up, newest first.
type DeadLetters interface {
	ListDeadLetters(ctx context.Context, q operate.DeadLetterQuery) (operate.Page[operate.DeadLetter], error)
}

const (
	deadLettersShown = 20  // unless the model asks for another number
	deadLettersMost  = 100 // whatever it asks for
)

type deadLetterListArgs struct {
	Direction string `json:"direction,omitempty" jsonschema:"inbound or outbound; both if it is left out"`
	Limit     int    `json:"limit,omitempty" jsonschema:"how many, the newest; 20 if it is left out, 100 at most"`
}

// DeadLetterList shows what was given up, in every chat of the agent.
func DeadLetterList(letters DeadLetters) tools.Tool {
	return tools.New("bus.dead_letter.list", deadLetterListDoc, tools.ReadOnly|tools.Privileged|tools.Outside,
		func(ctx context.Context, c tools.Call, a deadLetterListArgs) (string, error) {
			query, err := a.query()
			if err != nil {
				return "", tools.Own(err)
			}
			query.Filter.Agent = c.Key.Agent
			found, err := letters.ListDeadLetters(ctx, query)
			if err != nil {
				return "", tools.Own(fmt.Errorf("list the dead letters: %w", err))
			}
			if len(found.Rows) == 0 {
				return "[there are no such dead letters]", nil
			}
			return deadLetterLines(found.Rows)
		})
}

func (a deadLetterListArgs) query() (q operate.DeadLetterQuery, err error) {
	if a.Limit < 0 {
		return q, fmt.Errorf("%w: limit %d: want 1 to %d", corebot.ErrInvalid, a.Limit, deadLettersMost)
	}
	q.Limit = min(cmp.Or(a.Limit, deadLettersShown), deadLettersMost)
	switch a.Direction {
	case "":
	case corebot.Inbound.String():
		q.Filter.Direction = corebot.Inbound
	case corebot.Outbound.String():
		q.Filter.Direction = corebot.Outbound
	default:
		return q, fmt.Errorf("%w: direction %q: want inbound or outbound", corebot.ErrInvalid, a.Direction)
	}
	return q, nil
}

// deadLetterLines are the rows of `corebot dlq list --json`, which is what the model sees.
func deadLetterLines(found []operate.DeadLetter) (string, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, l := range found {
		if err := enc.Encode(l); err != nil {
			return "", fmt.Errorf("encode dead letter %d: %w", l.ID, err)
		}
	}
	return out.String(), nil
}

//go:embed dead_letter_replay.md
var deadLetterReplayDoc string

type deadLetterReplayArgs struct {
	ID int64 `json:"id" jsonschema:"the id of the dead letter, as bus.dead_letter.list shows it"`
}

// DeadLetterReplay puts a message that was given up back into the queue, in the commit of its own outcome.
func DeadLetterReplay() tools.Tool {
	return tools.NewOwn("bus.dead_letter.replay", deadLetterReplayDoc, tools.Privileged, replayDeadLetter)
}

// replayDeadLetter prepares the effect of bus.dead_letter.replay.
func replayDeadLetter(_ context.Context, c tools.Call, a deadLetterReplayArgs) (corebot.Effect, string, error) {
	if a.ID < 1 {
		return nil, "", fmt.Errorf("%w: id %d: want the id of a dead letter", corebot.ErrInvalid, a.ID)
	}
	return corebot.ReplayDeadLetter{ID: a.ID, Agent: c.Key.Agent},
		fmt.Sprintf("dead letter %d is back in its queue", a.ID), nil
}
