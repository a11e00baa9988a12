package corebot

import "time"

// Chat is what Corebot keeps of a conversation beside its history.
type Chat struct {
	ID          int64     `json:"-"`
	Key         Key       `json:"key"`
	DisplayName string    `json:"displayName,omitempty"`
	Registered  bool      `json:"registered"`
	Session     int64     `json:"session"`             // the part of the history that is in play, from 1
	QueueMode   QueueMode `json:"queueMode,omitempty"` // empty: the configured default
	Model       string    `json:"model,omitempty"`     // that the session asks for; empty: the configured one
	CreatedAt   time.Time `json:"createdAt"`
}
