package corebot

import "time"

// Cap bounds what may be used in a day. Zero means no cap.
type Cap struct {
	Tokens int64
	Cost   Money
}

// None says whether there is nothing that the cap bounds.
func (c Cap) None() bool { return c == Cap{} }

// Reached says whether no more may be used. Tokens without a price count as tokens, and cost nothing.
func (c Cap) Reached(u Use) bool {
	return c.Tokens > 0 && u.Tokens() >= c.Tokens || c.Cost > 0 && u.Cost >= c.Cost
}

// Budget is what may be used in a day, by whom. A turn is begun when each cap that concerns it still has something left, and then
// ends whatever it uses: a cap is passed by as much as the turns that are under way use.
type Budget struct {
	Chat      Cap // each chat
	Principal Cap // each principal, in all chats
	Normal    Cap // all who are normal, together
	Admin     Cap // all admins, together
	Total     Cap // everything
}

// BudgetScope names the cap that a message met. The values are stored and counted; they never change.
type BudgetScope string

const (
	BudgetChat      BudgetScope = "chat"
	BudgetPrincipal BudgetScope = "principal"
	BudgetRole      BudgetScope = "role"
	BudgetAgent     BudgetScope = "agent"
	BudgetTotal     BudgetScope = "total"
)

// Parked is a message that has left its lane until a moment. It comes back at the tail.
type Parked struct {
	Life      int64     `json:"life"`
	MessageID string    `json:"id"`
	Key       Key       `json:"key"`
	Sender    Principal `json:"sender"`
	Reason    string    `json:"reason"`
	ParkedAt  time.Time `json:"parkedAt"`
	DueAt     time.Time `json:"dueAt"`
}

// Situation is what a chat does now.
type Situation struct {
	Running      bool       // a turn is being made
	RunningSince time.Time  // if one runs
	Waiting      int64      // messages in the lane behind the one that runs
	Why          string     // what the head waits for, if it waits for something; empty when nothing is in the way
	WakeAt       time.Time  // until when, if it does
	Parked       int64      // messages that left the lane until their day begins
	BackAt       time.Time  // when the first of them comes back, if there are any
	Awaited      []Approval // what an admin has to say a word about
	Session      int64      // the part of the history that is in play, from 1
	QueueMode    QueueMode  // of the chat; empty: the configured default
	Model        string     // the model that the session asks for; empty: the configured one
}
