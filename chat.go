package corebot

import (
	"fmt"
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
