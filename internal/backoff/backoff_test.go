package backoff

import (
	"math"
	"testing"
	"time"
)

func TestTheCeilingDoublesUpToTheMaximum(t *testing.T) {
	p := Policy{Base: time.Second, Max: 10 * time.Second}
	for n, want := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 4: 8, 5: 10, 6: 10, 1_000: 10, math.MaxInt: 10} {
		if got := p.Ceiling(n); got != want*time.Second {
			t.Errorf("after %d failures: %v, want %vs", n, got, int64(want))
		}
	}
}

func TestNoPolicyOverflowsOrTakesLong(t *testing.T) {
	for _, p := range []Policy{
		{},
		{Max: time.Hour},
		{Base: 1, Max: math.MaxInt64},
		{Base: math.MaxInt64/2 + 1, Max: math.MaxInt64},
		{Base: time.Hour, Max: time.Minute},
	} {
		last := time.Duration(0)
		for _, n := range []int{1, 2, 3, 62, 63, 64, 65, 1_000, math.MaxInt} {
			got := p.Ceiling(n)
			if got < last || got > p.Max {
				t.Errorf("%+v after %d failures: %v, before it was %v", p, n, got, last)
			}
			last = got
		}
	}
}

func TestTheWaitIsSpreadOverAllOfTheCeiling(t *testing.T) {
	p := Policy{Base: time.Second, Max: time.Minute}
	var low, high int
	for range 2_000 {
		switch d := p.After(3); {
		case d <= 0 || d > 4*time.Second:
			t.Fatalf("the wait is %v", d)
		case d < time.Second:
			low++
		case d > 3*time.Second:
			high++
		}
	}
	if low < 300 || high < 300 { // a quarter of each is expected
		t.Errorf("%d short waits and %d long ones of 2000", low, high)
	}
	if d := (Policy{}).After(5); d != 0 {
		t.Errorf("nothing makes %v", d)
	}
}
