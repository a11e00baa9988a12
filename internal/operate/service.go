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
	running Corebot // nil: no Corebot of this process runs on the home
}

// Stores are what a service works on. All but Owner, Contexts and Vitals are required.
type Stores struct {
	DeadLetters  DeadLetters
	Replays      Replays // of many dead letters
	Lives        Lives   // of messages, for `corebot why`
	Audit        Audit
	Witness      Witness // of the audit trail
	Chats        Chats
	ChatSettings ChatSettings
	Sessions     Sessions
	Links        Links
	History      History
	Sayings      Sayings
	Roles        Roles
	Approvals    Approvals
	Books        Books // of usage
	Deferred     Deferred
	Figures      Figures // of `corebot status`
	Agents       Agents
	Owner        corebot.Principal // the owner of the home, at its terminal; an empty id: nobody
	Waits        Waits
	Jobs         Jobs
	Tasks        Tasks
	Planner      Planner
	Pairings     Pairings
	Tokens       Tokens // of the HTTP API
	Console      Console
	Backups      Backups
	Memories     Memories
	Facts        Facts
	Forgetter    Forgetter
	Contexts     Contexts // nil without a running Corebot
	Vitals       Vitals   // nil without a running Corebot
}

// New makes a service for a home on which no Corebot of this process runs.
func New(s Stores) *Service { return &Service{stores: s} }

// In makes the service of the Corebot that runs on the home in this process.
func In(c Corebot, s Stores) *Service { return &Service{s, c} }

// Owner is the owner of the home at its terminal, if there is one.
func (s *Service) Owner() (p corebot.Principal, ok bool) {
	return s.stores.Owner, s.stores.Owner.ID != ""
}

// MaxRows bounds the rows of one page.
const MaxRows = 1000

// Part says which rows of a list a caller wants. Some lists give fewer rows at once.
type Part struct {
	After string `json:"after,omitempty"` // the Next of the previous page; empty: the beginning
	Limit int    `json:"limit,omitempty"` // at most so many rows; below 1, or above [MaxRows], it means MaxRows
}

// size is how many rows the page can have.
func (p Part) size() int {
	if p.Limit < 1 || p.Limit > MaxRows {
		return MaxRows
	}
	return p.Limit
}

// Page is one part of a list.
type Page[T any] struct {
	Rows []T    `json:"rows"`
	Next string `json:"next,omitempty"` // the cursor of the next page; empty: nothing is left
}

// pageOf is a page of what a store gave, each row as callers see it.
func pageOf[S, T any](found []S, next string, row func(S) T) Page[T] {
	p := Page[T]{Rows: make([]T, len(found)), Next: next}
	for i, f := range found {
		p.Rows[i] = row(f)
	}
	return p
}

// partOf is a page of a list that is in memory. Its cursor is the name of the page's last row. If the list does not
// have that row any more, the error is [corebot.ErrInvalid]: nobody knows where to go on.
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

// clip shortens a name of a request for an error that quotes it.
func clip(name string) string { return corebot.Plainly(runes.Head(name, 100)) }

// Done counts what a change did, and what it had to leave.
type Done struct {
	Changed int    `json:"changed"`        // how many things it changed
	Left    int    `json:"left,omitempty"` // dead letters that stay because the queue has no room for them
	Why     string `json:"why,omitempty"`  // why the first of them stays
}

// each changes one thing after the other and stops at the first that fails. Earlier changes stay; the error counts
// them.
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
