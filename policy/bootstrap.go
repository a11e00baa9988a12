package policy

import (
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// MinBootstrapKey is the least length of a bootstrap key in bytes. 128 bits cannot be guessed.
const MinBootstrapKey = 16

// Bootstrap is how the first admin is made: by a key that the operator has configured. The zero Bootstrap is off.
type Bootstrap struct {
	key         corebot.KeyHash
	maxAttempts int
	lockout     time.Duration
}

// NewBootstrap takes the key, the number of wrong keys in a row before a lockout, and the length of the lockout. An
// empty key turns bootstrap off. A key that is too short is [corebot.ErrInvalid]; the error never contains the key.
func NewBootstrap(key string, maxAttempts int, lockout time.Duration) (Bootstrap, error) {
	switch {
	case key == "":
		return Bootstrap{}, nil
	case len(key) < MinBootstrapKey:
		return Bootstrap{}, fmt.Errorf("%w: the bootstrap key has %d bytes, and the least is %d", corebot.ErrInvalid,
			len(key), MinBootstrapKey)
	case maxAttempts < 1 || lockout <= 0:
		return Bootstrap{}, fmt.Errorf("%w: bootstrap with %d attempts and a lockout of %v", corebot.ErrInvalid,
			maxAttempts, lockout)
	}
	return Bootstrap{corebot.HashKey(key), maxAttempts, lockout}, nil
}

// BootstrapState is the memory of all attempts together, of every sender. It survives restarts.
type BootstrapState struct {
	Failures int       // wrong keys since the newest lockout began
	LockedAt time.Time // when the newest lockout began; zero: never
	Used     bool      // the key has made an admin
}

// BootstrapAttempt is one use of a key.
type BootstrapAttempt struct {
	Key    corebot.KeyHash
	By     corebot.Principal
	Admins bool // there is an admin already, in one chat or everywhere
	At     time.Time
}

// Decide says whether an attempt makes its principal an admin, and returns the next state. During a lockout an attempt
// changes nothing. It is not counted, it does not prolong the lockout, and even the right key is refused.
func (b Bootstrap) Decide(s BootstrapState, a BootstrapAttempt) (Decision, BootstrapState) {
	deny := func(rule, reason string) Decision { return Decision{Rule: rule, Reason: reason} }
	switch {
	case b.key == corebot.KeyHash{}:
		return deny("bootstrap-off", "no bootstrap key is configured"), s
	case s.Used || a.Admins:
		return deny("bootstrap-closed", "there has been an admin already; an admin gives roles with chat.set_role"), s
	case a.By.ID == "":
		return deny("bootstrap-anonymous", "a sender without an id can hold no role"), s
	}
	if s.LockedAt.After(a.At) { // the clock was set back: the lockout must not last until the old time comes again
		s.LockedAt = a.At
	}
	if until := s.LockedAt.Add(b.lockout); !s.LockedAt.IsZero() && a.At.Before(until) {
		return deny("bootstrap-locked", "after too many wrong bootstrap keys none is taken until "+
			until.UTC().Format(time.RFC3339)), s
	}
	if subtle.ConstantTimeCompare(b.key[:], a.Key[:]) == 1 {
		return Decision{Allow: true, Rule: "bootstrap"}, BootstrapState{Used: true}
	}
	if s.Failures++; s.Failures >= b.maxAttempts {
		s.Failures, s.LockedAt = 0, a.At
	}
	return deny("bootstrap-key", "this is not the bootstrap key"), s
}
