package storage

import (
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func TestRatesForgetTheKeysThatWereUsedLongestAgo(t *testing.T) {
	var undo []func()
	r, now := newRates[int](&undo), time.UnixMilli(1_000_000)
	slow := corebot.Rate{Every: time.Hour}
	for k := range maxRates + 1 {
		r.take(k, now, slow)
	}
	if n := len(r.young) + len(r.aged); n > maxRates {
		t.Errorf("%d keys are remembered, the limit is %d", n, maxRates)
	}
	if r.freeAt(0) != 0 || r.freeAt(maxRates) != now.Add(time.Hour).UnixMilli() {
		t.Errorf("the oldest is free at %d, the newest at %d", r.freeAt(0), r.freeAt(maxRates))
	}
}

func TestRatesFollowTheTransactionAndTheClock(t *testing.T) {
	var undo []func()
	r, now := newRates[string](&undo), time.UnixMilli(1_000_000)
	rate := corebot.Rate{Every: time.Second, Burst: 2}
	r.take("ann", now, rate)
	was := r.freeAt("ann")
	undo = undo[:0]
	r.take("ann", now, rate)
	r.take("bob", now, rate)
	for i := len(undo) - 1; i >= 0; i-- {
		undo[i]()
	}
	if r.freeAt("ann") != was || r.freeAt("bob") != 0 {
		t.Errorf("undone they are free at %d and %d, want %d and 0", r.freeAt("ann"), r.freeAt("bob"), was)
	}
	r.shift(-time.Minute)
	if got := r.freeAt("ann"); got != was-60_000 {
		t.Errorf("after a step of the clock it is free at %d, want %d", got, was-60_000)
	}
}
