package bustest

import (
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/corebot/corebot"
)

// The operations of a lane as its callers saw them. Times are unix milliseconds of the store's virtual clock. The clock
// stands still while anybody works. So an operation that does not wait happens at the moment of its call.
type (
	publishCall struct {
		id, text string
		at       int64
	}
	claimCall  struct{}
	extendCall struct {
		epoch, until int64
	}
	settleCall struct {
		epoch   int64
		outcome corebot.OutcomeVerb
		at, due int64 // the moment of the call; the next due moment of a head that stays
	}
)

// receipt is the answer to a publishCall.
type receipt string

const (
	accepted  receipt = "accepted"
	duplicate receipt = "duplicate"
	conflict  receipt = "conflict"
)

// claimAnswer is one lane of what a claim got.
type claimAnswer struct {
	id, text       string
	epoch          int64
	attempt        int
	at, expires    int64
	runsAfterLease bool // the lane was leased before, and its lease has expired
}

// held is the answer to a settleCall and an extendCall. For a settleCall it says whether the caller still held the
// lease. For an extendCall it says that no other claim took the lease.
type held bool

// laneState is a lane as the package doc of bus describes it. A state is replaced, never changed.
type laneState struct {
	texts    map[string]string // of every message that was ever accepted, by id
	queue    []string
	epoch    int64
	lost     int64 // the epoch of the newest claim that was replaced before it had ended
	leased   bool
	wake     int64 // when the head is due, or when the lease expires
	attempts int   // counted attempts of the head
}

func (l laneState) equal(o laneState) bool {
	return l.epoch == o.epoch && l.lost == o.lost && l.leased == o.leased && l.wake == o.wake &&
		l.attempts == o.attempts &&
		slices.Equal(l.queue, o.queue) && maps.Equal(l.texts, o.texts)
}

// step says whether a lane can give this answer to this call, and returns the next state of the lane.
func (l laneState) step(call, answer any) (bool, laneState) {
	switch c := call.(type) {
	case publishCall:
		return l.publish(c, answer.(receipt))
	case claimCall:
		return l.claim(answer.(claimAnswer))
	case extendCall:
		mine := l.leased && l.epoch == c.epoch
		if mine {
			l.wake = c.until
		}
		return held(c.epoch > l.lost) == answer.(held), l
	case settleCall:
		return l.settle(c, answer.(held))
	}
	return false, l
}

func (l laneState) publish(c publishCall, r receipt) (bool, laneState) {
	if text, known := l.texts[c.id]; known {
		want := duplicate
		if text != c.text {
			want = conflict
		}
		return r == want, l
	}
	if len(l.queue) == 0 {
		l.wake = c.at
	}
	l.queue = append(slices.Clip(l.queue), c.id)
	l.texts = maps.Clone(l.texts)
	l.texts[c.id] = c.text
	return r == accepted, l
}

// claim: a lane gives its head and nothing else. It does so when the head is due or the lease has expired, under the
// next epoch.
func (l laneState) claim(a claimAnswer) (bool, laneState) {
	ok := len(l.queue) > 0 && l.wake <= a.at && a.expires == a.at+lease.Milliseconds() &&
		a.epoch == l.epoch+1 && a.id == l.queue[0] && a.text == l.texts[a.id] && a.attempt == l.attempts+1 &&
		a.runsAfterLease == l.leased
	if l.leased {
		l.lost = l.epoch
	}
	l.epoch, l.leased, l.wake = a.epoch, true, a.expires
	return ok, l
}

func (l laneState) settle(c settleCall, h held) (bool, laneState) {
	mine := l.leased && l.epoch == c.epoch
	if !mine {
		return !bool(h), l
	}
	l.leased = false
	switch c.outcome {
	case corebot.Done, corebot.Dead:
		l.queue, l.attempts, l.wake = l.queue[1:], 0, c.at
	case corebot.RetryAt:
		l.attempts, l.wake = l.attempts+1, c.due
	case corebot.Wait:
		l.wake = c.due
	}
	return bool(h), l
}

// laneModel describes a lane to the checker.
func laneModel() porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return laneState{texts: map[string]string{}} },
		Step:  func(state, call, answer any) (bool, any) { return state.(laneState).step(call, answer) },
		Equal: func(a, b any) bool { return a.(laneState).equal(b.(laneState)) },
	}
}

// linearizable says whether one lane can have given these answers. The checker looks for an order of the operations
// that agrees with their calls and returns. If the checker runs out of time, the result is [porcupine.Unknown].
func linearizable(history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(laneModel(), history, time.Minute)
}
