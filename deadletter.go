package corebot

import "time"

// Reasons of dead letters that people are told of in words of their own. They are stored and counted; they never
// change.
const (
	ReasonAttempts = "attempts"               // every attempt failed
	ReasonTooLong  = "too long for the model" // the message, and what belongs to it, is more than the model takes
	ReasonPoison   = "poison"                 // its workers die of it
	ReasonUnstored = "cannot be stored"       // the database refuses what its turn leaves behind, and would again
	ReasonDamaged  = "damaged"                // what is stored of the message cannot be read
)

// DeadLetter is one row of the dead letters. ID is that of the message's life.
type DeadLetter struct {
	ID        int64     `json:"id"`
	Direction Direction `json:"-"`
	Key       Key       `json:"-"`
	MessageID string    `json:"messageId"`
	Sender    Principal `json:"-"` // of an inbound message
	Reason    string    `json:"reason"`
	Attempts  int       `json:"attempts"` // counted ones of the run that failed
	LastError string    `json:"lastError"`
	CreatedAt time.Time `json:"createdAt"`
	DeadAt    time.Time `json:"deadAt"`
}

// DeadLetterFilter says which dead letters are meant. Zero fields mean all.
type DeadLetterFilter struct {
	Direction Direction `json:"direction,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Channel   string    `json:"channel,omitempty"`
	Chat      string    `json:"chatId,omitempty"` // the id of a chat, of any account and thread
	Key       Key       `json:"key,omitzero"`     // one chat exactly
	Sender    string    `json:"senderId,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	After     time.Time `json:"after,omitzero"`  // dead at that moment or later
	Before    time.Time `json:"before,omitzero"` // dead before that moment
	Limit     int       `json:"limit,omitempty"` // at most that many, newest first; 0 means no limit
}

// Replayed says what became of dead letters that were replayed together.
type Replayed struct {
	Done int   // back in the queue
	Left int   // still dead: the queue had no room for them
	Why  error // of the first that was left: [ErrLaneFull], [ErrOverloaded] or [ErrDiskFull]
}
