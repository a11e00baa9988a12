package channels

import (
	"errors"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// RetryAfter is when a refused message is worth another try. By then a turn of the chat may have ended, or many turns, somebody may have made
// room on the disk, or the rate of commands allows another. It is zero for an error that is no want of room.
func RetryAfter(err error) time.Duration {
	soon := (*corebot.TooSoon)(nil)
	switch {
	case errors.As(err, &soon):
		return soon.Seconds()
	case errors.Is(err, corebot.ErrLaneFull):
		return 2 * time.Second
	case errors.Is(err, corebot.ErrOverloaded):
		return 5 * time.Second
	case errors.Is(err, corebot.ErrDiskFull):
		return 30 * time.Second
	}
	return 0
}

const (
	episodeTime  = 5 * time.Minute // an episode ends when a chat was not refused for that long, or for up to twice as long
	episodeChats = 10_000          // remembered at once; beyond that a chat may be told again
)

// episodes remembers the chats that are in an episode of being busy: from the first refusal until there were none for a
// while. That something is accepted in between does not end it: a lane at its cap takes one message after each turn. A
// restart forgets.
type episodes struct {
	mu sync.Mutex
	recent
}

// refused notes a refusal and says whether an episode begins with it.
func (e *episodes) refused(k corebot.Key, now time.Time) (begins bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.span, e.max = episodeTime, episodeChats
	begins = !e.has(k, now)
	e.note(k, now)
	return begins
}

// busy makes a refusal for want of room one that says when to come again, and whether the chat is to be told. Other
// errors stay as they are.
func (e *episodes) busy(k corebot.Key, err error) error {
	after := RetryAfter(err)
	if after == 0 {
		return err
	}
	return &corebot.Busy{Err: err, RetryAfter: after, Tell: e.refused(k, time.Now())}
}
