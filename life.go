package corebot

import "time"

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
