package channels

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

const (
	// sendPlaces is how many sends of one channel are under way at once, counting those that nobody answers.
	sendPlaces = 256
	// shortSlot is what a chat whose last send failed gets for its next one. It doubles with each attempt, so that a
	// chat that is merely slow is not given up for that. Any send that had that long gives way when its account has no
	// place for a healthy chat.
	shortSlot = 5 * time.Second
	// postponed is the least time that a message waits which found no place.
	postponed = time.Second

	failureTime  = 10 * time.Minute // how long a chat's failure is remembered
	failureChats = 10_000           // of how many chats
)

// errGaveWay ends a send that is slow while other chats of its account wait.
var errGaveWay = errors.New("other chats of the account wait")

// places bounds the sends of one channel that are under way, so that neither one account nor its failing chats can have
// them all. An account holds at most three times as many places as are free, and its failing chats at most as many as
// are free (dynamic thresholds: Choudhury and Hahne, 1998). So one account alone gets three quarters of the places, its
// failing chats a half, and the next account finds room at once. When all places are taken, the account with the most
// of them gives way.
type places struct {
	mu       sync.Mutex
	free     int
	accounts map[string]*account // those with sends under way
	failed   recent
}

// account is what one account of the channel has under way.
type account struct {
	failing int                // sends to chats that failed lately
	fresh   map[*send]struct{} // sends to all others
	opening [2]time.Time       // when a postponed message may find a place: of a healthy chat, of a failing one
}

// send is one message that has a place.
type send struct {
	places  *places
	key     corebot.Key
	failing bool          // its chat failed lately
	slot    time.Duration // for each part

	since time.Time               // when the part that is under way began; zero: none is
	stop  context.CancelCauseFunc // ends that part
}

func newPlaces() *places {
	return &places{
		free: sendPlaces, accounts: map[string]*account{},
		failed: recent{span: failureTime, max: failureChats},
	}
}

// take gives a delivery a place, or says when there may be one. full is the slot of a chat that did not fail lately.
func (p *places) take(d corebot.Delivery, full time.Duration, now time.Time) (s *send, again time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := d.Message.Key
	a := p.accounts[key.Account]
	if a == nil {
		a = &account{fresh: map[*send]struct{}{}}
	}
	s = &send{places: p, key: key, failing: d.Attempt > 1 || p.failed.has(key, now), slot: full}
	if s.failing {
		s.slot = min(full, shortSlot<<min(max(d.Attempt-2, 0), 10))
	}
	if !p.room(a, s.failing) {
		if !s.failing {
			p.largest(a).giveWay(now)
		}
		return nil, a.postpone(s.failing, now)
	}
	p.accounts[key.Account] = a
	p.free--
	if s.failing {
		a.failing++
	} else {
		a.fresh[s] = struct{}{}
	}
	return s, now
}

func (p *places) room(a *account, failing bool) bool {
	if failing {
		return a.failing < p.free
	}
	return a.sends() < 3*p.free
}

// largest is the account that gives way to one that has no room: itself, or, when nobody has, the one with the most
// sends.
func (p *places) largest(a *account) *account {
	if p.free > 0 {
		return a
	}
	for _, other := range p.accounts {
		if other.sends() > a.sends() {
			a = other
		}
	}
	return a
}

func (a *account) sends() int { return a.failing + len(a.fresh) }

// giveWay ends the slowest send to a chat that has not failed yet, if it had its time.
func (a *account) giveWay(now time.Time) {
	var slowest *send
	for s := range a.fresh {
		if !s.since.IsZero() && now.Sub(s.since) >= shortSlot && (slowest == nil || s.since.Before(slowest.since)) {
			slowest = s
		}
	}
	if slowest != nil {
		slowest.since = time.Time{}
		slowest.stop(errGaveWay)
	}
}

// postpone says when a message that found no place may find one. It spreads such messages over the time in which places
// become free: thousands of them must not come back together again and again.
func (a *account) postpone(failing bool, now time.Time) time.Time {
	i := 0
	if failing {
		i = 1
	}
	earliest := now.Add(postponed)
	if a.opening[i].Before(earliest) {
		a.opening[i] = earliest
	}
	a.opening[i] = a.opening[i].Add(shortSlot / sendPlaces)
	return a.opening[i]
}

// begin gives a part its slot, which is at least so long. The context ends with the slot, or when the send has to give
// way; its cause tells.
func (s *send) begin(ctx context.Context, least time.Duration) (context.Context, context.CancelFunc) {
	slot := max(s.slot, least)
	ctx, stop := context.WithCancelCause(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, slot, fmt.Errorf("%w: no answer within %v", context.DeadlineExceeded,
		slot))
	s.places.mu.Lock()
	defer s.places.mu.Unlock()
	s.since, s.stop = time.Now(), stop
	return ctx, func() {
		cancel()
		stop(nil)
		s.places.mu.Lock()
		defer s.places.mu.Unlock()
		s.since = time.Time{}
	}
}

// judge remembers how the send ended, for the chat's next one.
func (s *send) judge(failed bool) {
	s.places.mu.Lock()
	defer s.places.mu.Unlock()
	if failed {
		s.places.failed.note(s.key, time.Now())
	} else {
		s.places.failed.forget(s.key)
	}
}

// end gives the place back.
func (s *send) end() {
	p := s.places
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.accounts[s.key.Account]
	p.free++
	if s.failing {
		a.failing--
	} else {
		delete(a.fresh, s)
	}
	if a.sends() == 0 {
		delete(p.accounts, s.key.Account)
	}
}

// RetryAfter is when a refused message is worth another try. By then a turn of the chat may have ended, or many turns,
// somebody may have made room on the disk, or the rate of commands allows another. It is zero for an error that is no
// want of room.
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
	// an episode ends when a chat was not refused for that long, or for up to twice as long
	episodeTime  = 5 * time.Minute
	episodeChats = 10_000 // remembered at once; beyond that a chat may be told again
)

// episodes remembers the chats that are in an episode of being busy: from the first refusal until there were none for a
// while. An accepted message in between does not end the episode, because a lane at its cap takes one message after
// each turn. A restart forgets.
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
