package operate

import (
	"context"
	"time"

	"github.com/corebot/corebot"
)

// Waits keeps what tool calls wait for.
type Waits interface {
	// Page gives waits behind a cursor, and the cursor behind them: those that have not ended, oldest first, or with
	// all set every wait, newest first.
	Page(ctx context.Context, all bool, after string, limit int) (found []corebot.Pending, next string, err error)
	Give(ctx context.Context, id int64, word corebot.Word) error
}

// The operations on waits.
var (
	ListWaits = reads("waits.list", (*Service).ListWaits)
	GiveWord  = changes("waits.give", (*Service).GiveWord)
)

type (
	// WaitQuery asks for a part of the waits that have not ended, or with All of every wait.
	WaitQuery struct {
		All bool `json:"all,omitempty"`
		Part
	}
	// WaitRow is what --json prints of a wait.
	WaitRow struct {
		ID        int64             `json:"id"`
		Kind      corebot.WaitKind  `json:"kind"`
		For       string            `json:"for,omitempty"`
		State     corebot.WaitState `json:"state"`
		ChatID    string            `json:"chatId"` // the key of the conversation
		MessageID string            `json:"messageId"`
		Principal string            `json:"principal"`
		CreatedAt time.Time         `json:"createdAt"`
		Until     time.Time         `json:"until"`
		Word      string            `json:"word,omitempty"`    // that came
		Outside   bool              `json:"outside,omitempty"` // others can have written the word
		Reason    string            `json:"reason,omitempty"`  // why it was given up
		EndedAt   time.Time         `json:"endedAt,omitzero"`
		EndedBy   string            `json:"endedBy,omitempty"`
	}
	// NewWord is a word for a turn that waits.
	NewWord struct {
		ID      int64  `json:"id"`
		Text    string `json:"text,omitempty"`
		Outside bool   `json:"outside,omitempty"` // others than who gives it can have written it
	}
)

// ListWaits lists the waits that have not ended, oldest first, or every wait, newest first.
func (s *Service) ListWaits(ctx context.Context, q WaitQuery) (Page[WaitRow], error) {
	found, next, err := s.stores.Waits.Page(ctx, q.All, q.After, q.size())
	return pageOf(found, next, func(w corebot.Pending) WaitRow {
		return WaitRow{
			ID: w.ID, Kind: w.Kind, For: w.For, State: w.State, ChatID: w.Key.String(), MessageID: w.MessageID,
			Principal: w.Principal.String(), CreatedAt: w.CreatedAt, Until: w.Until, Word: w.Word.Text,
			Outside: w.Word.Outside, Reason: w.Reason, EndedAt: w.EndedAt, EndedBy: w.By,
		}
	}), err
}

// GiveWord gives the word that a turn waits for, or ends a wait for a time early.
func (s *Service) GiveWord(ctx context.Context, w NewWord) (Done, error) {
	return each([]int64{w.ID}, func(id int64) error {
		return s.stores.Waits.Give(ctx, id, corebot.Word{Text: w.Text, Outside: w.Outside})
	})
}
