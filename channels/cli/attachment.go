package cli

import (
	"context"
	"time"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
)

// attachment is one terminal at a [Remote], from Attach until it leaves or has been silent for too long.
type attachment struct {
	session string
	events  <-chan live.Event
	unwatch func()
	missed  []channels.Outbound // sent before the terminal attached again; belongs to the one fetch under way
	out     chan channels.Outbound
	shown   chan string // ids of messages that the terminal has shown
	gone    chan struct{}
	timer   *time.Timer // runs while the terminal is not fetching
}

func newAttachment(session string) *attachment {
	return &attachment{
		session: session, out: make(chan channels.Outbound), shown: make(chan string, 1),
		gone: make(chan struct{}),
	}
}

// show gives m to the terminal and says whether the terminal has shown it. It gives up when the terminal is gone or ctx
// ends.
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
			return a.lastShown() == m.ID // it said so while it left
		case <-ctx.Done():
			return false
		}
	}
}

// lastShown is what a terminal that has left said last.
func (a *attachment) lastShown() string {
	select {
	case id := <-a.shown:
		return id
	default:
		return ""
	}
}

// wasShown tells the show that waits for it, if one does. It takes the place of an older one that nobody waited for.
func (a *attachment) wasShown(id string) {
	if id == "" {
		return
	}
	a.lastShown()
	select {
	case a.shown <- id:
	default:
	}
}

// patient is how long one fetch waits for something to show.
const patient = 20 * time.Second

// next waits for something to show.
func (a *attachment) next(ctx context.Context) (f Fetched, err error) {
	if len(a.missed) > 0 {
		m := a.missed[0]
		a.missed = a.missed[1:]
		return Fetched{Message: &m, Kind: m.Kind, Notice: m.Notice}, nil
	}
	if a.gather(&f); len(f.Events) > 0 { // what was streamed comes before what ends it
		return f, nil
	}
	enough := time.NewTimer(patient)
	defer enough.Stop()
	select {
	case m := <-a.out:
		return Fetched{Message: &m, Kind: m.Kind, Notice: m.Notice}, nil
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

// gather adds the events that have come meanwhile.
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
