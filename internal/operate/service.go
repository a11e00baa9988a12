package operate

import (
	"context"
	"fmt"

	"github.com/corebot/corebot/internal/control"
)

// Service carries out operations on one home.
type Service struct{ stores Stores }

// Stores are what a service works on.
type Stores struct {
	DeadLetters  DeadLetters
	Lives        Lives
	Audit        Audit
	Chats        Chats
	ChatSettings ChatSettings
	History      History
	Roles        Roles
	Approvals    Approvals
	Books        Books
	Deferred     Deferred
	Figures      Figures
}

// New is the service on some stores. All of them are required.
func New(s Stores) *Service { return &Service{s} }

// MaxRows bounds the rows of one page.
const MaxRows = 1000

// Part says which part of a list is wanted.
type Part struct {
	After string `json:"after,omitempty"` // the Next of the page before; empty: the beginning
	Limit int    `json:"limit,omitempty"` // at most so many rows; 0, or more than [MaxRows], is MaxRows
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

// Done is the result of a change that has nothing else to tell.
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

// Kind says what an operation does with a home.
type Kind int

// The kinds of operations.
const (
	Change Kind = iota // it changes the home: it needs the running Corebot, or the lock of the home
	Read               // it only reads: it can also be carried out beside a Corebot, on the query-only database
	Walk               // it reads all of something: the caller carries it out itself, to spare the running Corebot
)

// Operation is one method of the service under the name that other processes call it by. The names never change: a
// command and the Corebot that it asks can be of different versions.
type Operation[A, R any] struct {
	Name string
	Kind Kind
	do   func(*Service, context.Context, A) (R, error)
}

// Call carries the operation out, wherever the caller does that.
func (o Operation[A, R]) Call(ctx context.Context, c control.Caller, args A) (R, error) {
	return control.Call[R](ctx, c, o.Name, args)
}

func (o Operation[A, R]) entry() entry {
	return entry{o.Name, o.Kind, func(s *Service) control.Operation {
		return control.Typed(func(ctx context.Context, args A) (R, error) { return o.do(s, ctx, args) })
	}}
}

func changes[A, R any](name string, do func(*Service, context.Context, A) (R, error)) Operation[A, R] {
	return Operation[A, R]{name, Change, do}
}

func reads[A, R any](name string, do func(*Service, context.Context, A) (R, error)) Operation[A, R] {
	return Operation[A, R]{name, Read, do}
}

func walks[A, R any](name string, do func(*Service, context.Context, A) (R, error)) Operation[A, R] {
	return Operation[A, R]{name, Walk, do}
}

// entry is an operation in the table, whatever its types are.
type entry struct {
	name string
	kind Kind
	in   func(*Service) control.Operation
}

// table lists every operation.
func table() []entry {
	return []entry{
		ListDeadLetters.entry(), ShowDeadLetter.entry(), FindDeadLetters.entry(),
		ReplayDeadLetters.entry(), EditDeadLetter.entry(), DropDeadLetters.entry(), PurgeDeadLetters.entry(),
		GiveUpHead.entry(),
		Why.entry(), ReadStatus.entry(), ListUsage.entry(), ListAudit.entry(), VerifyAudit.entry(),
		ListChats.entry(), FindChat.entry(), ShowChat.entry(), RegisterChat.entry(), ResetChat.entry(),
		SetQueueMode.entry(), SetChatAccess.entry(), SetChatModel.entry(),
		ListGrants.entry(), GrantRole.entry(), RevokeGrant.entry(),
		ListApprovals.entry(), ShowApproval.entry(), ResolveApprovals.entry(),
		ListDeferred.entry(), ReleaseDeferred.entry(), DropDeferred.entry(),
	}
}

// Operations are the operations of a service, by name. A service on a query-only database has those that read.
func Operations(s *Service, queryOnly bool) control.Operations {
	all := control.Operations{}
	for _, e := range table() {
		if e.kind != Change || !queryOnly {
			all[e.name] = e.in(s)
		}
	}
	return all
}

// KindOf says what the operation of a name does. An unknown name is a [Change].
func KindOf(name string) Kind {
	for _, e := range table() {
		if e.name == name {
			return e.kind
		}
	}
	return Change
}
