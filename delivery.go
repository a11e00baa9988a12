package corebot

import (
	"time"
)

// Lease is the right to work on the head of a lane. Epoch is the fencing token: every claim of a lane raises it, and
// every write on behalf of a claim names it, so that a worker that lost its lease changes nothing.
type Lease struct {
	Lane  int64
	Epoch int64
}

// Delivery is one claim of the message at the head of a lane.
type Delivery struct {
	Lease
	Life        int64 // the message's life row; never used again, may be shown
	Message     Message
	Seq         int64     // the message's place in its lane
	Size        int       // of the stored body, in bytes
	Run         int       // 1 when published; a replay of a dead letter is the next run
	Attempt     int       // which counted attempt of this run this is, from 1
	Limited     int       // attempts of this run that met a rate limit and were not counted
	LimitedAt   time.Time // of the first of them; zero if there is none
	Lost        int       // leases lost in a row without a new journal step
	Damaged     error     // the stored body cannot be read: the message can only be a dead letter
	Stopped     bool      // a /stop was accepted for this message: end it, do not run it
	Interrupted bool      // the stop came with a newer prompt
	Merges      bool      // when it was claimed, messages waited that its turn is to take in
	Journal     []Step    // what earlier attempts of this run have done
	PublishedAt time.Time // accepted, by the store's clock
	ClaimedAt   time.Time
	ExpiresAt   time.Time // when the lease is lost unless it is extended
}

// Opens says whether the turn begins a new session, whatever becomes of it, if its sender may. A replay does not: the session began when the
// message was given up.
func (d Delivery) Opens() bool { return d.Message.Kind == KindOpening && d.Run <= 1 }

// End is how a message's life ended. The values are stored; they never change.
type End string

const (
	EndAnswered End = "answered" // inbound: a turn ended and its replies are enqueued
	EndRefused  End = "refused"  // inbound: answered by a refusal
	EndStopped  End = "stopped"  // inbound: ended by /stop
	EndMerged   End = "merged"   // inbound: answered as part of another message's turn
	EndApplied  End = "applied"  // control: took effect at accept
	EndSent     End = "sent"     // outbound: the channel took it
	EndDropped  End = "dropped"  // a dead letter that an operator gave up
	EndDead     End = "dead"     // in the dead letters
)

// OutcomeVerb is what settling does with the head of a lane.
type OutcomeVerb uint8

const (
	// Done ends the message's life with Outcome.End; the lane goes on.
	Done OutcomeVerb = iota + 1
	// RetryAt keeps the message at the head until Outcome.At and counts the attempt, unless it is Outcome.Uncounted.
	RetryAt
	// Wait keeps the message at the head until Outcome.At and counts nothing: a shutdown, an approval, a rate limit.
	Wait
	// Dead moves the message to the dead letters with Outcome.Reason; the lane goes on.
	Dead
	// Park takes the message out of its lane until Outcome.At, when it comes back at the tail; the lane goes on. It counts nothing.
	// Only a message whose run has not begun may be parked.
	Park
)

// Outcome is the end of one claim. Nothing else can be written.
type Outcome struct {
	Verb      OutcomeVerb
	At        time.Time // RetryAt, Wait, Park
	End       End       // Done
	Reason    string    // why: a word or two that is counted (Dead, Wait, Park), such as "attempts" or "poison"
	Error     string    // the last error, for operators (RetryAt, Dead)
	Class     string    // the name of the error's [Class] (RetryAt, Dead); empty: there was no error
	Plain     string    // the error in one sentence, for anybody in the chat (RetryAt, Dead); empty: see [Explanation]
	Uncounted bool      // RetryAt: the attempt met a rate limit and is not counted
}

// NotNow is the reason of a [Wait] for something of the process, such as a terminal that is not open. It ends when another
// process begins.
const NotNow = "not now"

// Crowded is the reason of a [Wait] for other sends of the channel to end.
const Crowded = "other sends"

// Unreadable is the reason of a lane that is set aside: its head cannot be read from the database. Its head is tried again, ever more rarely,
// and when another process begins.
const Unreadable = "unreadable"

// Paced is the reason of a lane whose next message waits for the lane's rate.
const Paced = "rate limit"

// Terms are what a claim is made on.
type Terms struct {
	Lease time.Duration // how long each claimed lane is ours unless the lease is extended
	Rate  Rate          // how often a lane gives out another message
	// Turns is how many claims of the pool can be held at once, if they are to be shared fairly between the senders: each gets as many as are
	// left for the others, and one at least. Zero means first come, first served.
	Turns int
	// Sender is how often a sender's turns begin, over all chats; it holds with Turns only. Where a sender has no id, the chat is the sender.
	Sender Rate
	// Owner is the channel of who owns the machine, for whom that rate does not hold; empty: none.
	Owner string
	// Quarantine keeps the innocent from dying with the guilty. When a process dies, every message that it worked on has lost its lease,
	// whoever it died of. Heads that have lost it so many times in a row are claimed one at a time in their pool, so that the next death
	// tells. Zero means no quarantine.
	Quarantine int
}

// Owns says whether a conversation is the owner's.
func (t Terms) Owns(k Key) bool { return t.Owner != "" && k.Channel == t.Owner }

// Quarantined is the reason of a lane whose head waits until no other suspect of its pool is at work.
const Quarantined = "quarantine"

// Rate spaces the messages of one lane: on average one in Every, and after a pause up to Burst at once. It never refuses
// anything; what comes faster waits in its lane. Zero means no limit. A message that is tried again is not counted again.
type Rate struct {
	Every time.Duration
	Burst int
}

// Receipt is what publish says of one message. Exactly one of three is true: it is new, it is a Duplicate, or Err is set.
type Receipt struct {
	Life      int64
	Duplicate bool  // the same message was accepted before; nothing changed
	Err       error // ErrConflict, ErrLaneFull, ErrOverloaded, ErrDiskFull; nothing changed
	Stops     int64 // the life whose turn ends because of this message, by [ModeInterrupt]; 0: none
}

// Limits are the caps that publish holds a message to. Zero means no cap.
type Limits struct {
	LaneDepth  int64 // waiting messages of one lane
	TotalDepth int64 // waiting messages of one direction
	TotalBytes int64 // bytes of all waiting bodies
	// SenderDepth and SenderBytes are what may wait of one sender: messages, and bytes of their bodies.
	SenderDepth, SenderBytes int64
	// Owner is the channel of who owns the machine, such as the terminal. The limits of a sender are not for it, and a sixteenth of those
	// of all inbound messages is kept for it: nobody can lock the owner out. Empty means none.
	Owner   string
	Control Rate // of one sender's control messages in a chat that find nothing to do; faster ones are refused
}

// Owns says whether a conversation is the owner's.
func (l Limits) Owns(k Key) bool { return l.Owner != "" && k.Channel == l.Owner }

// ForOthers is what is left of a limit of all inbound messages for who is not the owner.
func (l Limits) ForOthers(limit int64) int64 {
	if l.Owner == "" {
		return limit
	}
	return limit - limit/16
}

// Attempt is one claim of a message that did not answer it.
type Attempt struct {
	Run   int       `json:"run"`
	At    time.Time `json:"at"`
	What  string    `json:"what"`            // "retry", "wait", "lease_lost", "dead"; "replayed" between two runs
	Class string    `json:"class,omitempty"` // the name of the error's [Class]
	Plain string    `json:"plain,omitempty"` // the error in one sentence, for anybody: see [Explanation]
	Error string    `json:"error,omitempty"` // for operators
}

// MaxAttemptsKept bounds the attempts that a life row remembers; the newest are kept.
const MaxAttemptsKept = 20

// Life is everything known of one message, from publish to its end.
type Life struct {
	ID             int64     `json:"life"`
	Direction      Direction `json:"-"`
	Key            Key       `json:"key"`
	MessageID      string    `json:"id"`
	Kind           Kind      `json:"kind"`
	Sender         Principal `json:"sender,omitzero"`
	Run            int       `json:"run"`
	State          string    `json:"state"` // for people: the End, or "running", "ready", "waiting behind others", "waiting: why", "parked: why"
	End            End       `json:"end,omitempty"`
	Reason         string    `json:"reason,omitempty"`
	LastError      string    `json:"lastError,omitempty"`
	Attempts       int       `json:"attempts"` // counted ones of the current run
	AttemptLog     []Attempt `json:"attemptLog,omitempty"`
	Model          string    `json:"model,omitempty"` // that gave the answer
	Usage          Usage     `json:"usage,omitzero"`
	Estimated      int64     `json:"estimatedTokens,omitzero"` // of the usage: tokens that no provider counted
	Cost           Money     `json:"cost,omitzero"`            // of the tokens that have a price, in millionths of the currency
	UnpricedTokens int64     `json:"unpricedTokens,omitzero"`  // of models without a price
	PublishedAt    time.Time `json:"publishedAt"`
	ClaimedAt      time.Time `json:"claimedAt,omitzero"` // of the claim that ended it, or that runs
	WakeAt         time.Time `json:"wakeAt,omitzero"`    // when a waiting head is due
	EndedAt        time.Time `json:"endedAt,omitzero"`
	Message        *Message  `json:"message,omitempty"` // while it waits or is dead
	Steps          []Step    `json:"steps,omitempty"`
	Cause          *Origin   `json:"cause,omitempty"`      // what it came of: the message that it answers, or the dead letter that was edited
	MergedInto     *Origin   `json:"mergedInto,omitempty"` // the message whose turn took it in
	Replies        []Life    `json:"replies,omitempty"`    // caused by it: replies, notices, and the edited message that took its place
}

// Origin names the message that caused another, or that answered for it.
type Origin struct {
	Life      int64  `json:"life"`
	MessageID string `json:"id"`
}

// Busy says that a message was refused for want of room: nothing was stored, and the same message may be accepted later. Err is
// [ErrLaneFull], [ErrSenderFull], [ErrCommandRate], [ErrOverloaded] or [ErrDiskFull].
type Busy struct {
	Err        error
	RetryAfter time.Duration // when another try is worth it, about
	// Tell is set on the first refusal of an episode in a chat. A channel that has no other way to answer than in the chat says there
	// that it is busy, once, and is silent about the refusals that follow.
	Tell bool
}

func (b *Busy) Error() string { return b.Err.Error() }
func (b *Busy) Unwrap() error { return b.Err }
