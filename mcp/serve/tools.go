package serve

import (
	"cmp"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

// tools are the service's own.
func (s *Service) tools() []tools.Tool {
	all := []tools.Tool{s.chatList(), s.historyRead(), s.messagePublish(), s.messageReplies()}
	if s.opts.Status != nil {
		all = append(all, s.statusRead())
	}
	return all
}

// ownChat is what a call touches that names a chat of the clients' own.
func (s *Service) ownChat(chat string) policy.Target { return policy.Target{Chat: s.key(chat)} }

// page is how many are meant: so many if it is not said, and at most so many.
func page(asked, usual, most int) (int, error) {
	if asked < 0 {
		return 0, fmt.Errorf("%w: limit %d: want 1 to %d", corebot.ErrInvalid, asked, most)
	}
	return min(cmp.Or(asked, usual), most), nil
}

// timestamp is RFC 3339 in UTC with milliseconds, as in the interface of the webhook.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
