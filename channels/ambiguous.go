package channels

import (
	"context"
	"errors"
	"fmt"

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

// tried says whether the first piece that is to be sent may have been sent before. A wait for a rate counts as a try: a
// server in between can refuse what the platform has taken.
func tried(d corebot.Delivery) bool { return d.Attempt > 1 || d.Run > 1 || d.Lost > 0 || d.Limited > 0 }

// delivered asks the platform for a piece that may be shown already. A platform that cannot tell leaves the choice to
// the settings.
func (r *run) delivered(ctx context.Context, d corebot.Delivery, c Channel, o Outbound) (Receipt, bool, error) {
	asked, can := c.(Reconciler)
	if !can {
		return Receipt{}, false, nil
	}
	receipt, shown, err := asked.Delivered(ctx, o)
	switch {
	case errors.Is(err, ErrMayBeShown):
		if _, held := r.mayBeShown(d, err.Error()); held {
			return Receipt{}, false, heldBack{err}
		}
		return Receipt{}, false, nil
	case err != nil:
		return Receipt{}, false, fmt.Errorf("ask whether the message was shown: %w", err)
	}
	r.reconciled.WithLabelValues(r.kind, said(shown)).Inc()
	return receipt, shown, nil
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
	if errors.Is(err, ErrMayBeShown) && !r.idempotent(d) {
		if out, held := r.mayBeShown(d, err.Error()); held {
			return out
		}
	}
	return r.queue.Verdict(d, err)
}
