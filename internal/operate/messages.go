package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// Lives tells what became of messages.
type Lives interface {
	Get(ctx context.Context, life int64) (corebot.Life, error)
	Find(ctx context.Context, messageID string) ([]corebot.Life, error)
}

// Why tells the lives of the messages with an id.
var Why = reads("messages.why", (*Service).Why)

// Life is a life as JSON, with its direction spelled out and the names that every other command uses.
type Life struct {
	Direction string `json:"direction"`
	Channel   string `json:"channel"`
	ChatID    string `json:"chatId"`
	corebot.Life
	Steps []Step `json:"steps,omitempty"` // in the place of the life's own
}

// Step is a step of a journal with the names of JSON.
type Step struct {
	Position  int                 `json:"position"`
	Kind      corebot.StepKind    `json:"kind"`
	State     corebot.StepState   `json:"state"`
	Answer    *corebot.Answer     `json:"answer,omitempty"`
	Call      *corebot.ToolCall   `json:"call,omitempty"`
	Result    *corebot.ToolResult `json:"result,omitempty"`
	Merged    *corebot.Merged     `json:"merged,omitempty"`
	Sent      *corebot.Sent       `json:"sent,omitempty"`
	Awaited   bool                `json:"-"`
	StartedAt time.Time           `json:"startedAt,omitzero"`
	EndedAt   time.Time           `json:"endedAt,omitzero"`
}

func newLife(l corebot.Life) Life {
	out := Life{Direction: l.Direction.String(), Channel: l.Key.Channel, ChatID: l.Key.Chat, Life: l}
	for _, step := range l.Steps {
		out.Steps = append(out.Steps, Step(step))
	}
	return out
}

// Whole is the life as it is in the root package, also when it has come through JSON.
func (l Life) Whole() corebot.Life {
	out := l.Life
	for _, d := range []corebot.Direction{corebot.Inbound, corebot.Outbound, corebot.Control} {
		if d.String() == l.Direction {
			out.Direction = d
		}
	}
	out.Steps = nil
	for _, step := range l.Steps {
		out.Steps = append(out.Steps, corebot.Step(step))
	}
	return out
}

// Told are the lives of the messages with one id.
type Told struct {
	Lives []Life `json:"lives"`
}

// Why tells the lives of the messages with an id, each with its steps and with what it caused. An unknown id is
// [corebot.ErrNotFound].
func (s *Service) Why(ctx context.Context, by ByMessage) (Told, error) {
	found, err := s.stores.Lives.Find(ctx, by.MessageID)
	if err == nil && len(found) == 0 {
		err = corebot.WithHint(fmt.Errorf("message %q: %w", by.MessageID, corebot.ErrNotFound),
			"was it accepted here, and is it younger than the retention time?")
	}
	told := Told{}
	for _, life := range found {
		told.Lives = append(told.Lives, newLife(life))
	}
	return told, err
}
