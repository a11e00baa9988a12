package builtin

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/tools"
)

//go:embed dead_letter_list.md
var deadLetterListDoc string

// DeadLetters lists the messages that were given up, newest first.
type DeadLetters interface {
	List(ctx context.Context, f corebot.DeadLetterFilter) ([]corebot.DeadLetter, error)
}

const (
	deadLettersShown = 20  // unless the model asks for another number
	deadLettersMost  = 100 // whatever it asks for
)

type deadLetterListArgs struct {
	Direction string `json:"direction,omitempty" jsonschema:"inbound or outbound; both if it is left out"`
	Limit     int    `json:"limit,omitempty" jsonschema:"how many, the newest; 20 if it is left out, 100 at most"`
}

// deadLetterLine is what the model sees of a dead letter; the names are those of `corebot dlq list --json`.
type deadLetterLine struct {
	ID        int64     `json:"id"`
	Direction string    `json:"direction"`
	Channel   string    `json:"channel"`
	ChatID    string    `json:"chatId"`
	MessageID string    `json:"messageId"`
	Reason    string    `json:"reason"`
	Attempts  int       `json:"attempts"`
	LastError string    `json:"lastError"`
	CreatedAt time.Time `json:"createdAt"`
	DeadAt    time.Time `json:"deadAt"`
}

// DeadLetterList shows what was given up, in every chat of the agent.
func DeadLetterList(letters DeadLetters) tools.Tool {
	return tools.New("bus.dead_letter.list", deadLetterListDoc, tools.ReadOnly|tools.Privileged|tools.Outside, func(ctx context.Context, c tools.Call, a deadLetterListArgs) (string, error) {
		filter, err := a.filter()
		if err != nil {
			return "", err
		}
		filter.Agent = c.Key.Agent
		found, err := letters.List(ctx, filter)
		if err != nil {
			return "", fmt.Errorf("list the dead letters: %w", err)
		}
		if len(found) == 0 {
			return "[there are no such dead letters]", nil
		}
		return deadLetterLines(found)
	})
}

func (a deadLetterListArgs) filter() (f corebot.DeadLetterFilter, err error) {
	if a.Limit < 0 {
		return f, fmt.Errorf("%w: limit %d: want 1 to %d", corebot.ErrInvalid, a.Limit, deadLettersMost)
	}
	f.Limit = min(cmp.Or(a.Limit, deadLettersShown), deadLettersMost)
	switch a.Direction {
	case "":
	case corebot.Inbound.String():
		f.Direction = corebot.Inbound
	case corebot.Outbound.String():
		f.Direction = corebot.Outbound
	default:
		return f, fmt.Errorf("%w: direction %q: want inbound or outbound", corebot.ErrInvalid, a.Direction)
	}
	return f, nil
}

func deadLetterLines(found []corebot.DeadLetter) (string, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, l := range found {
		err := enc.Encode(deadLetterLine{
			l.ID, l.Direction.String(), l.Key.Channel, l.Key.Chat, l.MessageID, l.Reason, l.Attempts, l.LastError, l.CreatedAt, l.DeadAt,
		})
		if err != nil {
			return "", fmt.Errorf("encode dead letter %d: %w", l.ID, err)
		}
	}
	return out.String(), nil
}
