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
	OutcomeUnknown     AuditOutcome = "unknown" // begun before a crash; nobody knows whether the call took effect
)

// AuditEvent is one row of the audit trail. Args are redacted before they get here.
type AuditEvent struct {
	ID int64
	At time.Time
	// Event is "tool.decision" before a call that has side effects or is not open to everyone, and "tool.result" after
	// every call.
	Event     string
	Tool      string
	Key       Key
	Principal Principal
	Role      Role
	Entry     EntryKind    // how the turn or the change came about
	Outcome   AuditOutcome // empty in a decision that allows and in a request for an approval: nothing has ended
	Rule      string       // the policy rule that decided
	Args      string       // JSON
	Duration  time.Duration
	StepID    string
	Label     string // the tool's name in the counters; not stored
}

// AuditFilter selects events. Zero fields select all.
type AuditFilter struct {
	Since, Until time.Time
	Agent        string // whose chats they are of
	Channel      string
	Chat         string // the id of a chat, of any account and thread
	Key          Key    // one chat exactly
	Sender       string
	Tool         string
	Outcome      AuditOutcome
	Decisions    bool // also decisions before a call, which have no outcome yet
	Limit        int  // at most so many, the newest; 0: 100
}

// AuditChain is the result of a check of the audit trail's hash chain.
type AuditChain struct {
	Past   int64     `json:"past"`   // the last event before the chain: unchained, or deleted by retention; 0: none
	Events int64     `json:"events"` // how many events follow it unbroken
	Head   AuditHead `json:"head"`
}

// AuditHead is the newest event with its hash. A head that is noted outside of Corebot's reach proves later that no
// event up to it has changed.
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
		return AuditHead{}, fmt.Errorf("%w: the head %q: want EVENT:HASH, a number and 64 hexadecimal digits, as it "+
			"was printed", ErrInvalid, s)
	}
	return AuditHead{Event: n, Hash: hash}, nil
}

// BrokenChain says where the audit trail differs from what was written.
type BrokenChain struct {
	Event int64
	Why   string
}

func (e *BrokenChain) Error() string {
	return fmt.Sprintf("the audit trail is broken at event %d: %s", e.Event, e.Why)
}

// Inventory says what the database had at one moment. A copy of the database is known by it.
type Inventory struct {
	Database   string     `json:"database"` // its id
	Schema     int64      `json:"schema"`
	Commits    int64      `json:"commits"`      // the number of the last commit
	LastCommit time.Time  `json:"lastCommitAt"` // zero: before the first
	Counts     Counts     `json:"counts"`
	Lanes      []LaneHead `json:"lanes"` // with messages, at most [MaxLaneHeads], in the order in which they are due
	Audit      AuditHead  `json:"auditHead"`
}

// MaxLaneHeads bounds the lanes of an [Inventory].
const MaxLaneHeads = 1000

// Counts are the rows of an [Inventory].
type Counts struct {
	Messages    int64 `json:"messages"`    // whose lives are kept
	Waiting     int64 `json:"waiting"`     // inbound messages without an end, those at work included
	Running     int64 `json:"running"`     // those of them that were at work
	Deferred    int64 `json:"deferred"`    // by a budget
	Outbound    int64 `json:"outbound"`    // replies that wait to be sent
	Lanes       int64 `json:"lanes"`       // with messages
	DeadLetters int64 `json:"deadLetters"` // in both directions
	Chats       int64 `json:"chats"`
	History     int64 `json:"history"`   // entries
	Mailbox     int64 `json:"mailbox"`   // replies that callers can fetch
	Tasks       int64 `json:"tasks"`     // that are not done
	Approvals   int64 `json:"approvals"` // calls that wait for an approval
	AuditEvents int64 `json:"auditEvents"`
}

// LaneHead is a lane with messages, and the first of them.
type LaneHead struct {
	Direction string `json:"direction"`
	Key       string `json:"key"`
	Message   string `json:"message"` // its id
	Depth     int64  `json:"depth"`   // how many messages the lane has
	Running   bool   `json:"running,omitempty"`
}
