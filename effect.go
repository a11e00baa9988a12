package corebot

import "crypto/sha256"

// Effect is a change of Corebot's own database that a tool asks for, as data. It is carried out in the very commit that journals the
// tool's outcome: either both happened or neither, so that a crash never leaves such a call unknown. The zero Effect changes nothing.
type Effect struct {
	Replay   int64 // the dead letter to put back into the queue
	Post     Post  // the message to send into a conversation
	Register Key   // the chat to mark as registered
	Grant    Grant // the role to give, by who makes the change
	// Bootstrap is the hash of a key by which who makes the change asks to be the first admin, everywhere. Only the right one lets the
	// rest of the effect happen; a wrong one is counted, and the call ends as [Denied].
	Bootstrap KeyHash
}

// Refused says that an [Effect] was not made because a rule of the data forbids it, such as a thing that is not there. Nothing was
// changed. Any other error of an effect is trouble with the store, or a lost lease.
type Refused struct{ Err error }

func (r *Refused) Error() string { return r.Err.Error() }
func (r *Refused) Unwrap() error { return r.Err }

// Denied says that who asked for an [Effect] may not have it. Unlike a [Refused] it is stored: the call has ended with [Denied.Result], in the
// commit that counted the attempt.
type Denied struct {
	Rule   string // as the audit names it
	Reason string // for a model or a person
}

func (d *Denied) Error() string { return "denied: " + d.Reason }

// Result is what the model sees of the call.
func (d *Denied) Result() ToolResult { return ToolResult{Outcome: OutcomeDenied, Content: d.Error()} }

// KeyHash stands for a key that must not travel any further. All have one length, so that comparing two tells nothing of either. The zero
// KeyHash is none.
type KeyHash [sha256.Size]byte

// HashKey makes the hash of a key.
func HashKey(key string) KeyHash { return sha256.Sum256([]byte(key)) }
