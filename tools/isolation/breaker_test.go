package isolation

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestABreakerOpensAfterFailuresInARowAndLetsOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker
		broken := errors.New("broken")
		for range breakAfter - 1 {
			b.left(time.Now(), broken)
		}
		b.left(time.Now(), nil)
		for range breakAfter {
			if err := b.enter(time.Now()); err != nil {
				t.Fatalf("a success did not begin the count anew: %v", err)
			}
			b.left(time.Now(), broken)
		}
		if err := b.enter(time.Now()); !errors.Is(err, broken) {
			t.Fatalf("it is not open: %v", err)
		}
		time.Sleep(coolDown)
		if err := b.enter(time.Now()); err != nil {
			t.Fatalf("none may try: %v", err)
		}
		if err := b.enter(time.Now()); err == nil {
			t.Fatal("two may try")
		}
		b.left(time.Now(), nil)
		if err := b.enter(time.Now()); err != nil {
			t.Fatalf("it did not close: %v", err)
		}
	})
}
