package corebot

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
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

// AuditOutcomes are all outcomes.
func AuditOutcomes() []AuditOutcome {
	return []AuditOutcome{OutcomeSuccess, OutcomeDenied, OutcomeError, OutcomeInvalidArgs, OutcomeUnknown}
}

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
	// Seal is what the hash of the event has in the place of Args. The store makes it.
	Seal ArgsSeal
}

// ArgsSeal stands for the arguments of an event in its hash. So the arguments can be deleted with their chat, and the
// trail still verifies. The zero seal is of an older event, whose hash is over the arguments themselves.
type ArgsSeal struct {
	Salt []byte // random; empty: the arguments were deleted
	Sum  []byte // SHA-256 over the salt and the arguments
}

// SealArgs seals arguments with a salt.
func SealArgs(salt []byte, args string) ArgsSeal {
	h := sha256.New()
	_, _ = h.Write(salt)
	_, _ = h.Write([]byte(args))
	return ArgsSeal{salt, h.Sum(nil)}
}

// AuditFilter selects events. Zero fields select all.
type AuditFilter struct {
	Since, Until time.Time
	Agent        string // whose chats they are of
	Channel      string
	Chat         string // the id of a chat, of any account and thread
	Key          Key    // one chat exactly
	Sender       string
	Tool         string // or the name of a change, such as facts.forget
	Change       string // another name of the change; it counts beside a tool only
	Outcome      AuditOutcome
	Decisions    bool // also decisions before a call, which have no outcome yet
	Limit        int  // at most so many, the newest; 0: 100
}

// AuditChain is the result of a check of the audit trail's hash chain.
type AuditChain struct {
	Past     int64     `json:"past"`   // the last event before the chain: unchained, or deleted by retention; 0: none
	Events   int64     `json:"events"` // how many events follow it unbroken
	Head     AuditHead `json:"head"`
	PastHash string    `json:"pastHash,omitempty"` // of the event Past
	// Held counts the published heads that are on the chain, and Older those that retention has deleted since.
	// LeftBehind counts those that a restored backup left behind, and OtherDatabases those of another database.
	Held           int `json:"held,omitempty"`
	Older          int `json:"older,omitempty"`
	LeftBehind     int `json:"leftBehind,omitempty"`
	OtherDatabases int `json:"otherDatabases,omitempty"`
	// Emptied counts events whose arguments were deleted with their chat. The rest of such an event is checked.
	Emptied int64 `json:"emptied,omitempty"`
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

// PublishedHead is a head that was published outside of the database, and whose signature was checked.
type PublishedHead struct {
	AuditHead
	Database string    `json:"database"` // its id
	At       time.Time `json:"at"`       // when it was published
	EventAt  time.Time `json:"eventAt"`  // when its event was written
}

// AuditProof says to what a check of the trail is held.
type AuditProof struct {
	Heads    []PublishedHead `json:"heads,omitempty"`    // in the order of their publishing
	Restored []int64         `json:"restored,omitempty"` // events of restored backups that the operator knows
	Kept     time.Duration   `json:"kept,omitempty"`     // how long retention keeps events; 0: nobody says
}

// AuditRecord is an event as it is stored and hashed.
type AuditRecord struct {
	ID         int64  `json:"id"`
	At         int64  `json:"at"` // unix milliseconds
	Event      string `json:"event"`
	Tool       string `json:"tool"`
	Agent      string `json:"agent"`
	Channel    string `json:"channel"`
	Account    string `json:"account"`
	Chat       string `json:"chat"`
	Thread     string `json:"thread"`
	Sender     string `json:"sender"`
	Role       string `json:"role"`
	Entry      string `json:"entry"`
	Outcome    string `json:"outcome"`
	Rule       string `json:"rule"`
	Args       string `json:"args"`
	StepID     string `json:"stepId"`
	DurationMS int64  `json:"durationMs"`
	ArgsSalt   string `json:"argsSalt,omitempty"` // of an [ArgsSeal], in hexadecimal digits
	ArgsSum    string `json:"argsSum,omitempty"`
	Hash       string `json:"hash"` // in hexadecimal digits
}

// Sum is the hash of the record behind the hash of the event before it.
func (r AuditRecord) Sum(before []byte) []byte {
	h, version, args := auditDigest{sha256.New()}, "corebot audit 1", r.Args
	if r.ArgsSum != "" {
		version, args = "corebot audit 2", r.ArgsSum
	}
	h.text(version)
	h.text(string(before))
	h.number(r.ID)
	h.number(r.At)
	for _, field := range []string{
		r.Event, r.Tool, r.Agent, r.Channel, r.Account, r.Chat, r.Thread, r.Sender, r.Role, r.Entry, r.Outcome, r.Rule,
		args, r.StepID,
	} {
		h.text(field)
	}
	h.number(r.DurationMS)
	return h.Sum(nil)
}

// Emptied says whether the arguments of the event were deleted with their chat.
func (r AuditRecord) Emptied() bool { return r.ArgsSum != "" && r.ArgsSalt == "" && r.Args == "" }

// sealed says whether the arguments are those that were sealed, or were deleted whole.
func (r AuditRecord) sealed() bool {
	if r.ArgsSum == "" || r.Emptied() {
		return true
	}
	salt, err := hex.DecodeString(r.ArgsSalt)
	return err == nil && r.ArgsSalt != "" && hex.EncodeToString(SealArgs(salt, r.Args).Sum) == r.ArgsSum
}

// auditDigest hashes texts with their lengths and numbers at a fixed width, so that no field can run into the next.
type auditDigest struct{ hash.Hash }

func (d auditDigest) number(n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	_, _ = d.Write(b[:])
}

func (d auditDigest) text(s string) {
	d.number(int64(len(s)))
	_, _ = d.Write([]byte(s))
}

// AuditWalk checks a chain on the way from its beginning to its head.
type AuditWalk struct {
	Chain AuditChain
	hash  []byte
	met   map[int64]string // hashes of the chain at the events that heads name
}

// Begin starts a walk behind an event. It looks out for the heads of noted.
func (w *AuditWalk) Begin(past int64, sum []byte, noted []PublishedHead) {
	w.met = make(map[int64]string, len(noted))
	for _, h := range noted {
		w.met[h.Event] = ""
	}
	w.Chain.Past, w.Chain.PastHash = past, hex.EncodeToString(sum)
	w.reach(past, sum)
}

// Begun says whether the walk has begun.
func (w *AuditWalk) Begun() bool { return w.met != nil }

func (w *AuditWalk) reach(event int64, sum []byte) {
	w.hash = slices.Clone(sum)
	w.Chain.Head = AuditHead{Event: event, Hash: hex.EncodeToString(sum)}
	if _, noted := w.met[event]; noted {
		w.met[event] = w.Chain.Head.Hash
	}
}

// Step goes on to the next event. An event that does not follow the last one is a [*BrokenChain].
func (w *AuditWalk) Step(r AuditRecord) error {
	at := w.Chain.Head.Event
	if r.ID != at+1 {
		return &BrokenChain{Event: at + 1, Why: fmt.Sprintf("events %d to %d are missing", at+1, r.ID-1)}
	}
	sum := r.Sum(w.hash)
	if hex.EncodeToString(sum) != r.Hash || !r.sealed() {
		return &BrokenChain{Event: r.ID, Why: "it, or what was before it, is not what was written"}
	}
	w.Chain.Events++
	if r.Emptied() {
		w.Chain.Emptied++
	}
	w.reach(r.ID, sum)
	return nil
}

// Has says whether a head is on the way that was gone.
func (w *AuditWalk) Has(h AuditHead) bool { return h.Hash != "" && w.met[h.Event] == h.Hash }

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

// Newer counts what a database has from after a moment, such as that of a backup.
type Newer struct {
	Messages int64 `json:"messages"` // that were accepted
	Chats    int64 `json:"chats"`    // in which they were
	Replies  int64 `json:"replies"`  // that have a life of their own; those of a mailbox are part of their messages
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
	Files       int64 `json:"files"`     // that messages refer to, each content once
	FileBytes   int64 `json:"fileBytes"` // of them
}

// LaneHead is a lane with messages, and the first of them.
type LaneHead struct {
	Direction string `json:"direction"`
	Key       string `json:"key"`
	Message   string `json:"message"` // its id
	Depth     int64  `json:"depth"`   // how many messages the lane has
	Running   bool   `json:"running,omitempty"`
}
