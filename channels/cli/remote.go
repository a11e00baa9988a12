package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
)

// Remote is the terminal channel of a Corebot that terminals attach to, those of its own process among them. Several
// terminals can have one chat open: each is shown what comes. A message counts as sent once every terminal that had its
// chat open has shown the message or is gone, and at least one has shown it. The replies of chats that no terminal has
// open stay in the queue.
type Remote struct {
	watch func(corebot.Key) (<-chan live.Event, func())
	wake  func(context.Context, corebot.Key) error
	note  func(corebot.Key, corebot.Part) string

	mu       sync.Mutex
	attached map[corebot.Key][]*attachment
	lately   []sentLately
}

var _ channels.Channel = (*Remote)(nil)

// ErrDetached says that the session of a terminal is not attached. The terminal was silent for too long, or it attached
// to another process of Corebot. The terminal can attach again.
var ErrDetached = fmt.Errorf("this terminal is not attached: %w", corebot.ErrNotFound)

// silence is how long a terminal may go without fetching before it is taken to be gone.
const silence = 10 * time.Second

// Terminals that attach again are shown what was sent while they were away: at most so many messages, so long ago, of
// at most so many bytes.
const (
	latelyKept  = 16
	latelyTime  = time.Minute
	latelyBytes = 64 << 10
)

type sentLately struct {
	message channels.Outbound
	at      time.Time
}

// NewRemote makes the channel. Through watch it follows the live events of a conversation, and through wake it makes
// waiting replies due again. The text of note says where a file of a reply lies.
func NewRemote(watch func(corebot.Key) (<-chan live.Event, func()), wake func(context.Context, corebot.Key) error,
	note func(corebot.Key, corebot.Part) string,
) *Remote {
	return &Remote{watch: watch, wake: wake, note: note, attached: map[corebot.Key][]*attachment{}}
}

// NoteOf implements [channels.FileNotes].
func (r *Remote) NoteOf(k corebot.Key, p corebot.Part) string { return r.note(k, p) }

// Run blocks until ctx ends: what is typed comes through the control socket to the front door.
func (*Remote) Run(ctx context.Context, _ channels.Door) error {
	<-ctx.Done()
	return nil
}

// Attended says that a person opens and closes its chats.
func (*Remote) Attended() {}

// Send gives m to the terminals that have its chat open, and returns when each has shown it or is gone.
func (r *Remote) Send(ctx context.Context, m channels.Outbound) (channels.Receipt, error) {
	r.mu.Lock()
	open := slices.Clone(r.attached[m.Key])
	r.remember(m) // at once: a terminal that attaches again while others are shown m must not miss it
	r.mu.Unlock()
	shown := make(chan bool, len(open))
	for _, a := range open {
		go func() { shown <- a.show(ctx, m) }()
	}
	seen := false
	for range open {
		seen = <-shown || seen
	}
	if !seen {
		r.forget(m)
		return channels.Receipt{}, notHere(m)
	}
	return channels.Receipt{}, nil
}

// forget takes back what remember kept: the message was not sent, and Send is given it again.
func (r *Remote) forget(m channels.Outbound) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lately = slices.DeleteFunc(r.lately, func(s sentLately) bool { return s.message.ID == m.ID })
}

// remember keeps m for terminals that are about to attach again. It is called with the mutex held.
func (r *Remote) remember(m channels.Outbound) {
	r.lately = slices.DeleteFunc(r.lately, func(s sentLately) bool { return time.Since(s.at) > latelyTime })
	if len(m.Text()) > latelyBytes {
		return
	}
	r.lately = append(r.lately, sentLately{m, time.Now()})
	r.lately = r.lately[max(len(r.lately)-latelyKept, 0):]
}

// Fetched is what a terminal is to show next: a message, or events of the turn that runs, or neither when nothing came
// in time.
type Fetched struct {
	Message *channels.Outbound
	Kind    corebot.Kind    // of the message
	Made    time.Time       // of the message: when it was written
	Notice  *corebot.Notice // of a notice
	Events  []live.Event
}

func fetched(m channels.Outbound) Fetched {
	return Fetched{Message: &m, Kind: m.Kind, Made: m.CreatedAt, Notice: m.Notice}
}

// Fetch waits for the next message or line that the terminal of a session must show in a chat. The argument shown is
// the id of the message of the last call, once it is on the screen.
func (r *Remote) Fetch(ctx context.Context, chat corebot.Key, session, shown string) (Fetched, error) {
	r.mu.Lock()
	a := r.find(chat, session)
	r.mu.Unlock()
	if a == nil {
		return Fetched{}, ErrDetached
	}
	a.timer.Stop()
	defer a.timer.Reset(silence)
	a.confirmShown(shown)
	return a.next(ctx)
}

// TerminalKey is the key of a chat that terminals talk in with an agent.
func TerminalKey(agent, chat string) corebot.Key {
	return corebot.Key{Agent: agent, Channel: Channel, Account: DefaultAccount, Chat: chat}
}

// Attach opens a chat in the terminal of a session, and makes replies that wait for it due. A terminal that attaches
// again is shown what was sent lately; it knows what it has shown already.
func (r *Remote) Attach(ctx context.Context, chat corebot.Key, session string, again bool) error {
	r.Detach(chat, session, "")
	a := newAttachment(session)
	a.events, a.unwatch = r.watch(chat)
	r.mu.Lock()
	if again {
		a.missed = r.sentIn(chat)
	}
	r.attached[chat] = append(r.attached[chat], a)
	a.timer = time.AfterFunc(silence, func() { r.drop(chat, a, "") })
	r.mu.Unlock()
	return r.wake(ctx, chat)
}

// sentIn is called with the mutex held.
func (r *Remote) sentIn(chat corebot.Key) []channels.Outbound {
	var sent []channels.Outbound
	for _, s := range r.lately {
		if s.message.Key == chat && time.Since(s.at) <= latelyTime {
			sent = append(sent, s.message)
		}
	}
	return sent
}

// Detach ends a session's attachment; shown is as in Fetch. It may be called again.
func (r *Remote) Detach(chat corebot.Key, session, shown string) {
	r.mu.Lock()
	a := r.find(chat, session)
	r.mu.Unlock()
	if a != nil {
		r.drop(chat, a, shown)
	}
}

// drop ends an attachment, once however often it is called.
func (r *Remote) drop(chat corebot.Key, a *attachment, shown string) {
	r.mu.Lock()
	at := slices.Index(r.attached[chat], a)
	if at >= 0 {
		r.attached[chat] = slices.Delete(r.attached[chat], at, at+1)
	}
	if len(r.attached[chat]) == 0 {
		delete(r.attached, chat)
	}
	r.mu.Unlock()
	if at >= 0 {
		a.confirmShown(shown)
		a.leave()
	}
}

// find is called with the mutex held.
func (r *Remote) find(chat corebot.Key, session string) *attachment {
	for _, a := range r.attached[chat] {
		if a.session == session {
			return a
		}
	}
	return nil
}
