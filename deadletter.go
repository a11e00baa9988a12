package corebot

import "time"

// Reasons of dead letters that notices explain in their own words. They are stored and counted; they never change.
const (
	ReasonAttempts = "attempts"               // every attempt failed
	ReasonTooLong  = "too long for the model" // the message and its context are more than the model takes
	ReasonPoison   = "poison"                 // its lease was lost too often in a row: see [Delivery.Lost]
	ReasonUnstored = "cannot be stored"       // the database refuses the result of its turn, and would refuse it again
	ReasonDamaged  = "damaged"                // the stored message cannot be read
)

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
}

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
	Limit     int       `json:"limit,omitempty"` // at most so many, newest first; 0: no limit
}

// Replayed is the result of a replay of several dead letters.
type Replayed struct {
	Done int   // back in the queue
	Left int   // still dead: the queue had no room for them
	Why  error // the error of the first letter that was left: [ErrLaneFull], [ErrOverloaded] or [ErrDiskFull]
}
