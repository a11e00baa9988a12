package operate

import (
	"context"
	"fmt"

	"github.com/corebot/corebot/internal/control"
)

// Kind says what an operation does with a home, and so what it needs there.
type Kind int

// The kinds of operations.
const (
	Change  Kind = iota // it changes the home: it needs the running Corebot, or the lock of the home
	Read                // it only reads: it can also be carried out beside a Corebot, on the query-only database
	Walk                // it reads all of something: the caller carries it out itself, to spare the running Corebot
	Files               // it reads settings and files: the running Corebot knows more, and no database is needed
	Running             // only a running Corebot can carry it out
)

// Operation is one thing that a home can do on request, with the types of the request and the reply. Other processes
// call it by its name. A name keeps its meaning, because a command and the Corebot that it asks can be of different
// versions.
type Operation[A, R any] struct {
	Name string
	Kind Kind
	do   func(*Service, context.Context, A) (R, error)
}

// Call carries the operation out, wherever the caller does that.
func (o Operation[A, R]) Call(ctx context.Context, c control.Caller, args A) (R, error) {
	return control.Call[R](ctx, c, o.Name, args)
}

// Declare names an operation that no [Service] carries out: its types are those of a channel. Only a running Corebot
// has it; see [Bind].
func Declare[A, R any](name string) Operation[A, R] {
	return Operation[A, R]{Name: name, Kind: Running}
}

// Bind has a function carry out an operation of [Declare]. It panics if the operations have one of that name already.
// Were it a method, the program would have it for each operation.
func Bind[A, R any](o Operation[A, R], all control.Operations, do func(context.Context, A) (R, error)) {
	if _, taken := all[o.Name]; taken {
		panic(fmt.Sprintf("the operation %s is there twice", o.Name))
	}
	all[o.Name] = control.Typed(do)
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

func ofFiles[A, R any](name string, do func(*Service, context.Context, A) (R, error)) Operation[A, R] {
	return Operation[A, R]{name, Files, do}
}

func runs[A, R any](name string, do func(*Service, context.Context, A) (R, error)) Operation[A, R] {
	return Operation[A, R]{name, Running, do}
}

// entry is an operation in the table, whatever its types are.
type entry struct {
	name string
	kind Kind
	in   func(*Service) control.Operation
}

// table lists every operation of a service.
func table() []entry {
	return []entry{
		ListDeadLetters.entry(), ShowDeadLetter.entry(), FindDeadLetters.entry(),
		ReplayDeadLetters.entry(), EditDeadLetter.entry(), DropDeadLetters.entry(), PurgeDeadLetters.entry(),
		GiveUpHead.entry(), CountDeadLetters.entry(),
		BeginReplay.entry(), StepReplay.entry(), StopReplay.entry(), ListReplays.entry(),
		Why.entry(), ListWaiting.entry(), ListLanes.entry(),
		ReadStatus.entry(), ListUsage.entry(), SumUsage.entry(), ListAudit.entry(), VerifyAudit.entry(),
		ReadRecords.entry(), ReadHead.entry(), NewAuditKey.entry(),
		ListChats.entry(), FindChat.entry(), ShowChat.entry(), ReadHistory.entry(), SearchHistory.entry(),
		RegisterChat.entry(), ResetChat.entry(), SetQueueMode.entry(), SetChatAccess.entry(), SetChatModel.entry(),
		SetChatThink.entry(), ForkChat.entry(), RewindChat.entry(), LinkChats.entry(), UnlinkChat.entry(),
		ReadContext.entry(), DeleteChat.entry(), Reindex.entry(),
		ListGrants.entry(), FindPrincipal.entry(), GrantRole.entry(), RevokeGrant.entry(),
		ListTokens.entry(), AddToken.entry(), RevokeToken.entry(),
		AddLogin.entry(), ListSessions.entry(), RevokeSessions.entry(),
		ListPairings.entry(), DecidePairing.entry(), RemovePairing.entry(),
		ListApprovals.entry(), ShowApproval.entry(), ResolveApprovals.entry(), ListRules.entry(), RevokeRules.entry(),
		ReadGlobalMemory.entry(), ReadMemory.entry(), SearchMemory.entry(), TrustMemory.entry(), ForgetMemory.entry(),
		ListFacts.entry(), ShowFact.entry(), ForgetFacts.entry(), ListAttached.entry(),
		ListDeferred.entry(), ReleaseDeferred.entry(), DropDeferred.entry(),
		ListWaits.entry(), GiveWord.entry(),
		ListJobs.entry(), ShowJob.entry(), StopJobs.entry(),
		ListTasks.entry(), ShowTask.entry(), PreviewTask.entry(), CreateTask.entry(), ChangeTask.entry(),
		ListAgents.entry(), ShowAgent.entry(), ListSkills.entry(), ShowSkill.entry(), NoteSkill.entry(),
		ListServers.entry(), ShowServer.entry(), ReloadServers.entry(), ApproveTools.entry(),
		MakeBackup.entry(),
		Greet.entry(), ReadHealth.entry(), ReloadSettings.entry(), ListChannels.entry(), RestartChannel.entry(),
	}
}

// Operations are the operations that a service can carry out, by name. A service on a query-only database changes
// nothing. A service without a running Corebot has none of those that need one.
func Operations(s *Service, queryOnly bool) control.Operations {
	all := control.Operations{}
	for _, e := range table() {
		if e.kind == Change && queryOnly || e.kind == Running && s.running == nil {
			continue
		}
		all[e.name] = e.in(s)
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
