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

// Fault is one way in which a turn fails: a sentence for who reads the chat, and one for who operates Corebot. A chat
// never reads accounts, addresses and keys.
type Fault struct {
	Name     string // stands in docs/errors.md; never changes
	Reader   string // with the verbs of [fmt.Sprintf] for what a case fills in
	Operator string // what to look at or to change
}

// Say is the sentence for the reader of a chat.
func (f Fault) Say(args ...any) string { return fmt.Sprintf(f.Reader, args...) }

// The failures of a model provider. A number in a sentence is the status of its answer.
var (
	FaultTooLong = Fault{
		"too-long", "The message, with what belongs to it, is too long for the model (%d).",
		"The model's context is smaller than Corebot takes it to be: set llm.context_tokens.",
	}
	FaultFiltered = Fault{
		"filtered", "The model provider's content filter stopped the message (%d).",
		"The provider filters requests. Another model or provider may take the message.",
	}
	FaultNoModel = Fault{
		"no-model", "The model provider does not have the model (%d).",
		"Check llm.model and llm.base_url. A local server has a model only once it was fetched.",
	}
	FaultBadRequest = Fault{
		"bad-request", "The model provider did not accept the request (%d).",
		"The provider's words say what it does not accept. A setting such as think or temperature may be one.",
	}
	FaultKeyRefused = Fault{
		"key-refused", "The model provider refused the API key (%d).",
		"Check llm.api_key. `corebot init` tests a new key at once.",
	}
	FaultKeyForbidden = Fault{
		"key-forbidden", "The model provider does not let the API key use the model (%d).",
		"Choose a model that the key may use, or another key.",
	}
	FaultNoCredit = Fault{
		"no-credit", "The account at the model provider has no credit left (%d).",
		"Pay the provider, or put another one into llm.providers.",
	}
	FaultOverloaded = Fault{
		"overloaded", "The model provider is overloaded (%d).",
		"Corebot tries again by itself. A second provider in llm.providers answers meanwhile.",
	}
	FaultRateLimited = Fault{
		"rate-limited", "The model provider limits how often it can be asked (%d).",
		"Corebot waits as long as the provider says. Fewer router.workers ask it less often.",
	}
	FaultProvider = Fault{
		"provider", "The model provider failed (%d).",
		"Corebot tries again by itself. The provider's words are in `corebot why`.",
	}
	FaultTimeout = Fault{
		"timeout", "The model provider did not answer in time.",
		"The endpoint is slow or stuck: llm.timeout, llm.first_byte_timeout, llm.idle_timeout.",
	}
	FaultUnreachable = Fault{
		"unreachable", "The model provider cannot be reached.",
		"Check the network and llm.base_url. A local server must run.",
	}
	FaultNotAModel = Fault{
		"not-a-model", "What answers at the address of the model provider is not a model.",
		"Check llm.base_url and the kind of the provider.",
	}
	FaultBrokenAnswer = Fault{
		"broken-answer", "The model's answer broke off, or could not be read.",
		"Corebot tries again by itself. `corebot why` has the error.",
	}
	FaultLongAnswer = Fault{
		"long-answer", "The model's answer was longer than Corebot allows.",
		"The model repeats itself, or llm.output_tokens is too high.",
	}
	FaultNoRoom = Fault{
		"no-room", "The model used up its output limit before it said anything.",
		"Allow it more output tokens: llm.output_tokens.",
	}
	FaultFilteredAnswer = Fault{
		"filtered-answer", "The model provider's content filter stopped the answer.",
		"Another model or provider may answer.",
	}
	FaultDeclined = Fault{
		"declined", "The model declined to answer.",
		"Another model may answer.",
	}
	FaultNotAChatModel = Fault{
		"not-a-chat-model", "The configured model is not a chat model.",
		"Set llm.model to a chat model.",
	}
	FaultUnknownModel = Fault{
		"unknown-model", "The model that this chat asks for is not configured.",
		"`corebot chats model KEY` gives the chat another model, or none of its own.",
	}
)

// The failures of Corebot itself.
var (
	FaultNoAgent = Fault{
		"no-agent", "The agent %q, which this chat talks to, is not configured any more.",
		"Add it to agents, then replay the dead letter.",
	}
	FaultInside = Fault{
		"inside", "Something failed inside Corebot.",
		"`corebot why` and the log have the error.",
	}
	FaultDamaged = Fault{
		"damaged", "What is stored of message %s cannot be read any more: please send it again.",
		"`corebot db check` says what is damaged. `corebot db restore` goes on with a backup.",
	}
	FaultUnstored = Fault{
		"unstored", "Its answer could not be stored, and would not be the next time.",
		"`corebot why` has the database's error.",
	}
	FaultPoison = Fault{
		"poison", "Corebot broke off %d times in a row at the same place of it.",
		"Something in this turn ends the process: look for a crash or for memory in the system's log.",
	}
	FaultTooLongForAll = Fault{
		"too-long-for-all", "It is too long for the model, also with half of what was said before it. " +
			"Begin a new conversation with /new, or send a shorter message.",
		"A model with a larger context takes longer messages: llm.context_tokens must then say so.",
	}
	FaultAttempts = Fault{
		"attempts", "I tried it %d times. The last time: %s",
		"The last failure says why. bus.max_attempts is how often.",
	}
)

// Faults are all of them, as docs/errors.md lists them.
func Faults() []Fault {
	return []Fault{
		FaultTooLong, FaultFiltered, FaultNoModel, FaultBadRequest, FaultKeyRefused, FaultKeyForbidden, FaultNoCredit,
		FaultOverloaded, FaultRateLimited, FaultProvider, FaultTimeout, FaultUnreachable, FaultNotAModel,
		FaultBrokenAnswer, FaultLongAnswer, FaultNoRoom, FaultFilteredAnswer, FaultDeclined, FaultNotAChatModel,
		FaultUnknownModel, FaultNoAgent, FaultInside, FaultDamaged, FaultUnstored, FaultPoison, FaultTooLongForAll,
		FaultAttempts,
	}
}
