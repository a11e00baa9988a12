package channels_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// numbered is a text of n bytes, in which no two pieces look alike.
func numbered(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%04d ", i)
	}
	return b.String()[:n-1] + "."
}

// shifting is a platform whose largest size changes.
type shifting struct {
	*platform
	limit func() int
}

func (s shifting) MaxMessageBytes() int { return s.limit() }

func TestAMessageIsSentWholeWhenTheLimitChangesBetweenItsAttempts(t *testing.T) {
	for _, c := range []struct{ before, after int }{{100, 300}, {300, 100}, {100, 0}, {100, 101}, {100, 2_000}} {
		for sends := 1; sends < 999/c.before; sends += 3 { // that succeed before the limit changes
			t.Run(fmt.Sprintf("%d to %d after %d", c.before, c.after, sends), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := newOutbox(t, "", "")
					p := &platform{}
					changed := false
					p.send = func(context.Context, channels.Outbound) error {
						if !changed && len(p.texts("a")) == sends {
							changed = true
							return errors.New("a gateway timeout")
						}
						return nil
					}
					text := numbered(999)
					o.enqueue(t, "a", "1", text)
					o.run(t, shifting{p, func() int {
						if changed {
							return c.after
						}
						return c.before
					}})
					pass(time.Minute)
					if got := strings.Join(p.texts("a"), " "); got != text {
						t.Errorf("%d of %d bytes were sent: %q", len(got), len(text), p.texts("a"))
					}
					if life := o.life(t, "1"); life.End != corebot.EndSent {
						t.Errorf("it ended %q", life.End)
					}
					wantKeysOfTheirBytes(t, p.sent)
				})
			})
		}
	}
}

// wantKeysOfTheirBytes fails the test if one id came with two texts: a platform would not show the second.
func wantKeysOfTheirBytes(t *testing.T, sent []channels.Outbound) {
	t.Helper()
	texts := map[string]string{}
	for _, m := range sent {
		if was, known := texts[m.IdempotencyKey]; known && was != m.Text() {
			t.Errorf("%s was sent with %q and with %q", m.IdempotencyKey, was, m.Text())
		}
		texts[m.IdempotencyKey] = m.Text()
	}
}

func TestAPartIsKnownByItsBytesAndNotByItsPlaceInTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		limit, lost := 10, true
		p := &platform{}
		p.send = func(_ context.Context, m channels.Outbound) error {
			if lost {
				lost, limit = false, 15
				p.sent = append(p.sent, m)
				return errors.New("the answer was lost")
			}
			return nil
		}
		o.enqueue(t, "a", "1", "one two three four five")
		o.run(t, shifting{p, func() int { return limit }})
		pass(time.Minute)
		wantKeysOfTheirBytes(t, p.sent)
		// the platform has shown the first part already, and cannot know that the next, longer one has the same text in
		// it
		if got := p.texts("a"); !slices.Equal(got, []string{"one two", "one two three", "four five"}) {
			t.Errorf("sent %q", got)
		}
	})
}

func TestPartsThatAnEarlierVersionCountedAreSentAgainAndMarked(t *testing.T) {
	text := numbered(40)
	for on, want := range map[channels.OnAmbiguous]struct {
		end  corebot.End
		sent string
	}{channels.Resend: {corebot.EndSent, text}, channels.Hold: {corebot.EndDead, ""}} {
		t.Run(string(on), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				before := newOutbox(t, dir, on)
				before.enqueue(t, "a", "1", text)
				d := before.claim(t)
				for i := range 2 { // as they were written: no word of which bytes
					if err := before.Ledger.Record(t.Context(), d, corebot.Step{
						Position: i, Kind: corebot.StepPart,
						State: corebot.StepDone,
					}); err != nil {
						t.Fatal(err)
					}
				}
				if err := before.Bus.Settle(t.Context(), d, corebot.Outcome{
					Verb: corebot.Wait,
					At:   time.Now(),
				}); err != nil {
					t.Fatal(err)
				}
				before.Close()

				o := newOutbox(t, dir, on)
				p := &platform{}
				stumbled := false
				p.send = func(context.Context, channels.Outbound) error {
					if len(p.texts("a")) == 2 && !stumbled {
						stumbled = true
						return errors.New("a gateway timeout") // what is known by then stays known
					}
					return nil
				}
				o.run(t, narrow{p, 10})
				pass(time.Minute)
				if got := strings.Join(p.texts("a"), " "); got != want.sent {
					t.Errorf("sent %q, want %q", got, want.sent)
				}
				if life := o.life(t, "1"); life.End != want.end {
					t.Errorf("it ended %q (%s)", life.End, life.Reason)
				}
				if n := o.counted(t, "corebot_outbox_ambiguous_total"); n != 1 {
					t.Errorf("%v sends are ambiguous", n)
				}
			})
		})
	}
}

func TestPlacesThatCannotBeTrueAreNotBelieved(t *testing.T) {
	text := numbered(40)
	for name, sent := range map[string]corebot.Sent{
		"behind the end": {From: 0, To: 41}, "at the end": {From: 0, To: 40}, "a gap": {From: 5, To: 10},
		"backwards": {From: 0, To: -1}, "nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				o := newOutbox(t, dir, "")
				o.enqueue(t, "a", "1", text)
				d := o.claim(t)
				if err := o.Ledger.Record(t.Context(), d, corebot.Step{
					Kind: corebot.StepPart, State: corebot.StepDone,
					Sent: &sent,
				}); err != nil {
					t.Fatal(err)
				}
				if err := o.Bus.Settle(t.Context(), d, corebot.Outcome{
					Verb: corebot.Wait,
					At:   time.Now(),
				}); err != nil {
					t.Fatal(err)
				}
				p := &platform{}
				o.run(t, narrow{p, 10})
				pass(time.Minute)
				if got := strings.Join(p.texts("a"), " "); got != text {
					t.Errorf("sent %q, want %q", got, text)
				}
			})
		})
	}
}
