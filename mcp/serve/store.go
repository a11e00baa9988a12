package serve

import (
	"context"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/tools"
)

// Store is what a [Service] reads, and how it changes something. All of it is required.
type Store struct {
	Mailbox Mailbox
	Chats   Chats
	History History
	Lives   Lives
	Changes Changes
	Trail   Trail
	Roles   tools.Roles
}

func (s Store) complete() bool {
	return s.Mailbox != nil && s.Chats != nil && s.History != nil && s.Lives != nil && s.Changes != nil && s.Trail != nil && s.Roles != nil
}

// Mailbox keeps replies. Answers gives those behind a cursor that answer one message, oldest first.
type Mailbox interface {
	channels.Mailbox
	Answers(ctx context.Context, k corebot.Key, id string, cursor int64, limit int) ([]corebot.Posted, error)
}

// Chats gives chats by the order of their ids.
type Chats interface {
	Page(ctx context.Context, channel string, after int64, limit int) ([]corebot.Chat, error)
}

// History gives what was said in a chat before a place, newest first.
type History interface {
	Before(ctx context.Context, k corebot.Key, before string, limit int) ([]corebot.Said, error)
}

// Lives tells what became of a message.
type Lives interface {
	Find(ctx context.Context, messageID string) ([]corebot.Life, error)
}

// Changes makes a change with its audit event in one commit, once for the key of its call.
type Changes interface {
	Apply(ctx context.Context, call corebot.ClientCall, effect corebot.Effect, event corebot.AuditEvent) error
}

// Trail is the audit.
type Trail interface {
	Note(ctx context.Context, e corebot.AuditEvent) error
}
