package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
)

// Remote is the terminal channel of a daemon. Terminals of other processes attach to it, one for each chat, and fetch what
// they are to show; a message counts as sent when its terminal has said that it was shown. The replies of chats that no terminal
// has open stay in the queue.
type Remote struct {
	agent string
	watch func(corebot.Key) (<-chan live.Event, func())
	wake  func(context.Context, corebot.Key) error

	mu       sync.Mutex
	attached map[string]*attachment // by chat
}

// attachment is one terminal, from Attach until it is replaced or has been silent for too long.
type attachment struct {
	session string
	events  <-chan live.Event
	unwatch func()
	out     chan corebot.Message
	shown   chan string // ids of messages that the terminal has shown
	gone    chan struct{}
	timer   *time.Timer // runs while the terminal is not fetching
}

var _ channels.Channel = (*Remote)(nil)

// ErrReplaced says that a session is no longer attached.
var ErrReplaced = errors.New("this terminal is no longer attached: another one has opened the chat, or it was silent for too long")

// silence is how long a terminal may go without fetching before it is taken to be gone.
const silence = 10 * time.Second

// NewRemote makes the channel. watch gives the live events of a conversation; wake makes its waiting replies due again.
func NewRemote(agent string, watch func(corebot.Key) (<-chan live.Event, func()), wake func(context.Context, corebot.Key) error) *Remote {
	return &Remote{agent: agent, watch: watch, wake: wake, attached: map[string]*attachment{}}
}

// Name is "cli".
func (*Remote) Name() string { return channelName }

// Run blocks until ctx ends: what is typed comes through the control socket to the front door.
func (*Remote) Run(ctx context.Context, _ channels.Door) error {
	<-ctx.Done()
	return nil
}

// Send gives m to the terminal that has its chat open, and returns when it was shown there.
func (r *Remote) Send(ctx context.Context, m corebot.Message) error {
	r.mu.Lock()
	a := r.attached[m.Key.Chat]
	r.mu.Unlock()
	if a == nil {
		return notHere(m)
	}
	select {
	case a.out <- m:
	case <-a.gone:
		return notHere(m)
	case <-ctx.Done():
		return notHere(m)
	}
	for {
		select {
		case id := <-a.shown:
			if id == m.ID {
				return nil
			}
		case <-a.gone:
			if a.lastShown() == m.ID { // it said so while it left
				return nil
			}
			return notHere(m)
		case <-ctx.Done():
			return notHere(m)
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

// Fetched is what a terminal is to show next: a message, or events of the turn that runs, or neither when nothing came in time.
type Fetched struct {
	Message *corebot.Message
	Kind    corebot.Kind // of the message
	Events  []live.Event
}

// Fetch waits for what the terminal of a session is to show in a chat. shown is the id of the message that the last call
// brought, once it is on the screen.
func (r *Remote) Fetch(ctx context.Context, chat, session, shown string) (Fetched, error) {
	r.mu.Lock()
	a := r.attached[chat]
	r.mu.Unlock()
	if a == nil || a.session != session {
		return Fetched{}, ErrReplaced
	}
	a.timer.Stop()
	defer a.timer.Reset(silence)
	a.wasShown(shown)
	return a.next(ctx)
}

// patient is how long one fetch waits for something to show.
const patient = 20 * time.Second

func (a *attachment) next(ctx context.Context) (f Fetched, err error) {
	enough := time.NewTimer(patient)
	defer enough.Stop()
	select {
	case m := <-a.out:
		return Fetched{Message: &m, Kind: m.Kind}, nil
	case e, watched := <-a.events:
		if !watched { // it ends when the attachment does
			return f, ErrReplaced
		}
		f.Events = append(f.Events, e)
	case <-a.gone:
		return f, ErrReplaced
	case <-enough.C:
		return f, nil
	case <-ctx.Done():
		return f, context.Cause(ctx)
	}
	for len(f.Events) < live.Buffer { // what has gathered meanwhile comes along
		select {
		case e, watched := <-a.events:
			if !watched {
				return f, nil
			}
			f.Events = append(f.Events, e)
		default:
			return f, nil
		}
	}
	return f, nil
}

// Attach opens a chat in the terminal of a new session, in place of any other, and makes replies that wait for it due.
func (r *Remote) Attach(ctx context.Context, chat, session string) error {
	key := corebot.Key{Agent: r.agent, Channel: channelName, Account: DefaultAccount, Chat: chat}
	a := &attachment{session: session, out: make(chan corebot.Message), shown: make(chan string, 1), gone: make(chan struct{})}
	a.events, a.unwatch = r.watch(key)
	r.mu.Lock()
	old := r.attached[chat]
	r.attached[chat] = a
	a.timer = time.AfterFunc(silence, func() { r.Detach(chat, session, "") })
	r.mu.Unlock()
	if old != nil {
		old.leave()
	}
	return r.wake(ctx, key)
}

// wasShown tells the Send that waits for it, if one does.
func (a *attachment) wasShown(id string) {
	if id == "" {
		return
	}
	select {
	case a.shown <- id:
	default: // an older one that nobody waited for
	}
}

// Detach ends a session's attachment; shown is as in Fetch. It may be called again.
func (r *Remote) Detach(chat, session, shown string) {
	r.mu.Lock()
	a := r.attached[chat]
	if a == nil || a.session != session {
		r.mu.Unlock()
		return
	}
	delete(r.attached, chat)
	r.mu.Unlock()
	a.wasShown(shown)
	a.leave()
}

func (a *attachment) leave() {
	a.timer.Stop()
	a.unwatch()
	close(a.gone)
}
