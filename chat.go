package corebot

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Chat is what Corebot stores about a conversation beside its history.
type Chat struct {
	ID          int64     `json:"-"`
	Key         Key       `json:"key"`
	DisplayName string    `json:"displayName,omitempty"`
	Registered  bool      `json:"registered"`
	Session     int64     `json:"session"`             // the number of the current session, from 1
	QueueMode   QueueMode `json:"queueMode,omitempty"` // empty: the configured default
	// the model that the session asks for; empty: the configured model
	Model     string     `json:"model,omitempty"`
	Access    ChatAccess `json:"access,omitempty"` // empty: the rule of the channel decides
	CreatedAt time.Time  `json:"createdAt"`
}

// Admission is what is set for one chat about who may talk there, beside the rule of its channel. A setting of a chat
// holds in its threads. A setting of a thread comes before the setting of its chat.
type Admission struct {
	Registered bool
	Access     ChatAccess
}

// ChatAccess is an exception for one chat from the rule of its channel. The values are stored; they never change.
type ChatAccess string

const (
	AllowChat ChatAccess = "allow" // everybody in the chat may talk
	DenyChat  ChatAccess = "deny"  // nobody in the chat may talk
)

// ParseChatAccess reads a chat's access setting.
func ParseChatAccess(s string) (ChatAccess, error) {
	switch a := ChatAccess(s); a {
	case AllowChat, DenyChat:
		return a, nil
	}
	return "", fmt.Errorf("%w: access %q: want allow or deny", ErrInvalid, s)
}

// QueueMode says what happens to a prompt that finds its chat busy. The values are stored; they never change.
type QueueMode string

const (
	ModeQueue     QueueMode = "queue"     // the prompt waits its turn
	ModeSteer     QueueMode = "steer"     // the running turn merges the prompt, as it does with a /steer
	ModeInterrupt QueueMode = "interrupt" // the prompt stops a running turn of its sender and waits its turn
	ModeCollect   QueueMode = "collect"   // waiting prompts of one sender become one turn
)

// QueueModes lists all modes, the default first.
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

// Queueing says how prompts wait in chats that have no mode of their own.
type Queueing struct {
	Mode QueueMode // empty is ModeQueue
	// Agents holds the modes of agents that have their own, by agent id.
	Agents map[string]QueueMode
	// Debounce is how long a sender must be silent before a turn begins, in every chat with ModeCollect. A sender who
	// is never silent waits at most MaxDebounces times as long.
	Debounce time.Duration
}

// Of is the mode of an agent's chats.
func (q Queueing) Of(agent string) QueueMode { return cmp.Or(q.Agents[agent], q.Mode, ModeQueue) }

// MaxDebounces bounds how long a message waits for further messages, as a multiple of [Queueing.Debounce].
const MaxDebounces = 10

// Bounds of what one turn merges by ModeCollect. A message beyond them begins another turn.
const (
	MaxCollected      = 50
	MaxCollectedBytes = 256 << 10
)

// Collecting is the reason of a lane whose next message waits for further messages of its sender.
const Collecting = "collecting"

// Merged is a message that a turn merged: a steer, or a collected prompt. Its life ended with [EndMerged].
type Merged struct {
	Life   int64     `json:"life"`
	ID     string    `json:"id"`
	Sender Principal `json:"sender,omitzero"`
	Name   string    `json:"senderName,omitempty"` // display only
	Parts  []Part    `json:"-"`                    // see [Content]

	Metadata Metadata `json:"metadata,omitempty"`
	Envelope Envelope `json:"envelope,omitzero"`
}

// Steered is the result of a /steer.
type Steered struct {
	Receipt
	Merges bool // the running turn can merge it; else it is a prompt that waits its turn
}
