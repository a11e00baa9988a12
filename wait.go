package corebot

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// WaitKind says what a tool call waits for. The values are stored; they never change.
type WaitKind string

const (
	WaitTime WaitKind = "time"     // a moment of the wall clock
	WaitSpan WaitKind = "duration" // the end of a length of time
	WaitWord WaitKind = "word"     // a word from outside of the turn
)

// WaitState is how a [Pending] stands. The values are stored; they never change.
type WaitState string

const (
	WaitOpen    WaitState = "open"    // a word can come, and no call waits for it yet
	WaitAwaited WaitState = "waiting" // a call waits
	WaitOver    WaitState = "over"    // it has come
	WaitExpired WaitState = "expired" // no word came in time
	WaitEnded   WaitState = "ended"   // the wait was given up: see [Pending.Reason]
)

// Pending is what a tool call waits for: a wait, in the words of people. The step of the call stays in the journal, the
// message keeps its place in its lane, and no worker is held. A wait ends once.
type Pending struct {
	ID        int64 // people say it
	Kind      WaitKind
	For       string // what it is good for, in the model's words
	State     WaitState
	Life      int64  // of the message whose turn waits
	MessageID string // of the same message
	Key       Key
	Results   Key       // the conversation of the turn's results
	Principal Principal // who acts
	Rule      string    // by which the call was allowed, as the audit names it
	Secret    KeyHash   // of the key that lets a program give the word; zero: no key does
	Until     time.Time // when the wait is over, or expires
	Word      Word      // that ended it
	Reason    string    // why it was given up, in words
	CreatedAt time.Time
	EndedAt   time.Time // zero: it has not ended
	By        string    // who ended it: a principal's spelling, "operator", or who [ByKey] is; empty: nobody did

	Limits WaitLimits // for the begin of the wait; not stored
}

// Waits says whether a call of the wait, or a later one, can still get what it waits for.
func (w Pending) Waits() bool { return w.State == WaitOpen || w.State == WaitAwaited }

// Word is what comes from outside of a turn that waits.
type Word struct {
	Text    string // may be empty
	Outside bool   // others than the operator and the turn's principal can have written it
}

// Bounds of a wait.
const (
	MaxWord    = 16 << 10 // bytes of a word
	MaxWaitFor = 300      // bytes of [Pending.For]
	MaxWaits   = 16       // waits of one message
)

// ByKey stands for the program that gave a word by its key.
const ByKey = "key"

// WaitLimits bound the waits that have not ended. A limit of zero means none.
type WaitLimits struct {
	PerSender int
	Total     int
}

// Validate refuses a word that cannot be stored or shown.
func (w Word) Validate() error {
	if len(w.Text) > MaxWord {
		return fmt.Errorf("%w: the word has %d bytes, the limit is %d", ErrTooLarge, len(w.Text), MaxWord)
	}
	if !utf8.ValidString(w.Text) {
		return fmt.Errorf("%w: the word is not valid UTF-8", ErrInvalid)
	}
	return nil
}

// Validate refuses a wait that cannot be stored or shown.
func (w Pending) Validate() error {
	if len(w.For) > MaxWaitFor {
		return fmt.Errorf("%w: what the wait is for has %d bytes, the limit is %d", ErrTooLarge, len(w.For), MaxWaitFor)
	}
	if !utf8.ValidString(w.For) {
		return fmt.Errorf("%w: what the wait is for is not valid UTF-8", ErrInvalid)
	}
	return nil
}

// Reasons of a lane whose head waits for what [Pending] says. The message keeps its place and holds no worker.
const (
	AwaitingTime = "a time"
	AwaitingWord = "a word"
)

// Awaiting is the reason of the lane.
func (w Pending) Awaiting() string {
	if w.Kind == WaitWord {
		return AwaitingWord
	}
	return AwaitingTime
}

// ErrWrongKey refuses a word whose key is not that of the wait.
var ErrWrongKey = errors.New("the key is not that of the wait")

// ErrTooManyWaits refuses a wait beyond a limit.
var ErrTooManyWaits = fmt.Errorf("%w: too many waits", ErrInvalid)

// Waiting ends the claim of a turn of which a call waits. It is no failure.
type Waiting struct{ Call Pending }

func (e *Waiting) Error() string {
	w := e.Call
	return fmt.Sprintf("wait %d for %s lasts until %s", w.ID, w.Awaiting(), w.Until.UTC().Format(time.RFC3339))
}

// NoLongerWaits refuses a word for a wait that has ended.
type NoLongerWaits struct{ Was Pending }

func (e *NoLongerWaits) Error() string {
	w := e.Was
	switch {
	case w.State == WaitExpired:
		return fmt.Sprintf("wait %d has expired: no word came in time", w.ID)
	case w.State == WaitEnded:
		return fmt.Sprintf("wait %d was given up: %s", w.ID, w.Reason)
	case w.By == "":
		return fmt.Sprintf("wait %d is over already", w.ID)
	}
	return fmt.Sprintf("wait %d is over already, by %s", w.ID, w.By)
}

// ParseWaitID reads the number of a wait as people write it, with or without a "#".
func ParseWaitID(s string) (int64, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(s, "#"), 10, 64)
	if err != nil || id < 1 {
		return 0, fmt.Errorf("%w: wait %q: want its number", ErrInvalid, s)
	}
	return id, nil
}
