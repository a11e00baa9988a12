package channels

import (
	"context"
	"errors"
)

// Channel connects Corebot to one place where people talk.
//
// Run receives: it hands every incoming message to the door and blocks until ctx ends or the connection is beyond repair;
// the supervisor runs it again after a backoff. Send delivers one [Outbound] and returns its [Receipt] when the platform has it;
// a [*corebot.Failure] tells the outbox whether to try again. Send is called from one goroutine at a time per conversation. It must
// return soon after its ctx ends: at its deadline, or when the lease is lost ([corebot.ErrLeaseLost] is the cause). The deadline is
// 30 s at least; it is shorter for a conversation whose last message failed, and for one that holds up others of its account.
// Until Send returns, its message stays claimed and the conversation waits.
//
// A Send that ends with its ctx may have shown the message. A [*corebot.Failure] of class Cancelled says that it has not.
type Channel interface {
	Run(ctx context.Context, door Door) error
	Send(ctx context.Context, o Outbound) (Receipt, error)
}

// Door is where every message enters, whatever its channel. Accept returns after the commit that stored the message has been
// fsynced, and only then may a channel acknowledge it. Its errors are those of corebot.Receipt, corebot.ErrInvalid and
// corebot.ErrTooLarge. One for want of room is a [*corebot.Busy], which says when to try again and whether to tell the chat.
type Door interface {
	Accept(ctx context.Context, m Incoming) (Accepted, error)
}

// Accepted says what became of an incoming message.
type Accepted struct {
	ID        string
	Duplicate bool // accepted before; nothing changed
}

// Splitter is the ability of a channel whose messages have a largest size. Longer replies are sent in parts.
type Splitter interface {
	MaxMessageBytes() int
}

// Idempotent is the ability of a channel whose platform takes a message's id as an idempotency key: sending it twice shows it
// once.
type Idempotent interface {
	IdempotentSend()
}

// Final wraps the error of a channel that must not be run again, such as one whose input has ended with an error.
type Final struct{ Err error }

func (f *Final) Error() string { return f.Err.Error() }
func (f *Final) Unwrap() error { return f.Err }

func isFinal(err error) bool {
	var f *Final
	return errors.As(err, &f)
}
