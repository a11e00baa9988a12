package policy

import (
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// MinBootstrapKey is the least length of a bootstrap key, in bytes: 128 bits cannot be guessed.
const MinBootstrapKey = 16

// Bootstrap is how the first admin is made: by a key that the operator has configured. The zero Bootstrap is off.
type Bootstrap struct {
	key         corebot.KeyHash
	maxAttempts int
	lockout     time.Duration
}

// NewBootstrap takes the key, how many wrong ones are taken in a row, and for how long none is taken then. Without a key bootstrap is off; one
// that is too short is [corebot.ErrInvalid]. The error never spells it.
func NewBootstrap(key string, maxAttempts int, lockout time.Duration) (Bootstrap, error) {
	switch {
	case key == "":
		return Bootstrap{}, nil
	case len(key) < MinBootstrapKey:
		return Bootstrap{}, fmt.Errorf("%w: the bootstrap key has %d bytes, and the least is %d", corebot.ErrInvalid, len(key), MinBootstrapKey)
	case maxAttempts < 1 || lockout <= 0:
		return Bootstrap{}, fmt.Errorf("%w: bootstrap with %d attempts and a lockout of %v", corebot.ErrInvalid, maxAttempts, lockout)
	}
	return Bootstrap{corebot.HashKey(key), maxAttempts, lockout}, nil
}

// BootstrapState is what is remembered of all attempts together, whoever made them. It survives restarts.
type BootstrapState struct {
	Failures int       // wrong keys since the newest lockout began
	LockedAt time.Time // when that was; zero: never
	Used     bool      // the key has made an admin
}

// BootstrapAttempt is one use of a key.
type BootstrapAttempt struct {
	Key    corebot.KeyHash
	By     corebot.Principal
	Admins bool // somebody is admin, in one chat or everywhere
	At     time.Time
}

// Decide says whether an attempt makes its principal admin, and what is to be remembered from now on. While no key is taken, an attempt
// changes nothing: it neither counts nor makes the lockout longer, and the right key is refused like any other.
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
	if s.LockedAt.After(a.At) { // the clock was set back: the lockout must not last until it is there again
		s.LockedAt = a.At
	}
	if until := s.LockedAt.Add(b.lockout); !s.LockedAt.IsZero() && a.At.Before(until) {
		return deny("bootstrap-locked", "after too many wrong bootstrap keys none is taken until "+until.UTC().Format(time.RFC3339)), s
	}
	if subtle.ConstantTimeCompare(b.key[:], a.Key[:]) == 1 {
		return Decision{Allow: true, Rule: "bootstrap"}, BootstrapState{Used: true}
	}
	if s.Failures++; s.Failures >= b.maxAttempts {
		s.Failures, s.LockedAt = 0, a.At
	}
	return deny("bootstrap-key", "this is not the bootstrap key"), s
}
