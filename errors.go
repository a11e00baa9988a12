package corebot

import (
	"errors"
	"fmt"
	"time"
)

// Errors that callers decide on. They are compared with errors.Is.
var (
	ErrInvalid  = errors.New("invalid")
	ErrTooLarge = errors.New("too large")
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("the same message id was accepted with another body")
	ErrLaneFull = errors.New("the chat has too many waiting messages")
	// ErrSenderFull counts over all chats of the sender.
	ErrSenderFull    = error(&narrower{"the sender has too many waiting messages", ErrLaneFull})
	ErrCommandRate   = errors.New("too many commands of the sender in this chat")
	ErrOverloaded    = errors.New("too many waiting messages")
	ErrDiskFull      = errors.New("the disk is full")
	ErrLeaseLost     = errors.New("the lease is lost")
	ErrCommitUnknown = errors.New("the outcome of the commit is unknown")
	ErrClosed        = errors.New("the store is closed")
	ErrDiverged      = errors.New("the journal has another step in this place")
	// ErrCursorMoved says that another run of the account has received meanwhile. Nothing of the batch is stored.
	ErrCursorMoved = errors.New("the cursor of the account has moved")
)

// narrower is an error that also counts as another, more general error.
type narrower struct {
	text string
	kind error
}

func (n *narrower) Error() string { return n.text }
func (n *narrower) Unwrap() error { return n.kind }

// TooSoon is the [ErrCommandRate] of a command that has nothing to act on and exceeds the rate of its sender in its
// chat.
type TooSoon struct{ After time.Duration } // when the next such command is accepted

func (e *TooSoon) Error() string {
	return fmt.Sprintf("%v: the next one is accepted in %v", ErrCommandRate, e.Seconds())
}

func (e *TooSoon) Is(target error) bool { return target == ErrCommandRate }

// Seconds is After in whole seconds, rounded up. A try after them is not too soon.
func (e *TooSoon) Seconds() time.Duration {
	return max(time.Second, (e.After + time.Second - 1).Truncate(time.Second))
}

// ErrSettled is the ErrLeaseLost of a claim that its own holder has ended already. The earlier settle of the holder
// took effect.
var ErrSettled = fmt.Errorf("%w: the claim was settled already", ErrLeaseLost)

// ErrUnstorable marks a write that the database refuses at every try, such as a row that breaks a constraint.
var ErrUnstorable = errors.New("the database cannot store this")

// Unstorable says whether a failed write will fail in the same way at every try.
func Unstorable(err error) bool {
	for _, permanent := range []error{ErrUnstorable, ErrDiverged, ErrConflict, ErrTooLarge, ErrInvalid} {
		if errors.Is(err, permanent) {
			return true
		}
	}
	return false
}

// Causes of a cancelled turn, passed to context.WithCancelCause.
var (
	ErrStopped  = errors.New("stopped")
	ErrShutdown = errors.New("interrupted by shutdown")

	// ErrInterrupted is the ErrStopped of a turn that a newer prompt stopped.
	ErrInterrupted = fmt.Errorf("%w: a newer message came", ErrStopped)
)

// Class says what a failure means for its message.
type Class uint8

const (
	Transient   Class = iota // worth another attempt after a backoff; the class of every unclassified error
	RateLimited              // worth another attempt when RetryAfter has passed
	Permanent                // another attempt would fail in the same way
	Cancelled                // not the message's fault; not counted
)

func (c Class) String() string {
	return [...]string{"transient", "rate_limited", "permanent", "cancelled"}[c]
}

// Failure is an error with its class. Adapters wrap the errors of a provider or platform into it.
type Failure struct {
	Class      Class
	RetryAfter time.Duration // the wait that the other side asked for; zero: none
	Err        error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Explanation adds to a failure the sentences that a chat reads instead of the error's text and class.
type Explanation struct {
	Err   error
	Plain string // one sentence for everybody, without accounts, addresses and keys
	Words string // the other side's own words, for admins: one bounded line without secrets; empty: none
}

func (e *Explanation) Error() string { return e.Err.Error() }
func (e *Explanation) Unwrap() error { return e.Err }

// ExplanationOf is the outermost explanation of an error. Without one, its sentences are empty.
func ExplanationOf(err error) Explanation {
	if e := (*Explanation)(nil); errors.As(err, &e) {
		return *e
	}
	return Explanation{Err: err}
}

// Hint adds to an error what its reader can do about it.
type Hint struct {
	Err  error
	Hint string
}

func (h *Hint) Error() string { return h.Err.Error() }
func (h *Hint) Unwrap() error { return h.Err }

// WithHint wraps err; nil stays nil.
func WithHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &Hint{err, hint}
}

// HintOf is the outermost hint of an error, or empty.
func HintOf(err error) string {
	if h := (*Hint)(nil); errors.As(err, &h) {
		return h.Hint
	}
	return ""
}
