package channels_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
)

// flooded refuses what is sent before a time, and counts that.
func flooded(until time.Time, only func(channels.Outbound) bool) (p *platform, refused *int) {
	refused = new(int)
	p = &platform{}
	p.send = func(_ context.Context, m channels.Outbound) error {
		if now := time.Now(); now.Before(until) && only(m) {
			p.mu.Lock()
			defer p.mu.Unlock()
			*refused++
			return &corebot.Failure{
				Class: corebot.RateLimited, RetryAfter: until.Sub(now), Err: errors.New("too many requests"),
			}
		}
		return nil
	}
	return p, refused
}

func TestAChatThatIsRefusedForItsRateIsLeftAloneInAllItsThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p, refused := flooded(time.Now().Add(time.Minute),
			func(m channels.Outbound) bool { return m.Key.Chat == "busy" })
		o.run(t, p)
		o.enqueue(t, "busy", "r1", "one")
		pass(time.Second)
		key := apptest.Key("busy")
		key.Thread = "t"
		_, err := o.Bus.Publish(t.Context(), corebot.Message{
			ID: "r2", Direction: corebot.Outbound, Key: key, Kind: corebot.KindReply, Parts: corebot.TextPart("two"),
		})
		if err != nil {
			t.Fatal(err)
		}
		o.enqueue(t, "quiet", "r3", "three")
		pass(50 * time.Second)
		if *refused != 1 || len(p.texts("busy")) != 0 {
			t.Errorf("the platform refused %d sends, and shows %q", *refused, p.texts("busy"))
		}
		if got := p.texts("quiet"); !slices.Equal(got, []string{"three"}) {
			t.Errorf("another chat is shown %q", got)
		}
		pass(time.Minute)
		if got := p.texts("busy"); len(got) != 2 {
			t.Errorf("after that time it is shown %q", got)
		}
	})
}

func TestAnAccountWithThreeRefusedChatsIsSilentUntilThePlatformAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p, refused := flooded(time.Now().Add(time.Hour),
			func(m channels.Outbound) bool { return m.Key.Account == "first" })
		stop := o.run(t, p)
		for i := range 20 {
			chat := fmt.Sprint("c", i)
			o.enqueueFor(t, "first", chat, chat)
			pass(time.Second)
		}
		if *refused != 3 {
			t.Errorf("the platform refused %d sends", *refused)
		}
		o.enqueueFor(t, "second", "c", "c")
		pass(time.Second)
		if len(p.texts("c")) != 1 {
			t.Error("the other account is silent, too")
		}
		stop()
		o.Close() // another process
		o = newOutbox(t, o.Dir, "")
		o.run(t, p)
		o.enqueueFor(t, "first", "late", "late")
		pass(50 * time.Minute)
		if *refused != 3 {
			t.Errorf("after a restart the platform has refused %d sends", *refused)
		}
		pass(time.Hour)
		for i := range 20 {
			if got := p.texts(fmt.Sprint("c", i)); len(got) != 1 {
				t.Errorf("after that time chat %d is shown %q", i, got)
			}
		}
	})
}

func TestASendOfUnknownEndIsCountedAsAmbiguous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", channels.Hold)
		o.run(t, &platform{send: func(context.Context, channels.Outbound) error {
			return &corebot.Failure{Err: fmt.Errorf("%w: the connection broke", channels.ErrMayBeShown)}
		}})
		o.enqueue(t, "c", "r1", "one")
		pass(time.Second)
		if life := o.life(t, "r1"); life.Reason != channels.ReasonAmbiguous {
			t.Errorf("it ended as %q %q", life.End, life.Reason)
		}
		if n := o.counted(t, "corebot_outbox_ambiguous_total"); n != 1 {
			t.Errorf("%v sends are counted", n)
		}
	})
}

func TestALaterPieceKnowsTheTextBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p := narrow{&platform{}, 6}
		o.run(t, p)
		o.enqueue(t, "c", "r1", "one two three")
		pass(time.Second)
		before := ""
		for _, m := range p.sent {
			if m.Before != before {
				t.Errorf("before %q it is told of %q", m.Text(), m.Before)
			}
			before += m.Text() + " "
		}
		if len(p.sent) != 3 {
			t.Errorf("%d pieces were sent", len(p.sent))
		}
	})
}
