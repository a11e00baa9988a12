package corebot

import "time"

// Attempt is one claim that did not end its message.
type Attempt struct {
	Run   int       `json:"run"`
	At    time.Time `json:"at"`
	What  string    `json:"what"` // "retry", "wait", "lease_lost"
	Error string    `json:"error,omitempty"`
}

// MaxAttemptsKept bounds the attempts that a life row remembers; the newest are kept.
const MaxAttemptsKept = 20

// Life is everything known of one message, from publish to its end.
type Life struct {
	ID          int64     `json:"life"`
	Direction   Direction `json:"-"`
	Key         Key       `json:"key"`
	MessageID   string    `json:"id"`
	Kind        Kind      `json:"kind"`
	Sender      Principal `json:"sender,omitzero"`
	Run         int       `json:"run"`
	State       string    `json:"state"` // for people: the End, or "running", "ready", "waiting behind others", "waiting: why"
	End         End       `json:"end,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	LastError   string    `json:"lastError,omitempty"`
	Attempts    int       `json:"attempts"` // counted ones of the current run
	AttemptLog  []Attempt `json:"attemptLog,omitempty"`
	Usage       Usage     `json:"usage,omitzero"`
	PublishedAt time.Time `json:"publishedAt"`
	ClaimedAt   time.Time `json:"claimedAt,omitzero"` // of the claim that ended it, or that runs
	WakeAt      time.Time `json:"wakeAt,omitzero"`    // when a waiting head is due
	EndedAt     time.Time `json:"endedAt,omitzero"`
	Message     *Message  `json:"message,omitempty"` // while it waits or is dead
	Steps       []Step    `json:"steps,omitempty"`
	Replies     []Life    `json:"replies,omitempty"` // caused by it
}

// DeadLetter is one row of the dead letters.
type DeadLetter struct {
	ID        int64     `json:"id"`
	Direction Direction `json:"-"`
	Key       Key       `json:"-"`
	MessageID string    `json:"messageId"`
	Reason    string    `json:"reason"`
	Attempts  int       `json:"attempts"`
	LastError string    `json:"lastError"`
	CreatedAt time.Time `json:"createdAt"`
	DeadAt    time.Time `json:"deadAt"`
}

// DeadLetterFilter says which dead letters are meant. Zero fields mean all.
type DeadLetterFilter struct {
	Direction Direction `json:"direction,omitempty"`
	Channel   string    `json:"channel,omitempty"`
	Chat      string    `json:"chatId,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Before    time.Time `json:"before,omitzero"` // dead before that moment
	Limit     int       `json:"limit,omitempty"` // at most that many, newest first; 0 means no limit
}
