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
	FindIn(ctx context.Context, k corebot.Key, messageID string) ([]corebot.Life, error)
	// Waiting gives the messages of a chat that wait or run. The first has its steps.
	Waiting(ctx context.Context, k corebot.Key, limit int) ([]corebot.Life, error)
	// Heads tells what the lanes of an agent hold, and gives at most limit of them. An empty agent means all. With
	// whole, each message at a front has its content and its steps.
	Heads(ctx context.Context, agent string, limit int, whole bool) (corebot.BusyLanes, error)
}

// The operations on messages that wait or run.
var (
	ListWaiting = reads("messages.waiting", (*Service).ListWaiting)
	ListLanes   = reads("lanes.list", (*Service).ListLanes)
)

type (
	// WaitingQuery asks for the messages of a chat that wait or run, at most so many.
	WaitingQuery struct {
		Key   corebot.Key `json:"key"`
		Limit int         `json:"limit"`
	}
	// Lane is a conversation with messages that wait or run.
	Lane struct {
		Head     Life  `json:"head"` // the message at its front
		Messages int64 `json:"messages"`
	}
	// Lanes are conversations with messages, those whose turns run first.
	Lanes struct {
		Rows     []Lane `json:"rows"`
		Total    int64  `json:"total"`    // lanes with messages, those without a row included
		Running  int64  `json:"running"`  // of them: whose turn runs
		Messages int64  `json:"messages"` // that wait or run in all of them
	}
	// LanesQuery asks for at most so many lanes of an agent.
	LanesQuery struct {
		Agent string `json:"agent,omitempty"` // empty: of all agents
		Brief bool   `json:"brief,omitempty"` // without contents and steps
		Limit int    `json:"limit"`
	}
)

// ListWaiting gives the messages of a chat that wait or run, in their order.
func (s *Service) ListWaiting(ctx context.Context, q WaitingQuery) (told Told, err error) {
	found, err := s.stores.Lives.Waiting(ctx, q.Key, Part{Limit: q.Limit}.size())
	for _, life := range found {
		told.Lives = append(told.Lives, newLife(life))
	}
	return told, err
}

// ListLanes gives conversations with messages, those whose turns run first, and counts all of them.
func (s *Service) ListLanes(ctx context.Context, q LanesQuery) (all Lanes, err error) {
	busy, err := s.stores.Lives.Heads(ctx, q.Agent, Part{Limit: q.Limit}.size(), !q.Brief)
	all = Lanes{Rows: []Lane{}, Total: busy.Lanes, Running: busy.Running, Messages: busy.Messages}
	for _, f := range busy.Fronts {
		all.Rows = append(all.Rows, Lane{newLife(f.Life), f.Messages})
	}
	return all, err
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
	find := s.stores.Lives.Find
	if by.Key != (corebot.Key{}) { // many chats can have used the id
		find = func(ctx context.Context, id string) ([]corebot.Life, error) {
			return s.stores.Lives.FindIn(ctx, by.Key, id)
		}
	}
	found, err := find(ctx, by.MessageID)
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
