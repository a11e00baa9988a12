package corebot

import (
	"errors"
	"fmt"
	"time"
)

// Errors that callers decide on. They are compared with errors.Is.
var (
	ErrInvalid       = errors.New("invalid")
	ErrTooLarge      = errors.New("too large")
	ErrNotFound      = errors.New("not found")
	ErrConflict      = errors.New("the same message id was accepted with another body")
	ErrLaneFull      = errors.New("the chat has too many waiting messages")
	ErrSenderFull    = error(&narrower{"the sender has too many waiting messages", ErrLaneFull}) // of all his chats
	ErrCommandRate   = errors.New("too many commands of the sender in this chat")
	ErrOverloaded    = errors.New("too many waiting messages")
	ErrDiskFull      = errors.New("the disk is full")
	ErrLeaseLost     = errors.New("the lease is lost")
	ErrCommitUnknown = errors.New("the outcome of the commit is unknown")
	ErrClosed        = errors.New("the store is closed")
	ErrDiverged      = errors.New("the journal has another step in this place")
)

// narrower is a kind of another error.
type narrower struct {
	text string
	kind error
}

func (n *narrower) Error() string { return n.text }
func (n *narrower) Unwrap() error { return n.kind }

// TooSoon is the [ErrCommandRate] of a command that finds nothing to do and comes faster than the rate of its sender in its chat.
type TooSoon struct{ After time.Duration } // when the next such command is accepted

func (e *TooSoon) Error() string {
	return fmt.Sprintf("%v: the next one is accepted in %v", ErrCommandRate, e.Seconds())
}

func (e *TooSoon) Is(target error) bool { return target == ErrCommandRate }

// Seconds is After in whole seconds: another try after them is not too soon.
func (e *TooSoon) Seconds() time.Duration {
	return max(time.Second, (e.After + time.Second - 1).Truncate(time.Second))
}

// ErrSettled is the ErrLeaseLost of a claim that its own holder has ended: what the holder wrote then has happened.
var ErrSettled = fmt.Errorf("%w: the claim was settled already", ErrLeaseLost)

// ErrUnstorable is what the database refuses whenever it is asked, such as a row that breaks a constraint.
var ErrUnstorable = errors.New("the database cannot store this")

// Unstorable says whether an error of storing something comes again however often it is tried.
func Unstorable(err error) bool {
	for _, permanent := range []error{ErrUnstorable, ErrDiverged, ErrConflict, ErrTooLarge, ErrInvalid} {
		if errors.Is(err, permanent) {
			return true
		}
	}
	return false
}

// Causes of a cancelled turn, given to context.WithCancelCause.
var (
	ErrStopped  = errors.New("stopped")
	ErrShutdown = errors.New("interrupted by shutdown")

	// ErrInterrupted is the ErrStopped of a turn that had to make room for a newer prompt.
	ErrInterrupted = fmt.Errorf("%w: a newer message came", ErrStopped)
)

// Class says what a failure means for the message that met it.
type Class uint8

const (
	Transient   Class = iota // worth another attempt after a backoff; what an unclassified error is taken for
	RateLimited              // worth another attempt when RetryAfter has passed
	Permanent                // will fail the same way again
	Cancelled                // not the message's fault; not counted
)

func (c Class) String() string {
	return [...]string{"transient", "rate_limited", "permanent", "cancelled"}[c]
}

// Failure is an error with its class. Adapters wrap what a provider or platform says into it.
type Failure struct {
	Class      Class
	RetryAfter time.Duration // what the other side asked for; zero if it asked for nothing
	Err        error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Explanation adds to a failure what the people of a chat hear of it, in place of its text and the name of its class.
type Explanation struct {
	Err   error
	Plain string // one sentence for anybody: nothing in it of accounts, addresses and keys
	Words string // what the other side said, for admins: one bounded line without secrets; empty: it said nothing
}

func (e *Explanation) Error() string { return e.Err.Error() }
func (e *Explanation) Unwrap() error { return e.Err }

// ExplanationOf is the outermost explanation of an error; one without sentences if the error has none.
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
