package corebot

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// AuditOutcome is how a tool call ended. The values are stored; they never change.
type AuditOutcome string

const (
	OutcomeSuccess     AuditOutcome = "success"
	OutcomeDenied      AuditOutcome = "denied"
	OutcomeError       AuditOutcome = "error"
	OutcomeInvalidArgs AuditOutcome = "invalid_args"
	OutcomeUnknown     AuditOutcome = "unknown" // begun before a crash; whether it took effect nobody knows
)

// AuditEvent is one row of the audit trail. Args are redacted before they get here.
type AuditEvent struct {
	ID        int64
	At        time.Time
	Event     string // "tool.decision" before a call runs that has side effects or that not everyone may make, "tool.result" after every call
	Tool      string
	Key       Key
	Principal Principal
	Role      Role
	Entry     EntryKind    // how the turn, or the change, came about
	Outcome   AuditOutcome // empty where nothing has ended: in a decision that allows, and in a request for an approval
	Rule      string       // the policy rule that decided
	Args      string       // JSON
	Duration  time.Duration
	StepID    string
	Label     string // how the counters name the tool whose call ended; it is not stored
}

// AuditFilter says which events are wanted. Zero fields mean all.
type AuditFilter struct {
	Since, Until time.Time
	Channel      string
	Chat         string // the id of a chat, of any account and thread
	Key          Key    // one chat exactly
	Sender       string
	Tool         string
	Outcome      AuditOutcome
	Decisions    bool // also those written before a call ran, which have no outcome yet
	Limit        int  // the newest that many; 0 means 100
}

// AuditChain is what a walk along the audit trail found.
type AuditChain struct {
	Past   int64     `json:"past"`   // the last event before the chain: of a time without one, or taken away by retention; 0 if there is none
	Events int64     `json:"events"` // that follow one another unbroken behind it
	Head   AuditHead `json:"head"`
}

// AuditHead is the newest event with its hash. Noted outside of Corebot's reach it proves later that nothing up to it has changed.
type AuditHead struct {
	Event int64  `json:"event"`
	Hash  string `json:"hash"` // SHA-256 in hexadecimal digits; empty before the first event
}

// String writes a head as [ParseAuditHead] reads it.
func (h AuditHead) String() string { return fmt.Sprintf("%d:%s", h.Event, h.Hash) }

// ParseAuditHead reads EVENT:HASH.
func ParseAuditHead(s string) (AuditHead, error) {
	event, hash, found := strings.Cut(s, ":")
	n, err := strconv.ParseInt(event, 10, 64)
	if !found || err != nil || n < 1 || len(hash) != 64 || strings.Trim(hash, "0123456789abcdef") != "" {
		return AuditHead{}, fmt.Errorf("%w: the head %q: want EVENT:HASH, a number and 64 hexadecimal digits, as it was printed", ErrInvalid, s)
	}
	return AuditHead{Event: n, Hash: hash}, nil
}

// BrokenChain says where the audit trail is not what was written.
type BrokenChain struct {
	Event int64
	Why   string
}

func (e *BrokenChain) Error() string {
	return fmt.Sprintf("the audit trail is broken at event %d: %s", e.Event, e.Why)
}
