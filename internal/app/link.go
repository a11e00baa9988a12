package app

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// Link reaches the Corebot of a home for as long as a terminal or an MCP client needs one. This is the Corebot that
// runs on the home. If none runs, the link starts one in this process, which answers other processes too.
//
// A Corebot may end while it is used. A link then finds the next one: a call that got no answer is a [*control.Lost],
// and the call after it is made at whichever Corebot runs then. Where a terminal's or a client's Corebot has ended, the
// link becomes Corebot itself. Where a daemon has ended, the link waits for the daemon, which may have a model and a
// user that this process has not.
type Link struct {
	home string
	host func(context.Context) (*App, error)
	tell func(Place)

	ended chan struct{} // closed when a Corebot of this process has ended
	end   func()

	mu    sync.Mutex // held while a Corebot is looked for
	now   control.Caller
	place Place
	own   *hosted
}

// Place is the Corebot that a link has reached, or none.
type Place struct {
	operate.Hello
	Here  bool // in this process
	Gone  bool // there is none at the moment; Hello tells of the last
	Again bool // there was another before
}

// NewLink makes a link to a home, and reaches nothing yet. The function host makes a Corebot in this process. The
// function tell gets each Corebot that the link reaches, and hears when it is gone, one call at a time. It must not
// call the link.
func NewLink(home string, host func(context.Context) (*App, error), tell func(Place)) *Link {
	ended := make(chan struct{})
	return &Link{home: home, host: host, tell: tell, ended: ended, end: sync.OnceFunc(func() { close(ended) })}
}

// Open reaches a Corebot for the first time.
func (l *Link) Open(ctx context.Context) (Place, error) {
	var place Place
	err := Locked(ctx, l.home, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, err := l.reach(ctx)
		place = l.place
		return err
	})
	return place, err
}

// Call implements [control.Caller] at the Corebot that is reached.
func (l *Link) Call(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	l.mu.Lock()
	caller, err := l.reach(ctx)
	l.mu.Unlock()
	if err != nil {
		if isHeld(err) { // for a moment, or else whoever waits for an answer gives up
			err = &control.Lost{Err: err}
		}
		return nil, err
	}
	raw, err := caller.Call(ctx, name, args)
	if lost := (*control.Lost)(nil); errors.As(err, &lost) && ctx.Err() == nil {
		l.lose(caller)
	}
	return raw, err
}

// Ended is closed when a Corebot of this process has ended: the link reaches no other.
func (l *Link) Ended() <-chan struct{} { return l.ended }

// Reached is the Corebot that was reached last, for a word of goodbye: nothing is looked for.
func (l *Link) Reached() control.Caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil {
		return control.Operations{}
	}
	return l.now
}

// lose forgets a Corebot that did not answer.
func (l *Link) lose(caller control.Caller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == caller {
		l.now = nil
		l.place.Gone = true
		l.tell(l.place)
	}
}

var errNoneRuns = errors.New("no Corebot runs on this home at the moment")

// reach gives the Corebot that is reached, or finds one. It is called with the mutex held.
func (l *Link) reach(ctx context.Context) (control.Caller, error) {
	if l.own != nil {
		return l.own, l.own.failure()
	}
	if l.now != nil {
		return l.now, nil
	}
	client, running, err := control.Dial(ctx, DataDir(l.home))
	if err != nil {
		return nil, err
	}
	if running {
		hello, err := greet(ctx, client)
		if err != nil {
			return nil, err
		}
		l.reached(client, Place{Hello: hello})
		return client, nil
	}
	if l.place.Daemon {
		return nil, &control.Lost{Err: errNoneRuns}
	}
	return l.begin(ctx)
}

// greeting bounds how long a Corebot may take to say which it is; a process that is stopped takes for ever.
const greeting = 5 * time.Second

func greet(ctx context.Context, c control.Caller) (operate.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	hello, err := operate.Greet.Call(ctx, c, struct{}{})
	if errors.Is(err, corebot.ErrNotFound) { // of an older version, where only daemons and MCP servers had a socket
		return operate.Hello{Daemon: true}, nil
	}
	return hello, err
}

// begin makes this process the Corebot of the home.
func (l *Link) begin(ctx context.Context) (control.Caller, error) {
	a, err := l.host(ctx)
	if err != nil {
		return nil, err
	}
	l.own = run(ctx, a, l.end)
	l.reached(l.own, Place{Hello: a.hello(), Here: true})
	return l.own, nil
}

func (l *Link) reached(c control.Caller, p Place) {
	p.Again = l.place != (Place{})
	l.now, l.place = c, p
	l.tell(p)
}

// Close ends the Corebot of this process, if there is one: turns that run have its drain time.
func (l *Link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = nil
	if l.own == nil {
		return nil
	}
	return l.own.close()
}

// IsGone says whether a call got no answer because its Corebot has ended or was about to end: the next one may answer
// it.
func IsGone(err error) bool {
	var lost *control.Lost
	return errors.As(err, &lost) || errors.Is(err, corebot.ErrClosed)
}

// Away is how long a program waits for a Corebot that has gone. A person waits for as long as he likes.
const Away = 30 * time.Second

// hosted is a Corebot that runs in this process.
type hosted struct {
	control.Caller
	app   *App
	stop  context.CancelFunc
	ended chan struct{}
	err   error // of Run; read after ended
}

// run runs a Corebot until close. It outlives ctx, so that whoever uses it can end in order.
func run(ctx context.Context, a *App, ended func()) *hosted {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	h := &hosted{Caller: a.Caller(), app: a, stop: stop, ended: make(chan struct{})}
	go func() {
		defer ended()
		defer close(h.ended)
		h.err = a.Run(ctx)
	}()
	return h
}

// failure is why a Corebot of this process has ended by itself, or nil while it runs.
func (h *hosted) failure() error {
	select {
	case <-h.ended:
		return errors.Join(errors.New("the Corebot of this process has ended by itself"), h.err)
	default:
		return nil
	}
}

func (h *hosted) close() error {
	h.stop()
	<-h.ended
	return errors.Join(h.err, h.app.Close())
}

// While runs a Corebot for as long as fn takes, and closes it.
func (a *App) While(ctx context.Context, fn func(context.Context) error) error {
	h := run(ctx, a, func() {})
	err := fn(ctx)
	return errors.Join(err, h.close())
}

// A process can hold the lock of a home and not answer at the control socket. It makes a single change, is about to
// begin, or is about to end. Each case lasts a moment.
const (
	moment     = 10 * time.Second
	momentStep = 50 * time.Millisecond
)

// Locked calls try, which needs the home for this process alone. It calls try again while another process holds the
// home only for a moment. A Corebot that runs on the home is refused at once: the error is the [*storage.LockError] of
// try.
func Locked(ctx context.Context, home string, try func() error) error {
	for began := time.Now(); ; backoff.Sleep(ctx, momentStep) {
		err := try()
		if !isHeld(err) || ctx.Err() != nil || time.Since(began) > moment {
			return err
		}
		if _, running, _ := control.Dial(ctx, DataDir(home)); running {
			return try() // a Corebot that has just begun may do what is asked
		}
	}
}

// LockedSoon is [Locked], and also waits for a Corebot that ends by itself when one message has its answer. It waits at
// most [Away]. The function tell hears once which Corebot that is.
func LockedSoon(ctx context.Context, home string, tell func(operate.Hello), try func() error) error {
	told := false
	for began := time.Now(); ; backoff.Sleep(ctx, momentStep) {
		err := Locked(ctx, home, try)
		if !isHeld(err) || ctx.Err() != nil || time.Since(began) > Away {
			return err
		}
		client, running, _ := control.Dial(ctx, DataDir(home))
		if !running {
			continue // it has just ended, or another one begins
		}
		hello, met := greet(ctx, client)
		if met == nil && !hello.Passing {
			return err
		}
		if met == nil && !told {
			told = true
			tell(hello)
		}
	}
}

// isHeld says whether an error is that another process holds the home.
func isHeld(err error) bool {
	var held *storage.LockError
	return errors.As(err, &held)
}
