package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

const rightKey = "0123456789abcdef"

var dawn = time.Date(2026, 1, 2, 6, 0, 0, 0, time.UTC)

func newBootstrap(t testing.TB) policy.Bootstrap {
	t.Helper()
	b, err := policy.NewBootstrap(rightKey, 3, 15*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func attempt(key string, at time.Time) policy.BootstrapAttempt {
	return policy.BootstrapAttempt{Key: corebot.HashKey(key), By: ann, At: at}
}

func TestTheRightKeyMakesTheFirstAdminOnce(t *testing.T) {
	b := newBootstrap(t)
	d, s := b.Decide(policy.BootstrapState{Failures: 2}, attempt(rightKey, dawn))
	if !d.Allow || d.Rule != "bootstrap" || s != (policy.BootstrapState{Used: true}) {
		t.Fatalf("got %+v, %+v", d, s)
	}
	if d, again := b.Decide(s, attempt(rightKey, dawn)); d.Allow || d.Rule != "bootstrap-closed" || again != s {
		t.Errorf("the second time: %+v, %+v", d, again)
	}
}

func TestWhoCannotBeMadeAdminIsDeniedWithoutACount(t *testing.T) {
	admins, anonymous, off := attempt(rightKey, dawn), attempt(rightKey, dawn), attempt("", dawn)
	admins.Admins = true
	anonymous.By.ID = ""
	for rule, c := range map[string]struct {
		b policy.Bootstrap
		a policy.BootstrapAttempt
	}{
		"bootstrap-closed":    {newBootstrap(t), admins},
		"bootstrap-anonymous": {newBootstrap(t), anonymous},
		"bootstrap-off":       {policy.Bootstrap{}, off},
	} {
		before := policy.BootstrapState{Failures: 1}
		if d, s := c.b.Decide(before, c.a); d.Allow || d.Rule != rule || d.Reason == "" || s != before {
			t.Errorf("%s: got %+v, %+v", rule, d, s)
		}
	}
}

func TestWrongKeysAreCountedAndThenNoneIsTakenForAWhile(t *testing.T) {
	b, s := newBootstrap(t), policy.BootstrapState{}
	var d policy.Decision
	for n := range 3 {
		if s.Failures != n {
			t.Fatalf("after %d: %+v", n, s)
		}
		if d, s = b.Decide(s, attempt("wrong", dawn.Add(time.Duration(n)*time.Minute))); d.Allow ||
			d.Rule != "bootstrap-key" {
			t.Fatalf("got %+v", d)
		}
	}
	locked := policy.BootstrapState{LockedAt: dawn.Add(2 * time.Minute)}
	if s != locked {
		t.Fatalf("got %+v", s)
	}
	for _, key := range []string{"wrong", rightKey} {
		for _, after := range []time.Duration{0, time.Second, 15*time.Minute - time.Millisecond} {
			if d, s := b.Decide(locked, attempt(key, locked.LockedAt.Add(after))); d.Allow ||
				d.Rule != "bootstrap-locked" || s != locked {
				t.Errorf("%q %v into the lockout: %+v, %+v", key, after, d, s)
			}
		}
	}
	over := locked.LockedAt.Add(15 * time.Minute)
	if d, s := b.Decide(locked, attempt("wrong", over)); d.Rule != "bootstrap-key" || s.Failures != 1 {
		t.Errorf("a wrong key after it: %+v, %+v", d, s)
	}
	if d, _ := b.Decide(locked, attempt(rightKey, over)); !d.Allow {
		t.Errorf("the right key after it: %+v", d)
	}
}

func TestAClockThatWasSetBackDoesNotMakeALockoutLonger(t *testing.T) {
	b := newBootstrap(t)
	d, s := b.Decide(policy.BootstrapState{LockedAt: dawn.Add(1000 * time.Hour)}, attempt(rightKey, dawn))
	if d.Rule != "bootstrap-locked" || !s.LockedAt.Equal(dawn) {
		t.Fatalf("got %+v, %+v", d, s)
	}
	if d, _ := b.Decide(s, attempt(rightKey, dawn.Add(15*time.Minute))); !d.Allow {
		t.Errorf("after the lockout time: %+v", d)
	}
}

func TestABootstrapKeyIsLongEnoughOrNone(t *testing.T) {
	for _, c := range []struct {
		key      string
		attempts int
		lockout  time.Duration
	}{{rightKey[1:], 5, time.Minute}, {rightKey, 0, time.Minute}, {rightKey, 5, 0}} {
		_, err := policy.NewBootstrap(c.key, c.attempts, c.lockout)
		if !errors.Is(err, corebot.ErrInvalid) || strings.Contains(err.Error(), c.key) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	off, err := policy.NewBootstrap("", 0, 0)
	if d, _ := off.Decide(policy.BootstrapState{}, attempt("", dawn)); err != nil || d.Allow ||
		d.Rule != "bootstrap-off" {
		t.Errorf("without a key: %+v, %v", d, err)
	}
}

// FuzzOnlyTheRightKeyAtTheRightTimeMakesAnAdmin plays attempts against an independent reading of the rules.
func FuzzOnlyTheRightKeyAtTheRightTimeMakesAnAdmin(f *testing.F) {
	f.Add([]byte{1, 1, 1, 0, 200, 0})
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, moves []byte) {
		b, s, at := newBootstrap(t), policy.BootstrapState{}, dawn
		var wrong []time.Time // since the newest lockout began
		locked, made := time.Time{}, false
		for _, m := range moves {
			at = at.Add(time.Duration(m>>1) * 20 * time.Second)
			key := rightKey
			if m&1 == 1 {
				key = "wrong"
			}
			var d policy.Decision
			d, s = b.Decide(s, attempt(key, at))
			open := !made && (locked.IsZero() || at.Sub(locked) >= 15*time.Minute)
			if want := open && key == rightKey; d.Allow != want {
				t.Fatalf("%s at %v: %+v, want %v", key, at, d, want)
			}
			if open && key != rightKey {
				if wrong = append(wrong, at); len(wrong) == 3 {
					locked, wrong = at, nil
				}
			}
			made = made || d.Allow
		}
	})
}
