package operate

import (
	"fmt"
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
)

// Service carries out operations on one home.
type Service struct {
	stores  Stores
	running Corebot // nil: only the stores are open; another process can run a Corebot on the home
}

// Stores are what a service works on. All but Owner, Contexts and Vitals are required: an operation on a missing store
// panics. The service does not close them.
type Stores struct {
	DeadLetters  DeadLetters
	Replays      Replays // replays many dead letters
	Lives        Lives   // the lives of messages, for `corebot why`
	Audit        Audit
	Witness      Witness // signs and checks the audit trail
	Chats        Chats
	ChatSettings ChatSettings
	Sessions     Sessions
	Links        Links
	History      History
	Sayings      Sayings
	Roles        Roles
	Approvals    Approvals
	Books        Books // the usage of tokens and money
	Deferred     Deferred
	Figures      Figures // the figures of `corebot status`
	Agents       Agents
	Owner        corebot.Principal // the owner of the home, at its terminal; an empty id: nobody
	Waits        Waits
	Jobs         Jobs
	Tasks        Tasks
	Planner      Planner
	Pairings     Pairings
	Tokens       Tokens // access to the HTTP API
	Console      Console
	Backups      Backups
	Memories     Memories
	Facts        Facts
	Attached     Attached
	Forgetter    Forgetter
	Contexts     Contexts // nil if no Corebot runs in this process
	Vitals       Vitals   // nil if no Corebot runs in this process
}

// New makes a service for a home whose stores alone are open in this process.
func New(s Stores) *Service { return &Service{stores: s} }

// NewRunning makes the service of a Corebot that runs in this process.
func NewRunning(c Corebot, s Stores) *Service { return &Service{s, c} }

// Owner is the owner of the home at its terminal, if there is one.
func (s *Service) Owner() (p corebot.Principal, ok bool) {
	return s.stores.Owner, s.stores.Owner.ID != ""
}

// MaxRows bounds the rows of one page.
const MaxRows = 1000

// Part is a request for one [Page] of a list. A page can have fewer rows than the limit although more follow: only an
// empty Next ends a list.
type Part struct {
	After string `json:"after,omitempty"` // the Next of the previous page; empty: the beginning
	Limit int    `json:"limit,omitempty"` // of rows; a limit below 1 or above [MaxRows] is MaxRows
}

// size is the limit of the page, from 1 to [MaxRows].
func (p Part) size() int {
	if p.Limit < 1 || p.Limit > MaxRows {
		return MaxRows
	}
	return p.Limit
}

// Page is the answer to a [Part]. Rows is never nil.
type Page[T any] struct {
	Rows []T    `json:"rows"`
	Next string `json:"next,omitempty"` // the cursor of the next page; empty: nothing is left
}

// pageOf makes a page of the rows that a store has found, and turns each into the form that callers see.
func pageOf[S, T any](found []S, next string, row func(S) T) Page[T] {
	p := Page[T]{Rows: make([]T, len(found)), Next: next}
	for i, f := range found {
		p.Rows[i] = row(f)
	}
	return p
}

// partOf cuts a page out of a list that is in memory and has an order. The cursor is the name of the page's last row,
// so names must be unique. A cursor whose row is gone is a [corebot.ErrInvalid]: nobody knows where to go on.
func partOf[T any](all []T, p Part, name func(T) string) (Page[T], error) {
	from := 0
	if p.After != "" {
		from = 1 + slices.IndexFunc(all, func(row T) bool { return name(row) == p.After })
		if from == 0 {
			return Page[T]{}, corebot.WithHint(fmt.Errorf("%w: the list has no %q any more", corebot.ErrInvalid,
				clip(p.After)), "begin again with the first page")
		}
	}
	to := min(from+p.size(), len(all))
	page := Page[T]{Rows: slices.Clone(all[from:to])}
	if page.Rows == nil {
		page.Rows = []T{}
	}
	if to < len(all) {
		page.Next = name(all[to-1])
	}
	return page, nil
}

// clip cuts a name from a request to 100 bytes, for an error that quotes the name.
func clip(name string) string { return corebot.Plainly(runes.Head(name, 100)) }

// Done is the result of a change of several things.
type Done struct {
	Changed int    `json:"changed"`        // how many things were changed
	Left    int    `json:"left,omitempty"` // a replay only: how many dead letters stay, because the queue has no room
	Why     string `json:"why,omitempty"`  // a replay only: why the first of these stays
}

// each makes one change after the other and stops at the first that fails. Earlier changes stay, also in Done, and the
// error says how many there are.
func each(ids []int64, change func(int64) error) (Done, error) {
	for n, id := range ids {
		if err := change(id); err != nil {
			if n > 0 {
				err = fmt.Errorf("%d changed, then: %w", n, err)
			}
			return Done{Changed: n}, err
		}
	}
	return Done{Changed: len(ids)}, nil
}
