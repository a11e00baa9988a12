package policy

import (
	"fmt"

	"github.com/corebot/corebot"
)

// AccessRule says who may talk on a channel at all.
type AccessRule string

const (
	AccessOpen       AccessRule = "open"       // everybody whom the channel lets through
	AccessRegistered AccessRule = "registered" // whoever is in a chat that is registered
	AccessAllowlist  AccessRule = "allowlist"  // the senders and chats that are listed; an empty list is nobody
)

// Access decides who may talk on one channel. It is immutable; the zero Access lets nobody.
type Access struct {
	rule AccessRule
	list corebot.Allowlist
}

// NewAccess makes the rule of a channel. The list counts with [AccessAllowlist] only.
func NewAccess(rule AccessRule, list corebot.Allowlist) (Access, error) {
	switch rule {
	case AccessOpen, AccessRegistered, AccessAllowlist:
		return Access{rule, list}, nil
	}
	return Access{}, fmt.Errorf("%w: access %q: want open, registered or allowlist", corebot.ErrInvalid, rule)
}

// Admit says whether a sender may talk in a chat. What is set for the chat comes before the rule of the channel.
func (a Access) Admit(p corebot.Principal, k corebot.Key, chat corebot.Standing) Decision {
	switch {
	case chat.Access == corebot.DenyChat:
		return Decision{Rule: "chat-denied", Reason: "this chat is shut"}
	case chat.Access == corebot.AllowChat:
		return Decision{Allow: true, Rule: "chat-allowed"}
	case a.rule == AccessOpen:
		return Decision{Allow: true, Rule: "open"}
	case a.rule == AccessRegistered && chat.Registered:
		return Decision{Allow: true, Rule: "registered"}
	case a.rule == AccessRegistered:
		return Decision{Rule: "not-registered", Reason: "this chat is not registered"}
	case a.rule == AccessAllowlist && a.list.Names(p, k):
		return Decision{Allow: true, Rule: "listed"}
	}
	return Decision{Rule: "not-listed", Reason: "neither the sender nor the chat is listed"}
}
