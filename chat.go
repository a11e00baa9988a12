package corebot

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Chat is what Corebot keeps of a conversation beside its history.
type Chat struct {
	ID          int64      `json:"-"`
	Key         Key        `json:"key"`
	DisplayName string     `json:"displayName,omitempty"`
	Registered  bool       `json:"registered"`
	Session     int64      `json:"session"`             // the part of the history that is in play, from 1
	QueueMode   QueueMode  `json:"queueMode,omitempty"` // empty: the configured default
	Model       string     `json:"model,omitempty"`     // that the session asks for; empty: the configured one
	Access      ChatAccess `json:"access,omitempty"`    // empty: by the rule of its channel
	CreatedAt   time.Time  `json:"createdAt"`
}

// Standing is what decides, beside the rule of its channel, whether somebody may talk in a chat. What is said of a chat holds in its threads;
// what is said of a thread comes before it.
type Standing struct {
	Registered bool
	Access     ChatAccess
}

// ChatAccess sets one chat apart from the rule of its channel. The values are stored; they never change.
type ChatAccess string

const (
	AllowChat ChatAccess = "allow" // whoever is in the chat may talk
	DenyChat  ChatAccess = "deny"  // nobody may
)

// ParseChatAccess reads a setting of a chat.
func ParseChatAccess(s string) (ChatAccess, error) {
	switch a := ChatAccess(s); a {
	case AllowChat, DenyChat:
		return a, nil
	}
	return "", fmt.Errorf("%w: access %q: want allow or deny", ErrInvalid, s)
}

// QueueMode says what becomes of a prompt that finds its chat busy. The values are stored; they never change.
type QueueMode string

const (
	ModeQueue     QueueMode = "queue"     // it waits its turn
	ModeSteer     QueueMode = "steer"     // the turn that runs takes it in, as it does a /steer
	ModeInterrupt QueueMode = "interrupt" // it stops the turn that runs, if that is of the same sender, and waits its turn
	ModeCollect   QueueMode = "collect"   // it becomes one turn with the others of its sender that wait beside it
)

// QueueModes are all modes, the default first.
func QueueModes() []QueueMode { return []QueueMode{ModeQueue, ModeSteer, ModeInterrupt, ModeCollect} }

// ParseQueueMode reads the name of a mode.
func ParseQueueMode(s string) (QueueMode, error) {
	var names []string
	for _, m := range QueueModes() {
		if s == string(m) {
			return m, nil
		}
		names = append(names, string(m))
	}
	return "", fmt.Errorf("%w: queue mode %q: want one of %s", ErrInvalid, s, strings.Join(names, ", "))
}

// Queueing is how prompts wait in chats that have no setting of their own.
type Queueing struct {
	Mode QueueMode // empty is ModeQueue
	// Agents are the modes of agents that have one of their own, by their ids.
	Agents map[string]QueueMode
	// Debounce is how long, in every chat with ModeCollect, a sender must be silent before the turn begins. Whoever never is silent waits
	// MaxDebounces times as long.
	Debounce time.Duration
}

// Of is the mode of an agent's chats.
func (q Queueing) Of(agent string) QueueMode { return cmp.Or(q.Agents[agent], q.Mode, ModeQueue) }

// MaxDebounces bounds how long a message waits for more to come, as a multiple of [Queueing.Debounce].
const MaxDebounces = 10

// Bounds of what one message takes in by ModeCollect. What comes beyond them begins another turn.
const (
	MaxCollected      = 50
	MaxCollectedBytes = 256 << 10
)

// Collecting is the reason of a lane whose next message waits for more of its sender.
const Collecting = "collecting"

// Merged is a message that a turn took in beside its own: a steer, or one that was collected. Its life ended with [EndMerged].
type Merged struct {
	Life   int64     `json:"life"`
	ID     string    `json:"id"`
	Sender Principal `json:"sender,omitzero"`
	Name   string    `json:"senderName,omitempty"` // display only
	Text   string    `json:"text"`

	Metadata Metadata `json:"metadata,omitempty"`
}

// Steered says what became of a /steer.
type Steered struct {
	Receipt
	Merges bool // the turn that runs may take it in; else it is a prompt that waits its turn
}
