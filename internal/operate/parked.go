package operate

import (
	"context"
	"time"

	"github.com/corebot/corebot"
)

// Parked keeps the messages that have left their lanes until a time.
type Parked interface {
	// Page gives messages behind a cursor, in the order in which they come back, and the cursor behind them.
	Page(ctx context.Context, after string, limit int) (found []corebot.Parked, next string, err error)
	Release(ctx context.Context, life int64) error
	Drop(ctx context.Context, life int64) error
}

// The operations on parked messages.
var (
	ListParked    = reads("parked.list", (*Service).ListParked)
	ReleaseParked = changes("parked.release", (*Service).ReleaseParked)
	DropParked    = changes("parked.drop", (*Service).DropParked)
)

type (
	// ParkedMessage is one row of the list, and what a table shows beside it.
	ParkedMessage struct {
		ParkedRow
		Key string `json:"key"`
	}
	// ParkedRow is what `parked list --json` prints.
	ParkedRow struct {
		ID        int64     `json:"id"`
		Channel   string    `json:"channel"`
		ChatID    string    `json:"chatId"`
		SenderID  string    `json:"senderId"`
		MessageID string    `json:"messageId"`
		Reason    string    `json:"reason"`
		ParkedAt  time.Time `json:"parkedAt"`
		DueAt     time.Time `json:"dueAt"`
	}
	// ByLives names messages by their life rows.
	ByLives struct {
		IDs []int64 `json:"ids"`
	}
)

// ListParked lists parked messages in the order in which they come back.
func (s *Service) ListParked(ctx context.Context, p Part) (Page[ParkedMessage], error) {
	found, next, err := s.stores.Parked.Page(ctx, p.After, p.size())
	return pageOf(found, next, newParked), err
}

func newParked(p corebot.Parked) ParkedMessage {
	row := ParkedRow{p.Life, p.Key.Channel, p.Key.Chat, p.Sender.ID, p.MessageID, p.Reason, p.ParkedAt, p.DueAt}
	return ParkedMessage{row, p.Key.String()}
}

// ReleaseParked has parked messages come back now.
func (s *Service) ReleaseParked(ctx context.Context, by ByLives) (Done, error) {
	return each(by.IDs, func(id int64) error { return s.stores.Parked.Release(ctx, id) })
}

// DropParked gives parked messages up for good; their chats are told.
func (s *Service) DropParked(ctx context.Context, by ByLives) (Done, error) {
	return each(by.IDs, func(id int64) error { return s.stores.Parked.Drop(ctx, id) })
}
