package corebot

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Lease is the right to work on the head of a lane. Epoch is the fencing token: every claim of a lane raises it. Every
// write on behalf of a claim names its epoch, so a worker that lost its lease changes nothing.
type Lease struct {
	Lane  int64
	Epoch int64
}

// Delivery is one claim of the message at the head of a lane.
type Delivery struct {
	Lease
	Life        int64 // the ID of the message's life row; never used again, and safe to show
	Message     Message
	Seq         int64     // the message's place in its lane
	Size        int       // of the stored body, in bytes
	Run         int       // 1 when published; a replay of a dead letter is the next run
	Attempt     int       // the number of this counted attempt in its run, from 1
	Limited     int       // attempts of this run that met a rate limit and were not counted
	LimitedAt   time.Time // when the first of them ended; zero: there is none
	Lost        int       // leases lost in a row without a new journal step
	Damaged     error     // the stored body cannot be read: the message can only be a dead letter
	Stopped     bool      // a /stop was accepted for this message: end it, do not run it
	Interrupted bool      // the stop came with a newer prompt
	Merges      bool      // when it was claimed, messages waited that its turn is to merge
	Journal     []Step    // the steps of earlier attempts of this run
	PublishedAt time.Time // when the message was accepted, or was to be delivered, by the store's clock
	ClaimedAt   time.Time
	ExpiresAt   time.Time // when the lease expires unless it is extended
}

// Opens says whether the turn begins a new session, provided that its sender may. The turn does so however it ends. A
// replay begins no session: the session began when the message became a dead letter.
func (d Delivery) Opens() bool { return d.Message.Kind == KindOpening && d.Run <= 1 }

// End is how a message's life ended. The values are stored; they never change.
type End string

const (
	EndAnswered End = "answered" // inbound: a turn ended and its replies are enqueued
	EndRefused  End = "refused"  // inbound: answered by a refusal
	EndStopped  End = "stopped"  // inbound: ended by /stop
	EndMerged   End = "merged"   // inbound: answered as part of another message's turn
	EndHeard    End = "heard"    // inbound: kept as context, and not answered
	EndReplaced End = "replaced" // inbound: it waited, and an edit took its place
	EndDeleted  End = "deleted"  // inbound: it waited, and its sender or an admin took it back
	EndApplied  End = "applied"  // control: took effect at accept
	EndSent     End = "sent"     // outbound: the channel took it
	EndDropped  End = "dropped"  // a dead letter that an operator dropped
	EndDead     End = "dead"     // in the dead letters
)

// OutcomeVerb is what a settle does with the head of a lane.
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
	// Defer defers the message: it leaves its lane until Outcome.At, and comes back at the tail. The lane goes on and
	// nothing is counted. Only a message whose run has not begun may be deferred.
	Defer
)

// Outcome is how a claim ends. There is no other way to end a claim.
type Outcome struct {
	Verb      OutcomeVerb
	At        time.Time // RetryAt, Wait, Defer
	End       End       // Done
	Reason    string    // one or two words that are counted, such as "attempts" or "poison" (Dead, Wait, Defer)
	Error     string    // the last error, for operators (RetryAt, Wait, Dead)
	Class     string    // the name of the error's [Class] (RetryAt, Dead); empty: there was no error
	Plain     string    // the error in one sentence, for anybody in the chat (RetryAt, Dead); empty: see [Explanation]
	Uncounted bool      // RetryAt: the attempt met a rate limit and is not counted
	// Done: a step that ends the journal, in the same commit, such as the receipt of a send; nil: none
	Last *Step
	// Done: what the turn says to the call that waits for it, or that began it as a [Job]; nil: nothing
	Says *Word
}

// NotNow is the reason of a [Wait] for something in the process, such as a terminal that is not open. The wait ends at
// the latest when another process begins.
const NotNow = "not now"

// Crowded is the reason of a [Wait] until other sends of the channel have ended.
const Crowded = "other sends"

// Flooded is the reason of a [Wait] until a platform takes messages again, which has asked Corebot to wait.
const Flooded = "flood limit"

// FloodWait is a chat in which a platform takes no message before a time.
type FloodWait struct {
	Account, Chat string
	Until         time.Time
}

// Unreadable is the reason of a lane that is set aside because its head cannot be read from the database. The store
// tries the head again ever more rarely, and when another process begins.
const Unreadable = "unreadable"

// Throttled is the reason of a throttled lane: its next message waits for the lane's rate.
const Throttled = "rate limit"

// HeldBack is the reason of a ready lane that another lane of its sender comes before, or whose sender has used up his
// rate.
const HeldBack = "sender's turn"

// ClaimOptions say how lanes are claimed.
type ClaimOptions struct {
	Lease time.Duration // how long each claimed lane is leased unless the lease is extended
	Rate  Rate          // how often a lane delivers another message
	// Turns is how many claims of the pool can be held at once, if senders are to share them fairly. Each sender gets
	// as many as the others leave, and at least one. Zero means first come, first served.
	Turns int
	// Sender is how often a sender's turns begin, over all chats. It holds only if Turns is set. Where a sender has no
	// id, the chat counts as the sender.
	Sender Rate
	Owner  OwnersChannel // the sender rate does not hold for it
	// Quarantine is the number of lost leases in a row from which a head is suspect. When a process dies, every message
	// in work loses its lease, whichever message killed it. Suspect heads are therefore claimed one at a time in their
	// pool: the next death shows the guilty one. Zero means no quarantine.
	Quarantine int
}

// Claim asks for up to Max ready lanes of a pool. With the zero value nothing is asked for.
type Claim struct {
	Pool    Pool
	Max     int
	Options ClaimOptions
}

// Quarantined is the reason of a lane whose suspect head waits while another suspect of its pool is claimed.
const Quarantined = "quarantine"

// Rate spaces the messages of one lane: on average one in each Every, and after a pause up to Burst at once. A rate
// refuses nothing; a message that is too early waits in its lane. Zero means no limit. An attempt after the first is
// not counted again.
type Rate struct {
	Every time.Duration
	Burst int
}

// Receipt is the answer of publish for one message. Exactly one of three is true: the message is new, it is a
// Duplicate, or Err is set.
type Receipt struct {
	Life      int64
	Duplicate bool  // the same message was accepted before; nothing changed
	Err       error // ErrConflict, ErrLaneFull, ErrOverloaded, ErrDiskFull; nothing changed
	Stops     int64 // the life whose turn this message stops by [ModeInterrupt]; 0: none
	Trace     Trace // of the publish; zero where nobody traces
}

// Cursor is how far an account of a channel has received. Position is the platform's own word for the place behind its
// last message, such as an update offset or a sync token. An account that never received has the zero Cursor.
type Cursor struct {
	Position string // opaque
	Moves    int64  // how often the account's cursor was stored: it fences off a run that has read an older one
}

// To is the cursor behind a batch that was received behind c.
func (c Cursor) To(position string) Cursor { return Cursor{Position: position, Moves: c.Moves} }

// Draft is an answer that a chat sees grow: a message of the platform that is edited until the answer takes its place.
// A conversation has one at most.
type Draft struct {
	Key     Key
	Answers string    // the id of the message that is being answered
	Shown   string    // the platform's id of the message that shows the draft; empty: it is not known yet
	Reply   string    // the id of the outbound message that takes its place; empty: none does yet
	Began   time.Time // when its message was sent, to the millisecond
}

// Bounds of a [Batch].
const (
	MaxBatch  = 256     // messages
	MaxCursor = 4 << 10 // bytes of a position
)

// Batch is messages that one account has received together, and the place behind the last of them.
type Batch struct {
	Channel, Account string
	Messages         []Message
	Cursor           Cursor // made with [Cursor.To] from the cursor that the batch was received behind
}

// Validate refuses a batch that is over a bound, or that no account can have received. The messages are not looked at.
func (b Batch) Validate() error {
	switch {
	case b.Channel == "" || validateName(b.Channel) != nil || validateName(b.Account) != nil:
		return fmt.Errorf("%w: %q has no account %q", ErrInvalid, b.Channel, b.Account)
	case len(b.Messages) > MaxBatch:
		return fmt.Errorf("%w: a batch of %d messages, the limit is %d", ErrTooLarge, len(b.Messages), MaxBatch)
	case len(b.Cursor.Position) > MaxCursor:
		return fmt.Errorf("%w: a cursor of %d bytes, the limit is %d", ErrTooLarge, len(b.Cursor.Position), MaxCursor)
	case !utf8.ValidString(b.Cursor.Position):
		return fmt.Errorf("%w: the cursor is not valid UTF-8", ErrInvalid)
	}
	return nil
}

// MaxHeard bounds the messages that a chat keeps as context without answering them: they are among the newest so many
// places of the chat.
const MaxHeard = 50

// Limits are the bounds that publish checks. Zero means no bound.
type Limits struct {
	LaneDepth  int64 // waiting messages of one lane
	TotalDepth int64 // waiting messages of one direction
	TotalBytes int64 // bytes of all waiting bodies
	// SenderDepth and SenderBytes bound the waiting messages of one sender, and the bytes of their bodies.
	SenderDepth, SenderBytes int64
	// The limits of a sender do not hold for the owner's channel. A sixteenth of the limits of all inbound messages is
	// reserved for it, so that nobody can lock the owner out.
	Owner   OwnersChannel
	Control Rate // of one sender's control messages in a chat that have nothing to act on; faster ones are refused
}

// ForOthers is the part of a limit of all inbound messages that is open to other channels than the owner's.
func (l Limits) ForOthers(limit int64) int64 {
	if l.Owner == "" {
		return limit
	}
	return limit - limit/16
}

// ForTasks are the limits of messages of due tasks. They can use half of the room for all messages, so that tasks that
// are due together keep nobody from writing.
func (l Limits) ForTasks() Limits {
	l.TotalDepth, l.TotalBytes = l.TotalDepth/2, l.TotalBytes/2
	return l
}

// Attempt is one claim of a message that ended without an answer.
type Attempt struct {
	Run int       `json:"run"`
	At  time.Time `json:"at"`
	// One of "retry", "wait", "lease_lost", "dead", "replayed" (between two runs) and "edit" (of an edit).
	What  string `json:"what"`
	Class string `json:"class,omitempty"` // the name of the error's [Class]
	Plain string `json:"plain,omitempty"` // the error in one sentence, for anybody: see [Explanation]
	Error string `json:"error,omitempty"` // for operators
}

// MaxAttemptsKept bounds the attempts that a life row remembers; the newest are kept.
const MaxAttemptsKept = 20

// BusyLanes is what lanes hold at one moment.
type BusyLanes struct {
	Lanes    int64   // that have messages
	Running  int64   // lanes whose turn runs
	Messages int64   // that wait or run
	Fronts   []Front // some of the lanes
}

// Front is a lane with messages.
type Front struct {
	Life     Life  // the message at its front
	Messages int64 // that the lane holds
}

// Life is everything known about one message, from publish to its end.
type Life struct {
	ID        int64     `json:"life"`
	Direction Direction `json:"-"`
	Key       Key       `json:"key"`
	MessageID string    `json:"id"`
	Kind      Kind      `json:"kind"`
	Sender    Principal `json:"sender,omitzero"`
	Run       int       `json:"run"`
	// for people: the End, or "running", "ready", "waiting behind others", "waiting: why", "deferred: why"
	State      string    `json:"state"`
	End        End       `json:"end,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	LastError  string    `json:"lastError,omitempty"`
	Attempts   int       `json:"attempts"` // counted attempts of the current run
	AttemptLog []Attempt `json:"attemptLog,omitempty"`
	Model      string    `json:"model,omitempty"` // the model that gave the answer
	Usage      Usage     `json:"usage,omitzero"`
	Estimated  int64     `json:"estimatedTokens,omitzero"` // of the usage: tokens that no provider counted
	// of the tokens that have a price, in millionths of the currency
	Cost           Money     `json:"cost,omitzero"`
	UnpricedTokens int64     `json:"unpricedTokens,omitzero"` // of models without a price
	PublishedAt    time.Time `json:"publishedAt"`
	DeliverAt      time.Time `json:"deliverAt,omitzero"` // when it was to be delivered, if it came before that time
	ClaimedAt      time.Time `json:"claimedAt,omitzero"` // when the claim began that ended the message or that runs
	WakeAt         time.Time `json:"wakeAt,omitzero"`    // when the waiting head is due
	EndedAt        time.Time `json:"endedAt,omitzero"`
	Message        *Message  `json:"message,omitempty"` // while the message waits or is dead
	Steps          []Step    `json:"steps,omitempty"`
	Cause          *Origin   `json:"cause,omitempty"`      // the message that it answers, or the edited dead letter
	Job            *OfJob    `json:"job,omitempty"`        // the job that it is
	MergedInto     *Origin   `json:"mergedInto,omitempty"` // the message whose turn merged it
	Replies        []Life    `json:"replies,omitempty"`    // replies, notices, and the edited message that replaced it
}

// Origin names the message that caused another, or that answered for it.
type Origin struct {
	Life      int64  `json:"life"`
	MessageID string `json:"id"`
}

// Busy says that a message was refused for want of room. Nothing was stored, and the same message can be accepted
// later. Err is [ErrLaneFull], [ErrSenderFull], [ErrCommandRate], [ErrOverloaded] or [ErrDiskFull].
type Busy struct {
	Err        error
	RetryAfter time.Duration // about when another try is worth it
	// Tell is set on the first refusal of an episode in a chat. A channel that can answer only in the chat then says
	// once that it is busy, and says nothing about the refusals that follow.
	Tell bool
}

func (b *Busy) Error() string { return b.Err.Error() }
func (b *Busy) Unwrap() error { return b.Err }

// Reasons of dead letters that notices explain in their own words. They are stored and counted; they never change.
const (
	ReasonAttempts = "attempts"               // every attempt failed
	ReasonTooLong  = "too long for the model" // the message and its context are more than the model takes
	ReasonPoison   = "poison"                 // its lease was lost too often in a row: see [Delivery.Lost]
	ReasonUnstored = "cannot be stored"       // the database refuses the result of its turn, and would refuse it again
	ReasonDamaged  = "damaged"                // the stored message cannot be read
)

// DeadReasons are all reasons of dead letters.
func DeadReasons() []string {
	return []string{
		ReasonAttempts, "permanent", ReasonTooLong, ReasonPoison, ReasonDamaged, ReasonUnstored, "ambiguous",
	}
}

// ReasonNoAnswer is why a message is refused that was meant as an answer to a request for an approval. It is stored; it
// never changes.
const ReasonNoAnswer = "no answer to an approval"

// DeadLetter is one row of the dead letters. ID is the ID of the message's life.
type DeadLetter struct {
	ID        int64     `json:"id"`
	Direction Direction `json:"-"`
	Key       Key       `json:"-"`
	MessageID string    `json:"messageId"`
	Sender    Principal `json:"-"` // of an inbound message
	Reason    string    `json:"reason"`
	Attempts  int       `json:"attempts"` // counted attempts of the run that failed
	LastError string    `json:"lastError"`
	CreatedAt time.Time `json:"createdAt"`
	DeadAt    time.Time `json:"deadAt"`
	Plain     string    `json:"-"` // why it was given up, in the sentence for everybody; empty: see Reason
	Head      string    `json:"-"` // the beginning of the text, for the list of a chat
}

// ChatLetters says which dead letters of a chat a command means, and what it does with them.
type ChatLetters struct {
	ID   int64     // one letter; 0: all of them, the oldest first, and at most [MaxChatLetters] at once
	Of   Principal // only of this sender, unless Any is set
	Any  bool
	Drop bool // give them up for good, instead of putting them back into the queue
}

// MaxChatLetters bounds the dead letters that one chat command lists or changes.
const MaxChatLetters = 50

// DeadLetterFilter selects dead letters. Zero fields select all.
type DeadLetterFilter struct {
	Direction Direction `json:"direction,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Channel   string    `json:"channel,omitempty"`
	Chat      string    `json:"chatId,omitempty"` // the id of a chat, of any account and thread
	Key       Key       `json:"key,omitzero"`     // one chat exactly
	Sender    string    `json:"senderId,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	After     time.Time `json:"after,omitzero"`  // dead at this moment or later
	Before    time.Time `json:"before,omitzero"` // dead before this moment
	Text      string    `json:"text,omitempty"`  // stands in what was said, in any case of its letters
	Error     string    `json:"error,omitempty"` // stands in the last error, likewise
	Limit     int       `json:"limit,omitempty"` // at most so many, newest first; 0: no limit
}

// maxFilterText bounds each text of a filter, in bytes.
const maxFilterText = 1_000

// Validate refuses a filter with a text that no dead letter can have.
func (f DeadLetterFilter) Validate() error {
	for _, text := range []string{f.Agent, f.Channel, f.Chat, f.Sender, f.Reason, f.Text, f.Error} {
		switch {
		case len(text) > maxFilterText:
			return fmt.Errorf("%w: a filter with a text of %d bytes, the limit is %d", ErrInvalid, len(text),
				maxFilterText)
		case !utf8.ValidString(text):
			return fmt.Errorf("%w: the filter's %q is not valid UTF-8", ErrInvalid, text)
		}
	}
	if f.Reason != "" && !slices.Contains(DeadReasons(), f.Reason) {
		return fmt.Errorf("%w: reason %.60q: want one of %q", ErrInvalid, f.Reason, DeadReasons())
	}
	return nil
}

// DeadBy says by what dead letters are counted. Every count is by direction, too.
type DeadBy string

// The ways to count dead letters.
const (
	DeadByReason  DeadBy = "reason"
	DeadByCause   DeadBy = "cause" // what the chat was told, or else the error
	DeadByAgent   DeadBy = "agent"
	DeadByChannel DeadBy = "channel"
	DeadByChat    DeadBy = "chat"
)

// DeadGroup is what the dead letters of a group have in common.
type DeadGroup struct {
	Direction string `json:"direction"`
	Reason    string `json:"reason,omitempty"`
	Cause     string `json:"cause,omitempty"`
	Agent     string `json:"agent,omitempty"`
	Channel   string `json:"channel,omitempty"`
	Chat      string `json:"chat,omitempty"` // its key
}

// DeadCount counts a group of dead letters.
type DeadCount struct {
	DeadGroup
	Count     int64     `json:"count"`
	Oldest    time.Time `json:"oldest"`    // when the oldest was given up
	Newest    time.Time `json:"newest"`    // when the newest was given up
	LastID    int64     `json:"lastId"`    // the newest
	LastError string    `json:"lastError"` // of the newest
}

// DeadCounts are the groups of dead letters, the largest first. Others counts the letters of the groups for which there
// was no room.
type DeadCounts struct {
	Groups []DeadCount `json:"groups"`
	Others int64       `json:"others,omitempty"`
	Total  int64       `json:"total"`
}

// Replaying is a replay of all dead letters that a filter means. It goes on after a restart.
type Replaying struct {
	ID      int64            `json:"id"`
	Filter  DeadLetterFilter `json:"filter"`
	Fresh   bool             `json:"fresh,omitempty"`
	Every   time.Duration    `json:"every,omitempty"` // from one letter to the next, in nanoseconds; 0: at once
	Done    int              `json:"done"`            // letters that are back in the queue
	Left    int              `json:"left"`            // letters that stay dead, because the queue had no room
	Why     string           `json:"why,omitempty"`   // why the last of them stays, or why it waits
	NextAt  time.Time        `json:"nextAt,omitzero"` // when the next letters are due
	BeganAt time.Time        `json:"beganAt"`
	EndedAt time.Time        `json:"endedAt,omitzero"` // zero: it goes on
	Stopped bool             `json:"stopped,omitempty"`
}

// Replayed is the result of a replay of several dead letters.
type Replayed struct {
	Done int   // back in the queue, or dropped
	Left int   // still dead: the queue had no room for them
	More int   // further ones that a chat command means, and did not reach
	Why  error // the error of the first letter that was left: [ErrLaneFull], [ErrOverloaded] or [ErrDiskFull]
}
