package corebot

import "time"

// Posted is a reply that waits in a mailbox to be fetched, at a place that its cursor names. Cursors of one conversation rise.
type Posted struct {
	Cursor    int64
	ID        string
	InReplyTo string
	Kind      Kind
	Content   string
	CreatedAt time.Time
}
