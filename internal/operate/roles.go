package operate

import (
	"cmp"
	"context"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/nearest"
)

// Roles keeps who has which role.
type Roles interface {
	// Page gives grants behind a cursor, in the order of their principals, and the cursor behind them.
	Page(ctx context.Context, after string, limit int) (found []corebot.Grant, next string, err error)
	Grant(ctx context.Context, g corebot.Grant) error
	Revoke(ctx context.Context, p corebot.Principal, chat corebot.Key) error
	// Of gives the grants of a principal.
	Of(ctx context.Context, p corebot.Principal) ([]corebot.Grant, error)
	// Senders gives senders of the principal's account of whom something is stored, at most limit of them. The
	// principal's own id comes first, if it is one.
	Senders(ctx context.Context, p corebot.Principal, limit int) (ids []string, err error)
}

// The operations on roles.
var (
	ListGrants    = reads("admin.list", (*Service).ListGrants)
	FindPrincipal = reads("admin.find", (*Service).FindPrincipal)
	GrantRole     = changes("admin.grant", (*Service).GrantRole)
	RevokeGrant   = changes("admin.revoke", (*Service).RevokeGrant)
)

// Grant is one row of the list.
type Grant struct {
	Principal string     `json:"principal"`
	Role      string     `json:"role"`
	Chat      string     `json:"chat"` // empty: everywhere
	By        string     `json:"by"`
	At        *time.Time `json:"at"` // nil: the kernel says so, and nothing is stored
}

// ListGrants lists who has a role. The owner of the home comes first: it is admin by [corebot.RuleHomeOwner], without
// a stored grant.
func (s *Service) ListGrants(ctx context.Context, p Part) (Page[Grant], error) {
	limit, owner := p.size(), s.stores.Owner
	first := p.After == "" && owner.ID != ""
	if first {
		limit = max(limit-1, 1)
	}
	found, next, err := s.stores.Roles.Page(ctx, p.After, limit)
	if first {
		row := corebot.Grant{Principal: owner, Role: corebot.RoleAdmin, By: corebot.RuleHomeOwner}
		found = append([]corebot.Grant{row}, found...)
	}
	return pageOf(found, next, newGrant), err
}

func newGrant(g corebot.Grant) Grant {
	row := Grant{Principal: g.Principal.String(), Role: string(g.Role), By: g.By}
	if g.AtMS != 0 {
		row.At = new(time.UnixMilli(g.AtMS))
	}
	if g.Chat != (corebot.Key{}) {
		row.Chat = g.Chat.String()
	}
	return row
}

type (
	// ByPrincipal names a sender.
	ByPrincipal struct {
		Principal corebot.Principal `json:"principal"`
	}
	// PrincipalFound is what is stored of a sender.
	PrincipalFound struct {
		Known bool    `json:"known"`          // a message, a role, a request to talk or a token of him is stored
		Near  string  `json:"near,omitempty"` // of one that is not known: the known principal with nearly that name
		Roles []Grant `json:"roles,omitempty"`
	}
)

// maxSenders bounds the senders among whom a misspelt one is looked for.
const maxSenders = 100_000

// FindPrincipal says whether a sender is known, and who else can be meant.
func (s *Service) FindPrincipal(ctx context.Context, by ByPrincipal) (found PrincipalFound, err error) {
	p, owner := by.Principal, s.stores.Owner
	grants, err := s.stores.Roles.Of(ctx, p)
	if err != nil {
		return found, err
	}
	for _, g := range grants {
		found.Roles = append(found.Roles, newGrant(g))
	}
	ids, err := s.stores.Roles.Senders(ctx, p, maxSenders)
	if err != nil {
		return found, err
	}
	if owner.ID != "" && p.Channel == owner.Channel && p.Account == owner.Account {
		ids = append(ids, owner.ID)
	}
	name, edits := nearest.Name(p.ID, ids)
	found.Known = name != "" && edits == 0
	if !found.Known && name != "" && edits <= max(2, len(p.ID)/3) {
		p.ID = name
		found.Near = p.String()
	}
	return found, nil
}

// GrantRole gives a principal a role, in one chat or everywhere.
func (s *Service) GrantRole(ctx context.Context, g corebot.Grant) (Done, error) {
	return Done{Changed: 1}, s.stores.Roles.Grant(ctx, g)
}

// RevokeGrant takes a grant away.
func (s *Service) RevokeGrant(ctx context.Context, g corebot.Grant) (Done, error) {
	return Done{Changed: 1}, s.stores.Roles.Revoke(ctx, g.Principal, g.Chat)
}

// Books keeps what was used.
type Books interface {
	// Page gives rows of the days from one to another, both included, behind a cursor, newest day first, and the cursor
	// behind them.
	Page(ctx context.Context, from, to, after string, limit int) (found []corebot.UsageRow, next string, err error)
	// Sums adds the days up by day, chat or model. It gives at most limit names, and says whether there are more. Days
	// come with the newest first, chats and models with the largest cost first.
	Sums(ctx context.Context, by, from, to string, limit int) (found []corebot.UsageSum, more bool, err error)
	// SumsByAll gives what Sums gives by day, chat and model, and reads each row once.
	SumsByAll(ctx context.Context, from, to string, limit int) (by map[string][]corebot.UsageSum, more bool, err error)
}

// The operations on what models used.
var (
	ListUsage = reads("usage.list", (*Service).ListUsage)
	SumUsage  = reads("usage.sums", (*Service).SumUsage)
)

type (
	// UsageSumQuery asks for the use from one day to another, both included, added up.
	UsageSumQuery struct {
		By   string `json:"by"` // day, chat or model
		From string `json:"from"`
		To   string `json:"to"`
	}
	// UsageSums are the sums: days with the newest first, and chats and models with the largest cost first.
	UsageSums struct {
		By   string             `json:"by"`
		Rows []corebot.UsageSum `json:"rows"`
		Cut  bool               `json:"cut,omitempty"` // there are more names: ask for fewer days
	}
)

// SumUsage adds up what models used.
func (s *Service) SumUsage(ctx context.Context, q UsageSumQuery) (UsageSums, error) {
	found, more, err := s.stores.Books.Sums(ctx, q.By, q.From, cmp.Or(q.To, lastDay), MaxRows)
	return UsageSums{By: q.By, Rows: append([]corebot.UsageSum{}, found...), Cut: more}, err
}

// UsageTables are the sums by day, chat and model.
type UsageTables struct {
	Days, Chats, Models []corebot.UsageSum
	Cut                 bool // there are more names: ask for fewer days
}

// SumUsageByAll adds up what models used from one day to another, both included.
func (s *Service) SumUsageByAll(ctx context.Context, from, to string) (UsageTables, error) {
	by, more, err := s.stores.Books.SumsByAll(ctx, from, cmp.Or(to, lastDay), MaxRows)
	return UsageTables{by["day"], by["chat"], by["model"], more}, err
}

// lastDay is where a query of usage ends that names no end.
const lastDay = "9999-12-31"

// UsageQuery asks for a part of what was used from one day to another, both included; see [corebot.Accounting.Day].
type UsageQuery struct {
	From string `json:"from"`
	To   string `json:"to"`
	Part
}

// ListUsage lists what models used, by day, chat, sender and model, newest day first.
func (s *Service) ListUsage(ctx context.Context, q UsageQuery) (Page[corebot.UsageRow], error) {
	found, next, err := s.stores.Books.Page(ctx, q.From, cmp.Or(q.To, lastDay), q.After, q.size())
	return pageOf(found, next, func(u corebot.UsageRow) corebot.UsageRow { return u }), err
}

// Figures reads how a home stands.
type Figures interface {
	Status(ctx context.Context) (Status, error)
}

// ReadStatus reads what waits, runs and died.
var ReadStatus = reads("status", (*Service).Status)

type (
	// Status are the figures of a home, as its database has them.
	Status struct {
		Chats            int64                  `json:"chats"`
		Queue            map[string]QueueStatus `json:"queue"`
		DeadLetters      map[string]int64       `json:"deadLetters"`
		OldestUnanswered time.Time              `json:"oldestUnanswered,omitzero"`
		ApprovalsWaiting int64                  `json:"approvalsWaiting,omitempty"` // tool calls that wait
		Deferred         map[string]int64       `json:"parked,omitempty"`           // deferred, by reason
		SetAside         []SetAside             `json:"setAside,omitempty"`         // lanes that cannot be read
		Unread           map[string]string      `json:"unread,omitempty"`           // damaged figures, and why
		UsageToday       UsageToday             `json:"usageToday"`
	}
	// QueueStatus are the figures of one pool.
	QueueStatus struct {
		Messages int64 `json:"messages"`
		Lanes    int64 `json:"lanes"`
		Running  int64 `json:"running"`
		Waiting  int64 `json:"waiting"`
	}
	// SetAside is a lane that waits because the message at its head cannot be read from the database, or a deferred
	// message that cannot.
	SetAside struct {
		Lane  int64     `json:"lane,omitempty"`
		Life  int64     `json:"life,omitempty"` // of a deferred message
		Chat  string    `json:"chat"`
		Pool  string    `json:"pool,omitempty"`
		Since time.Time `json:"since,omitzero"` // a running Corebot knows it
		Until time.Time `json:"until"`          // when it is tried again
		Error string    `json:"error,omitempty"`
	}
	// UsageToday is what was used since the day began.
	UsageToday struct {
		Day      string `json:"day"`
		Currency string `json:"currency"`
		corebot.UsageTotals
	}
)

// Status gives the figures of the home.
func (s *Service) Status(ctx context.Context, _ struct{}) (Status, error) {
	return s.stores.Figures.Status(ctx)
}

// Deferred keeps the messages that have left their lanes until a time.
type Deferred interface {
	// Page gives messages behind a cursor, in the order in which they come back, and the cursor behind them.
	Page(ctx context.Context, after string, limit int) (found []corebot.Deferred, next string, err error)
	Release(ctx context.Context, life int64) error
	Drop(ctx context.Context, life int64) error
}

// The operations on deferred messages.
var (
	ListDeferred    = reads("deferred.list", (*Service).ListDeferred)
	ReleaseDeferred = changes("deferred.release", (*Service).ReleaseDeferred)
	DropDeferred    = changes("deferred.drop", (*Service).DropDeferred)
)

type (
	// DeferredMessage is one row of the list, and what a table shows beside it.
	DeferredMessage struct {
		DeferredRow
		Key string `json:"key"`
	}
	// DeferredRow is what `deferred list --json` prints.
	DeferredRow struct {
		ID         int64     `json:"id"`
		Channel    string    `json:"channel"`
		ChatID     string    `json:"chatId"`
		SenderID   string    `json:"senderId"`
		MessageID  string    `json:"messageId"`
		Reason     string    `json:"reason"`
		DeferredAt time.Time `json:"parkedAt"`
		DueAt      time.Time `json:"dueAt"`
	}
	// ByLives names messages by their life rows.
	ByLives struct {
		IDs []int64 `json:"ids"`
	}
)

// ListDeferred lists deferred messages in the order in which they come back.
func (s *Service) ListDeferred(ctx context.Context, p Part) (Page[DeferredMessage], error) {
	found, next, err := s.stores.Deferred.Page(ctx, p.After, p.size())
	return pageOf(found, next, newDeferred), err
}

func newDeferred(p corebot.Deferred) DeferredMessage {
	row := DeferredRow{p.Life, p.Key.Channel, p.Key.Chat, p.Sender.ID, p.MessageID, p.Reason, p.DeferredAt, p.DueAt}
	return DeferredMessage{row, p.Key.String()}
}

// ReleaseDeferred has deferred messages come back now.
func (s *Service) ReleaseDeferred(ctx context.Context, by ByLives) (Done, error) {
	return each(by.IDs, func(id int64) error { return s.stores.Deferred.Release(ctx, id) })
}

// DropDeferred gives deferred messages up for good; their chats are told.
func (s *Service) DropDeferred(ctx context.Context, by ByLives) (Done, error) {
	return each(by.IDs, func(id int64) error { return s.stores.Deferred.Drop(ctx, id) })
}
