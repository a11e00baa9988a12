package channels_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
)

// newReported is an outbox that reports to the chat "admins".
func newReported(t *testing.T) *outbox {
	t.Helper()
	k := apptest.New(t, apptest.Options{Bus: bus.Options{Lease: 30 * time.Second, MaxAttempts: 3}})
	r, err := channels.NewReporter(k.Bus, k.Ledger, apptest.Key("admins"))
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	o, err := channels.NewOutbox(r, k.Ledger, "", zerolog.Nop(), registry)
	if err != nil {
		t.Fatal(err)
	}
	return &outbox{k, o, registry, nil}
}

// refuses takes nothing for these chats.
func refuses(chats ...string) *platform {
	return &platform{send: func(_ context.Context, m channels.Outbound) error {
		for _, c := range chats {
			if m.Key.Chat == c {
				return &corebot.Failure{Class: corebot.Permanent, Err: errors.New("no such\nchat")}
			}
		}
		return nil
	}}
}

func TestAReplyThatIsGivenUpIsReportedOnceToTheAdminChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newReported(t)
		p := refuses("a")
		o.enqueue(t, "a", "1", "hello")
		o.run(t, p)
		pass(time.Minute)
		id := o.life(t, "1").ID
		want := fmt.Sprintf(
			`A reply could not be delivered to chat a on test. The last attempt said: no such chat. It is kept as `+
				`dead letter %d: "corebot dlq show %d" shows it, "corebot dlq replay %d" sends it again.`, id, id, id)
		if got := p.texts("admins"); len(got) != 1 || got[0] != want {
			t.Errorf("the admins were told %q, want %q", got, want)
		}
		if life := o.life(t, "1"); life.End != corebot.EndDead || len(life.Replies) != 1 ||
			life.Replies[0].Kind != corebot.KindNotice {
			t.Errorf("the reply is %+v", life)
		}
		if n := settled(t, o, "corebot_bus_dead_letters_total"); n != 1 {
			t.Errorf("%v dead letters are counted", n)
		}
	})
}

func TestAReportSaysHowOftenAReplyWasTriedAndNoNameOfAClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newReported(t)
		p := &platform{send: func(_ context.Context, m channels.Outbound) error {
			if m.Key.Chat == "admins" {
				return nil
			}
			return &corebot.Failure{Class: corebot.Transient, Err: errors.New("the line\u202e is busy.")}
		}}
		o.enqueue(t, "a", "1", "hello")
		o.run(t, p)
		pass(time.Hour)
		got := strings.Join(p.texts("admins"), "\n")
		if !strings.HasPrefix(got, "A reply could not be delivered to chat a on test. Corebot tried it 3 times, and "+
			"the last time: ") || !strings.Contains(got, " is busy. It is kept") {
			t.Errorf("the admins were told %q", got)
		}
		for _, no := range []string{"attempts", "transient", "permanent", "\u202e"} {
			if strings.Contains(got, no) {
				t.Errorf("%q is in %q", no, got)
			}
		}
	})
}

// settled reads a counter of the bus.
func settled(t *testing.T, o *outbox, name string) float64 {
	t.Helper()
	return (&outbox{registry: o.Kit.Registry}).counted(t, name)
}

func TestANoticeNeverBegetsANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newReported(t)
		o.enqueue(t, "a", "1", "hello")
		o.run(t, refuses("a", "admins"))
		pass(time.Minute)
		dead, err := o.DeadLetters.List(t.Context(), corebot.DeadLetterFilter{})
		if err != nil || len(dead) != 2 {
			t.Fatalf("the dead letters are %+v, %v; want the reply and the notice about it", dead, err)
		}
	})
}

func TestAnHourHasRoomForSoManyReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newReported(t)
		p := refuses("a")
		for i := range 30 {
			o.enqueue(t, "a", fmt.Sprint("m", i), "hello")
		}
		o.run(t, p)
		pass(time.Minute)
		got := p.texts("admins")
		if len(got) != 20 || !strings.Contains(got[19], "Further ones within this hour are not reported here") ||
			strings.Contains(got[18], "Further ones") {
			t.Fatalf("%d reports, the last %q", len(got), got[max(0, len(got)-1):])
		}
		pass(time.Hour)
		o.enqueue(t, "a", "later", "hello")
		pass(time.Minute)
		if got := p.texts("admins"); len(got) != 21 {
			t.Errorf("%d reports after the hour", len(got))
		}
	})
}

func TestAReportWhoseIdIsTakenHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newReported(t)
		p := refuses("a")
		o.enqueue(t, "a", "1", "hello")
		o.enqueue(t, "admins", corebot.OwnID("undelivered", o.life(t, "1").ID, 1), "something else")
		o.run(t, p)
		pass(time.Minute)
		if life := o.life(t, "1"); life.End != corebot.EndDead {
			t.Errorf("the reply is %s", life.State)
		}
	})
}

func TestAReplayedReplyIsSentUnderTheSameIdsInEveryPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		broken := true
		p := &platform{}
		p.send = func(context.Context, channels.Outbound) error {
			if broken && len(p.texts("a")) == 1 {
				return &corebot.Failure{Class: corebot.Permanent, Err: errors.New("too fast")}
			}
			return nil
		}
		o.enqueue(t, "a", "1", "one one. two two. three.")
		o.run(t, narrow{p, 9})
		pass(time.Minute)
		broken = false
		if err := o.DeadLetters.Replay(t.Context(), o.life(t, "1").ID, false); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		var sent []string
		for _, m := range p.sent {
			sent = append(sent, m.IdempotencyKey+" "+m.Text())
		}
		if got := strings.Join(sent, ", "); got != "1/1/0-9 one one., 1/1/9-18 two two., 1/1/18-24 three." {
			t.Errorf("sent %s", got)
		}
	})
}

func TestAReporterNeedsAChat(t *testing.T) {
	if _, err := channels.NewReporter(nil, nil, corebot.Key{}); !errors.Is(err, corebot.ErrInvalid) {
		t.Error(err)
	}
}
