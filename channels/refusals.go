package channels

import (
	"fmt"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// ErrNotAdmitted says that a sender may not talk in a chat. Nothing of the message was stored. A channel that can answer without the chat says
// so there; one that cannot is silent, so that strangers get no word out of it.
var ErrNotAdmitted = fmt.Errorf("%w: this sender may not talk here", corebot.ErrInvalid)

// admitting says what an operator can do about a refusal.
func admitting(rule string) string {
	switch rule {
	case "chat-denied":
		return "`corebot chats set KEY --access default` opens the chat again"
	case "not-registered":
		return "register it with `corebot chats register KEY`, or have an admin register it in another chat"
	case "not-listed":
		return "add the sender or the chat to the allowlist of the channel, or use `corebot chats set KEY --access allow`"
	}
	return ""
}

const (
	refusalTime = time.Hour
	refusalRows = 100 // in that time, all senders together
)

// refusals remembers whom the audit names already as refused: each sender once an hour, and a hundred of them at most. A restart forgets.
type refusals struct {
	mu    sync.Mutex
	since time.Time
	named map[corebot.Principal]struct{}
}

// first says whether a refusal is to be noted, and takes it for noted.
func (r *refusals) first(p corebot.Principal, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := now.Sub(r.since); r.named == nil || age >= refusalTime || age < 0 {
		r.named, r.since = map[corebot.Principal]struct{}{}, now
	}
	if _, known := r.named[p]; known || len(r.named) >= refusalRows {
		return false
	}
	r.named[p] = struct{}{}
	return true
}
