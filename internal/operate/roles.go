package operate

import (
	"context"
	"time"

	"github.com/corebot/corebot"
)

// Roles keeps who has which role.
type Roles interface {
	// Page gives grants behind a cursor, in the order of their principals, and the cursor behind them.
	Page(ctx context.Context, after string, limit int) (found []corebot.Grant, next string, err error)
	Grant(ctx context.Context, g corebot.Grant) error
	Revoke(ctx context.Context, p corebot.Principal, chat corebot.Key) error
}

// The operations on roles.
var (
	ListGrants  = reads("admin.list", (*Service).ListGrants)
	GrantRole   = changes("admin.grant", (*Service).GrantRole)
	RevokeGrant = changes("admin.revoke", (*Service).RevokeGrant)
)

// Grant is one row of the list.
type Grant struct {
	Principal string    `json:"principal"`
	Role      string    `json:"role"`
	Chat      string    `json:"chat"` // empty: everywhere
	By        string    `json:"by"`
	At        time.Time `json:"at"`
}

// ListGrants lists the grants.
func (s *Service) ListGrants(ctx context.Context, p Part) (Page[Grant], error) {
	found, next, err := s.stores.Roles.Page(ctx, p.After, p.size())
	return pageOf(found, next, newGrant), err
}

func newGrant(g corebot.Grant) Grant {
	row := Grant{Principal: g.Principal.String(), Role: string(g.Role), By: g.By, At: time.UnixMilli(g.AtMS)}
	if g.Chat != (corebot.Key{}) {
		row.Chat = g.Chat.String()
	}
	return row
}

// GrantRole gives a principal a role, in one chat or everywhere.
func (s *Service) GrantRole(ctx context.Context, g corebot.Grant) (Done, error) {
	return Done{Changed: 1}, s.stores.Roles.Grant(ctx, g)
}

// RevokeGrant takes a grant away.
func (s *Service) RevokeGrant(ctx context.Context, g corebot.Grant) (Done, error) {
	return Done{Changed: 1}, s.stores.Roles.Revoke(ctx, g.Principal, g.Chat)
}
