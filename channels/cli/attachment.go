package cli

import (
	"context"
	"time"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
)

// attachment is one terminal at a [Remote], from Attach until it leaves or does not fetch for too long. Its maker
// sets events, unwatch and timer before its first use.
type attachment struct {
	session string
	events  <-chan live.Event
	unwatch func()
	missed  []channels.Outbound // sent to others while the terminal was away; only the running fetch uses it
	out     chan channels.Outbound
	shown   chan string // ids of messages that the terminal has shown
	gone    chan struct{}
	timer   *time.Timer // detaches the terminal; it runs between two fetches
}

func newAttachment(session string) *attachment {
	return &attachment{
		session: session, out: make(chan channels.Outbound), shown: make(chan string, 1),
		gone: make(chan struct{}),
	}
}

// show gives m to the terminal, and says whether the terminal has shown it. It gives up when the terminal leaves, or
// when ctx ends.
func (a *attachment) show(ctx context.Context, m channels.Outbound) bool {
	select {
	case a.out <- m:
	case <-a.gone:
		return false
	case <-ctx.Done():
		return false
	}
	for {
		select {
		case id := <-a.shown:
			if id == m.ID {
				return true
			}
		case <-a.gone:
			return a.takeShown() == m.ID // the terminal said so when it left
		case <-ctx.Done():
			return false
		}
	}
}

// takeShown takes what the terminal said last out of the channel; it is empty if there is nothing.
func (a *attachment) takeShown() string {
	select {
	case id := <-a.shown:
		return id
	default:
		return ""
	}
}

// confirmShown tells a waiting show that the terminal has shown a message. It replaces an older confirmation that no
// show has taken.
func (a *attachment) confirmShown(id string) {
	if id == "" {
		return
	}
	a.takeShown()
	select {
	case a.shown <- id:
	default:
	}
}

// fetchTime is how long one fetch waits for something to show.
const fetchTime = 20 * time.Second

// next waits for a message or for events. After fetchTime it gives neither, and no error: the terminal fetches again.
func (a *attachment) next(ctx context.Context) (f Fetched, err error) {
	if len(a.missed) > 0 {
		m := a.missed[0]
		a.missed = a.missed[1:]
		return fetched(m), nil
	}
	if a.gather(&f); len(f.Events) > 0 { // the text of an answer streams before the answer comes as a message
		return f, nil
	}
	enough := time.NewTimer(fetchTime)
	defer enough.Stop()
	select {
	case m := <-a.out:
		return fetched(m), nil
	case e, watched := <-a.events:
		if !watched { // it ends when the attachment does
			return f, ErrDetached
		}
		f.Events = append(f.Events, e)
	case <-a.gone:
		return f, ErrDetached
	case <-enough.C:
		return f, nil
	case <-ctx.Done():
		return f, context.Cause(ctx)
	}
	a.gather(&f)
	return f, nil
}

// gather adds all waiting events, without blocking.
func (a *attachment) gather(f *Fetched) {
	for len(f.Events) < live.Buffer {
		select {
		case e, watched := <-a.events:
			if !watched {
				return
			}
			f.Events = append(f.Events, e)
		default:
			return
		}
	}
}

func (a *attachment) leave() {
	a.timer.Stop()
	a.unwatch()
	close(a.gone)
}
