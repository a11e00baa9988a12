package channels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// A send whose end nobody has seen may have been shown: a crash cut it off, or the platform did not answer. A platform
// with idempotency keys takes it again. Another can be asked: see [Reconciler]. With neither, the settings decide.

// OnAmbiguous says what happens to a message whose send was cut off, on a channel without idempotency keys.
type OnAmbiguous string

const (
	Resend OnAmbiguous = "resend" // the default: rather twice than not at all
	Hold   OnAmbiguous = "hold"   // a dead letter, for an operator to decide
)

// ReasonAmbiguous is why a held message is a dead letter.
const ReasonAmbiguous = "ambiguous"

// ErrMayBeShown says that a send ended before the platform answered: the piece may have been shown.
var ErrMayBeShown = errors.New("it may have been sent")

// ErrCannotTell says that a platform was asked for a send, has answered, and cannot tell. It is another error than
// [ErrMayBeShown], which a question that broke off wraps as well: a platform that was killed can tell later.
var ErrCannotTell = errors.New("the platform cannot tell whether it is shown")

// outOfOrder is the error of an answer with a status of 500 or more.
type outOfOrder struct{ error }

func (e outOfOrder) Unwrap() error { return e.error }

// OutOfOrder is the failure of a request that a platform, or a server before it, has answered with a status of 500 or
// more. The message waits.
func OutOfOrder(err error) error {
	return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: Unsent, Err: outOfOrder{err}}
}

// Unsure is the error of a send or an edit. A platform that is [OutOfOrder] can have carried it out all the same: a
// server before the platform gives up sooner than the platform.
func Unsure(err error) error {
	f := (*corebot.Failure)(nil)
	if !errors.As(err, new(outOfOrder)) || !errors.As(err, &f) {
		return err
	}
	return &corebot.Failure{
		Class: f.Class, RetryAfter: f.RetryAfter, Err: fmt.Errorf("%w: %w", ErrMayBeShown, f.Err),
	}
}

// NotShown is the error of a step that shows nothing, such as an upload, or nothing twice. Such a step makes no send
// ambiguous. A platform that is killed breaks off such steps as it breaks off sends. So a step without an answer uses
// up no attempts at first.
func NotShown(err error) error {
	if !errors.Is(err, ErrMayBeShown) {
		return err
	}
	class, wait := corebot.RateLimited, askedAfter
	if f := (*corebot.Failure)(nil); errors.As(err, &f) && f.Class != corebot.Transient {
		class, wait = f.Class, f.RetryAfter
	}
	return &corebot.Failure{Class: class, RetryAfter: wait, Err: errors.New(err.Error())}
}

// heldBack is the error of a message that is kept for an operator, because nobody can say whether it was shown.
type heldBack struct{ error }

// idempotent says whether the platform shows a message once, however often it is sent, or can say whether it is shown.
func (r *run) idempotent(d corebot.Delivery) bool {
	e := r.accounts[d.Message.Key.Account]
	if e == nil {
		return true // nothing is sent: it waits for a process that serves the account
	}
	_, native := e.Channel.(Idempotent)
	_, asked := e.Channel.(Reconciler)
	return native || asked
}

// mayBeShown counts a message whose send was cut off, and says whether that is its end.
func (r *run) mayBeShown(d corebot.Delivery, why string) (out corebot.Outcome, held bool) {
	r.ambiguous.WithLabelValues(r.kind).Inc()
	return corebot.Outcome{Verb: corebot.Dead, Reason: ReasonAmbiguous, Error: why}, r.onAmbiguous == Hold
}

// doubts are the messages of which an earlier send may have shown something. The lane forgets a lost lease as soon as
// the message waits, so this process remembers it.
//
// An earlier process may have begun a message that it had accepted. Only the head of a lane is ever sent, so of each
// lane that is the first message that this process claims. A message that was accepted later than now, by a clock that
// was set back, counts as accepted earlier, too. There are at most as many as lanes.
type doubts struct {
	began time.Time
	mu    sync.Mutex
	lives map[int64]struct{}
	heads map[int64]int64 // lane to the place of the first message that was accepted earlier
}

func newDoubts(now time.Time) *doubts {
	return &doubts{began: now, lives: map[int64]struct{}{}, heads: map[int64]int64{}}
}

// about says whether a message is in doubt. A wait for a rate counts as a try: a server in between can refuse what the
// platform has taken.
func (x *doubts) about(d corebot.Delivery, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	inherited := x.inherited(d, now)
	if inherited || d.Attempt > 1 || d.Run > 1 || d.Lost > 0 || d.Limited > 0 {
		x.lives[d.Life] = struct{}{}
	}
	_, is := x.lives[d.Life]
	return is
}

// inherited says whether an earlier process may have begun a message.
func (x *doubts) inherited(d corebot.Delivery, now time.Time) bool {
	if d.PublishedAt.After(x.began) && !d.PublishedAt.After(now) {
		delete(x.heads, d.Lane) // all that come behind it are of this process, too
		return false
	}
	head, known := x.heads[d.Lane]
	if !known {
		x.heads[d.Lane], head = d.Seq, d.Seq
	}
	return d.Seq <= head
}

// settled forgets a message that has ended.
func (x *doubts) settled(d corebot.Delivery, o corebot.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if o.Verb == corebot.Done || o.Verb == corebot.Dead {
		delete(x.lives, d.Life)
	}
}

// delivered asks the platform for a piece that may be shown already. A platform that cannot tell leaves the choice to
// the settings, when it is in reach.
func (r *run) delivered(ctx context.Context, d corebot.Delivery, c Channel, o Outbound) (Receipt, bool, error) {
	asked, can := c.(Reconciler)
	if !can {
		return Receipt{}, false, r.inReach(ctx, d, c)
	}
	receipt, shown, err := asked.Delivered(ctx, o)
	switch {
	case errors.Is(err, ErrCannotTell):
		if _, held := r.mayBeShown(d, err.Error()); held {
			return Receipt{}, false, heldBack{err}
		}
		return Receipt{}, false, nil
	case err != nil:
		return Receipt{}, false, unanswered(err)
	}
	r.reconciled.WithLabelValues(r.kind, said(shown)).Inc()
	return receipt, shown, nil
}

// inReach asks a platform that cannot tell what it shows whether it is in reach. A message waits while it is not.
func (r *run) inReach(ctx context.Context, d corebot.Delivery, c Channel) error {
	p, can := c.(Reacher)
	if !can {
		return nil
	}
	if err := p.Reach(ctx); err != nil {
		return &corebot.Failure{
			Class: corebot.Cancelled, RetryAfter: max(Unsent, askedWait(err)),
			Err: fmt.Errorf("ask whether the platform is in reach: %w", err),
		}
	}
	r.accounts[d.Message.Key.Account].strayed.Store(false)
	return nil
}

// strays says whether the last send of an account was of unknown end, where nobody can ask for it. An outage breaks off
// each send that is begun. So no further message is sent before the platform is in reach.
func (r *run) strays(d corebot.Delivery) bool {
	return r.accounts[d.Message.Key.Account].strayed.Load()
}

// unanswered is the error of a question that was not answered. The message waits, however long, unless the platform
// has said what else is to be done. It uses up no attempts while the platform is away or out of order.
func unanswered(err error) error {
	err = fmt.Errorf("ask whether the message was shown: %w", err)
	if f := (*corebot.Failure)(nil); errors.As(err, &f) && f.Class != corebot.Transient &&
		!errors.As(err, new(outOfOrder)) {
		return err
	}
	return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: Unsent, Err: err}
}

// askedAfter is how long a message waits whose send the platform did not answer, until the platform is asked. A
// question that is not answered either waits for [Unsent]: then the platform is away.
const askedAfter = 5 * time.Second

// again is the error of a send that the platform did not answer, where the next try asks first. A platform that is
// away for some minutes breaks off each send. So the error counts as a limit of the platform: the message uses up no
// attempts until the patience with limits is over. A message that itself breaks the connection ends with the attempts
// after that.
func again(err error) error {
	if f := (*corebot.Failure)(nil); errors.As(err, &f) && f.Class != corebot.Transient {
		return err
	}
	return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: askedAfter, Err: err}
}

// isBeside says whether a piece is shown beside a draft, as a message of its own; nil never is.
func isBeside(ctx context.Context, c Channel, draft string, piece *Outbound) (shown bool, err error) {
	asked, can := c.(Reconciler)
	if !can || piece == nil {
		return false, nil
	}
	o := *piece
	o.Shown = append(slices.Clone(o.Shown), draft)
	ctx, cancel := context.WithTimeout(ctx, draftCall)
	defer cancel()
	err = guarded(func() (err error) {
		_, shown, err = asked.Delivered(ctx, o)
		return err
	})
	switch {
	case errors.Is(err, ErrCannotTell): // the draft is the better place
		return false, nil
	case err != nil:
		return false, unanswered(err)
	}
	return shown, nil
}

// guarded makes an error of a panic of a channel, which would end the program: no attempt to send has begun.
func guarded(ask func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return ask()
}

func said(shown bool) string {
	if shown {
		return "shown"
	}
	return "missing"
}

// known shows the counts of a channel that can be asked from the start.
func (r *run) known(c Channel) {
	if _, can := c.(Reconciler); can {
		r.reconciled.WithLabelValues(r.kind, said(true))
		r.reconciled.WithLabelValues(r.kind, said(false))
	}
}

// verdict is what becomes of a message whose send failed.
func (r *run) verdict(d corebot.Delivery, err error) corebot.Outcome {
	if held := (heldBack{}); errors.As(err, &held) {
		return corebot.Outcome{Verb: corebot.Dead, Reason: ReasonAmbiguous, Error: err.Error()}
	}
	if _, asked := r.channelOf(d).(Reconciler); asked && errors.Is(err, ErrMayBeShown) {
		return r.queue.Verdict(d, again(err))
	}
	if errors.Is(err, ErrMayBeShown) && !r.idempotent(d) {
		r.accounts[d.Message.Key.Account].strayed.Store(true)
		if out, held := r.mayBeShown(d, err.Error()); held {
			return out
		}
	}
	return r.queue.Verdict(d, err)
}
