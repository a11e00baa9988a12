package httpapi

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

// The pace of the teller. An event waits for quickestPace, and for paceOf of the sockets that it is told to, at most
// slowestPace. Events that come meanwhile are told with it: a short turn costs a socket one call of the kernel.
// After a round the teller rests for restOf times as long as the round took, at most longestRest. So telling takes at
// most a tenth of one processor, and a turn seldom meets it.
//
// A chat with many sockets rests longer, and holds up no other chat meanwhile: crowdRest times as long as its round
// took, at most longestCrowdRest. So telling takes at most a hundredth of one processor for such a chat.
const (
	paceOf           = 100 * time.Microsecond
	slowestPace      = 50 * time.Millisecond
	quickestPace     = 20 * time.Millisecond
	restOf           = 9
	longestRest      = 250 * time.Millisecond
	crowdRest        = 99
	longestCrowdRest = time.Second
	few              = 10 // sockets of a chat that does not rest
	givesWay         = 16 // after so many sockets the teller lets other work go first
)

func pace(sockets int) time.Duration {
	return min(max(time.Duration(sockets)*paceOf, quickestPace), slowestPace)
}

// feed is a chat that sockets follow.
type feed struct {
	key      corebot.Key
	follower *live.Follower
	sockets  map[*socket]*chatFeed
	crowd    int // how many they are
	marked   bool
	due      time.Time
	rested   time.Time // when the next round can begin
}

// teller tells sockets what happens in the chats that they follow. One goroutine does it for all of them, so a turn
// never waits behind hundreds of goroutines for a processor.
type teller struct {
	live *live.Hub
	wake chan struct{}

	mu    sync.Mutex // of the sockets of feeds
	feeds map[corebot.Key]*feed

	marking sync.Mutex // of crowd, marked, due and rested
	marks   []*feed    // those with something to tell
	looks   time.Time  // when the teller looks at marks by itself; zero: when it is woken

	room []byte // for what a lone socket is told
}

func newTeller(hub *live.Hub) *teller {
	return &teller{live: hub, wake: make(chan struct{}, 1), feeds: map[corebot.Key]*feed{}}
}

// join adds a socket to those that are told of a chat.
func (t *teller) join(k *socket, c *chatFeed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.feeds[c.key]
	if f == nil {
		f = &feed{key: c.key, sockets: map[*socket]*chatFeed{}}
		f.follower, _ = t.live.Follow(c.key, 0, func() { t.mark(f) })
		t.feeds[c.key] = f
	}
	f.sockets[k] = c
	t.count(f)
}

func (t *teller) leave(k *socket, key corebot.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.feeds[key]
	delete(f.sockets, k)
	if t.count(f); len(f.sockets) == 0 {
		f.follower.Stop()
		delete(t.feeds, key)
	}
}

func (t *teller) count(f *feed) {
	t.marking.Lock()
	defer t.marking.Unlock()
	f.crowd = len(f.sockets)
}

// mark notes that something happened in a chat. It never waits for a socket.
func (t *teller) mark(f *feed) {
	t.marking.Lock()
	defer t.marking.Unlock()
	if f.marked {
		return
	}
	f.marked, f.due = true, time.Now().Add(pace(f.crowd))
	if f.due.Before(f.rested) {
		f.due = f.rested
	}
	t.marks = append(t.marks, f)
	if !t.looks.IsZero() && !f.due.Before(t.looks) {
		return // to wake it for each turn would cost more than to tell the turn
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// sleep notes that the teller looks at marks by itself, however early they are due.
func (t *teller) sleep() {
	t.marking.Lock()
	defer t.marking.Unlock()
	t.looks = time.Unix(0, 0)
}

// rest has a chat with many sockets wait for its next round. Its turns mark it meanwhile, and cost no round.
func (t *teller) rest(f *feed, ended time.Time, took time.Duration) {
	t.marking.Lock()
	defer t.marking.Unlock()
	if f.rested = ended.Add(min(crowdRest*took, longestCrowdRest)); f.crowd < few {
		f.rested = ended
	}
	if f.marked && f.due.Before(f.rested) {
		f.due = f.rested
	}
}

// again marks a chat of which a socket was not told everything.
func (t *teller) again(key corebot.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.feeds[key]; f != nil {
		t.mark(f)
	}
}

// take gives the feeds that are due, and when the next one is; zero: none waits.
func (t *teller) take(now time.Time) (due []*feed, next time.Time) {
	t.marking.Lock()
	defer t.marking.Unlock()
	t.marks = slices.DeleteFunc(t.marks, func(f *feed) bool {
		if f.due.After(now) {
			if next.IsZero() || f.due.Before(next) {
				next = f.due
			}
			return false
		}
		f.marked = false // what happens from now on marks it again
		due = append(due, f)
		return true
	})
	slices.SortFunc(due, func(a, b *feed) int { return cmp.Compare(a.crowd, b.crowd) })
	t.looks = next
	return due, next
}

// run tells until ctx ends.
func (t *teller) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var rested time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-timer.C:
		}
		now := time.Now()
		if now.Before(rested) {
			t.sleep()
			timer.Reset(rested.Sub(now))
			continue
		}
		due, next := t.take(now)
		told := 0
		for _, f := range due {
			told += t.tell(f)
		}
		if told > 0 {
			ended := time.Now()
			rested = ended.Add(min(restOf*ended.Sub(now), longestRest))
		}
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// tell tells all sockets of a chat, and says how many they are.
func (t *teller) tell(f *feed) (told int) {
	t.mu.Lock()
	all := make([]member, 0, len(f.sockets))
	for k, c := range f.sockets {
		all = append(all, member{k, c})
	}
	t.mu.Unlock()
	r := round{lone: len(all) == 1, room: t.room}
	began, away := time.Now(), time.Duration(0)
	for i, m := range all {
		if i%givesWay == givesWay-1 {
			left := time.Now()
			runtime.Gosched()
			away += time.Since(left)
		}
		m.socket.toldOf(m.chat, &r)
	}
	ended := time.Now()
	t.rest(f, ended, ended.Sub(began)-away)
	if t.room = r.room; cap(t.room) > largeRoom {
		t.room = nil
	}
	return len(all)
}

// largeRoom is room that is not kept for what comes next.
const largeRoom = 64 << 10
