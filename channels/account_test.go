package channels_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
)

// entry is a channel of the tests' kind under an account.
func entry(account string, c channels.Channel) channels.Entry {
	return channels.Entry{Account: channels.Account{Kind: apptest.Channel, Name: account}, Channel: c}
}

func TestAReplyGoesOutByTheAccountThatItsMessageCameInBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		work, home := &platform{}, &platform{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- o.Run(ctx, entry("work", work), entry("home", home)) }()
		for _, account := range []string{"work", "home", "gone"} {
			o.enqueueFor(t, account, "a", account)
		}
		pass(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(work.sent) != 1 || work.sent[0].ID != "work" || len(home.sent) != 1 || home.sent[0].ID != "home" {
			t.Errorf("work was given %+v, home %+v", work.sent, home.sent)
		}
		if life := o.life(t, "gone"); life.End != "" || life.Attempts != 0 {
			t.Errorf("the reply of an account that nobody serves ended %q after %d attempts", life.End, life.Attempts)
		}
	})
}

func TestEveryAccountTellsHowItIsDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		var mended atomic.Bool
		broken := &platform{run: func(context.Context, channels.Door) error { return errors.New("no connection") }}
		well := &platform{
			run: func(ctx context.Context, door channels.Door) error {
				<-ctx.Done()
				return nil
			},
			send: func(context.Context, channels.Outbound) error {
				if !mended.Load() {
					return errors.New("a gateway timeout")
				}
				return nil
			},
		}
		s, err := channels.NewSupervisor(o.Door, o.Outbox, zerolog.Nop(), entry("well", well), entry("broken", broken))
		if err != nil {
			t.Fatal(err)
		}
		status := func(account string) channels.Status {
			for _, st := range s.Status() {
				if st.Name == account {
					return st
				}
			}
			t.Fatalf("nothing is known of %s", account)
			return channels.Status{}
		}
		if st := status("well"); st.State != channels.Starting {
			t.Errorf("before it runs: %+v", st)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = s.Receive(ctx) }()
		go func() { _ = s.Send(ctx) }()
		pass(time.Millisecond)
		if st := status("broken"); st.State != channels.Failed || !strings.Contains(st.LastError, "no connection") ||
			!st.LastEvent.IsZero() {
			t.Errorf("the broken account is %+v", st)
		}
		o.enqueueFor(t, "well", "a", "1")
		pass(time.Millisecond)
		if st := status("well"); st.State != channels.Running || !strings.Contains(st.LastError, "gateway") ||
			!st.LastEvent.IsZero() {
			t.Errorf("after a send that failed: %+v", st)
		}
		mended.Store(true)
		pass(time.Minute)
		sent := status("well").LastEvent
		if sent.IsZero() || o.life(t, "1").End != corebot.EndSent {
			t.Errorf("after a send: %+v", status("well"))
		}
		pass(time.Hour)
		in := channels.Incoming{
			ID: "1", Channel: apptest.Channel, Chat: "a", SenderID: "x",
			Parts: corebot.TextPart("hi"),
		}
		if _, err := s.DoorOf(channels.Account{Kind: apptest.Channel, Name: "well"}).Accept(t.Context(),
			in); err != nil {
			t.Fatal(err)
		}
		if got := status("well").LastEvent; !got.After(sent) {
			t.Errorf("the last event is still at %v", got)
		}
		cancel()
		pass(time.Minute)
	})
}
