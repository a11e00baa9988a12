package corebot

import (
	"crypto/sha256"
	"time"
)

// Effect is one change of Corebot's own database that a tool asks for, as data. The store applies the effect in the
// commit that journals the tool's outcome. Either both happened or neither, so a crash never leaves such a call
// unknown.
//
// The interface is sealed: its types are the types of this file, as values. Each type has one handler, beside its
// aggregate in package storage. A call has at most one effect. Changes that belong into one commit are one type, such
// as [BecomeFirstAdmin].
type Effect interface{ effect() }

// ReplayDeadLetter replays a dead letter of an agent.
type ReplayDeadLetter struct {
	ID    int64
	Agent string // the agent that must own the letter; empty: any agent
}

// SendMessage sends a message of the agent into a conversation. The message answers nothing in that conversation.
type SendMessage struct {
	To    Key
	Text  string
	Known bool // refuse a conversation that nobody has ever used
}

// AskAgent sends a question to another agent, in the conversation that the two have about the one of the turn. The
// answer comes back into the conversation of the turn, as a message. One question at a time is under way there.
type AskAgent struct {
	Agent string
	Text  string
	Asks  Caller // on whose behalf the turn asks, with its taint
}

// RegisterChat marks a chat as registered.
type RegisterChat struct{ Chat Key }

// GrantRole gives a principal a role, in one chat or (zero Chat) everywhere.
type GrantRole struct {
	Principal Principal
	Role      Role
	Chat      Key
}

// BecomeFirstAdmin makes the principal of the call the first admin, everywhere, and registers a chat. Both need the
// right bootstrap key. A wrong key is counted, the call ends as [Denied], and nothing else changes.
type BecomeFirstAdmin struct {
	Bootstrap KeyHash
	Chat      Key
}

// ScheduleTask stores a new task.
type ScheduleTask struct {
	Task   Task
	Limits TaskLimits
}

// ChangeTask changes a task, as a caller has read it.
type ChangeTask struct {
	ID      int64
	Version int64
	Action  TaskAction
	Next    time.Time // the next due time, to resume
}

func (ReplayDeadLetter) effect() {}
func (SendMessage) effect()      {}
func (AskAgent) effect()         {}
func (RegisterChat) effect()     {}
func (GrantRole) effect()        {}
func (BecomeFirstAdmin) effect() {}
func (ScheduleTask) effect()     {}
func (ChangeTask) effect()       {}

// Refused says that an [Effect] was not applied because a rule of the data forbids it, such as a missing row. Nothing
// was changed. Any other error of an effect means trouble with the store, or a lost lease.
type Refused struct{ Err error }

func (r *Refused) Error() string { return r.Err.Error() }
func (r *Refused) Unwrap() error { return r.Err }

// Denied says that the caller may not have an [Effect]. Unlike a [Refused], a denial is stored. The call ends with
// [Denied.Result], in the commit that counted the attempt.
type Denied struct {
	Rule   string // as the audit names it
	Reason string // for a model or a person
}

func (d *Denied) Error() string { return "denied: " + d.Reason }

// Result is what the model sees of the call.
func (d *Denied) Result() ToolResult { return ToolResult{Outcome: OutcomeDenied, Content: d.Error()} }

// KeyHash stands for a key that must not travel further. All hashes have one length, so that a comparison tells nothing
// about either key. The zero KeyHash stands for no key.
type KeyHash [sha256.Size]byte

func HashKey(key string) KeyHash { return sha256.Sum256([]byte(key)) }
