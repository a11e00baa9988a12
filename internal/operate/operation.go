package operate

import (
	"context"

	"github.com/corebot/corebot/internal/control"
)

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
		ReplayDeadLetters.entry(), EditDeadLetter.entry(), DropDeadLetters.entry(), PurgeDeadLetters.entry(), GiveUpHead.entry(),
		Why.entry(), ReadStatus.entry(), ListUsage.entry(), ListAudit.entry(), VerifyAudit.entry(),
		ListChats.entry(), FindChat.entry(), ShowChat.entry(), RegisterChat.entry(), ResetChat.entry(),
		SetQueueMode.entry(), SetChatAccess.entry(), SetChatModel.entry(),
		ListGrants.entry(), GrantRole.entry(), RevokeGrant.entry(),
		ListApprovals.entry(), ShowApproval.entry(), ResolveApprovals.entry(),
		ListParked.entry(), ReleaseParked.entry(), DropParked.entry(),
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
