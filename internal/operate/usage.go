package operate

import (
	"context"

	"github.com/corebot/corebot"
)

// Books keeps what was used.
type Books interface {
	// Page gives rows of the days from one to another, both included, behind a cursor, newest day first, and the cursor
	// behind them.
	Page(ctx context.Context, from, to, after string, limit int) (found []corebot.UseRow, next string, err error)
}

// ListUsage lists what models used.
var ListUsage = reads("usage.list", (*Service).ListUsage)

// UsageQuery asks for a part of what was used from one day to another, both included; see [corebot.Accounting.Day].
type UsageQuery struct {
	From string `json:"from"`
	To   string `json:"to"`
	Part
}

// ListUsage lists what models used, by day, chat, sender and model, newest day first.
func (s *Service) ListUsage(ctx context.Context, q UsageQuery) (Page[corebot.UseRow], error) {
	found, next, err := s.stores.Books.Page(ctx, q.From, q.To, q.After, q.size())
	return pageOf(found, next, func(u corebot.UseRow) corebot.UseRow { return u }), err
}
