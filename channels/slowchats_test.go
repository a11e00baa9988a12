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
	"github.com/corebot/corebot/internal/apptest"
)

// silent never answers the chats whose name begins with "dead", and keeps when the others got something.
func silent(p *platform, got map[string]time.Time) *platform {
	p.send = func(ctx context.Context, m channels.Outbound) error {
		if strings.HasPrefix(m.Key.Chat, "dead") {
			<-ctx.Done()
			return ctx.Err()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		got[m.Key.Chat] = time.Now()
		return nil
	}
	return p
}

// arrived is when a chat got something.
func (p *platform) arrived(got map[string]time.Time, chat string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return got[chat]
}

func TestMoreSlowChatsThanWorkersHoldUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		got := map[string]time.Time{}
		p := silent(&platform{}, got)
		for i := range 40 {
			o.enqueue(t, fmt.Sprint("dead", i), fmt.Sprint("d", i), "hello")
		}
		o.run(t, p)
		for n := range 20 { // through the first attempts of the dead, their retries, and after they were given up
			chat := fmt.Sprint("healthy", n)
			asked := time.Now()
			o.enqueue(t, chat, chat, "hello")
			pass(7 * time.Second)
			if at := p.arrived(got, chat); at.IsZero() || at.Sub(asked) > time.Second {
				t.Errorf("message %d to a healthy chat arrived after %v", n, at.Sub(asked))
			}
		}
		pass(time.Hour)
		for i := range 40 {
			if life := o.life(t, fmt.Sprint("d", i)); life.End != corebot.EndDead || life.Attempts != 3 {
				t.Errorf("the message to dead chat %d ended %q after %d attempts", i, life.End, life.Attempts)
			}
		}
	})
}

// enqueueFor enqueues a message in a chat of an account.
func (o *outbox) enqueueFor(t *testing.T, account, chat, id string) {
	t.Helper()
	key := apptest.Key(chat)
	key.Account = account
	m := corebot.Message{
		ID: id, Direction: corebot.Outbound, Key: key, Kind: corebot.KindReply, Parts: corebot.TextPart("hello"),
	}
	if _, err := o.Bus.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func TestAnAccountWithHundredsOfDeadChatsLeavesRoomForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		got := map[string]time.Time{}
		p := silent(&platform{}, got)
		for i := range 260 {
			o.enqueueFor(t, "first", fmt.Sprint("dead", i), fmt.Sprint("d", i))
		}
		o.run(t, p)
		pass(4 * time.Second) // the first account has as many sends under way as it can get
		for n := range 4 {
			chat := fmt.Sprint("healthy", n)
			asked := time.Now()
			o.enqueueFor(t, "second", chat, chat)
			pass(3 * time.Second)
			if at := p.arrived(got, chat); at.IsZero() || at.Sub(asked) > time.Second {
				t.Errorf("message %d of the other account arrived after %v", n, at.Sub(asked))
			}
		}
	})
}

func TestAHealthyChatOfAnAccountFullOfDeadOnesWaitsForSecondsOnly(t *testing.T) {
	// 100 ms for every eight dead chats before it; 5 s for each 192 of them; and 1 s until it looks for a place again,
	// in each of these two rounds
	const most = 240/8*100*time.Millisecond + 2*(5*time.Second+time.Second)
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		got := map[string]time.Time{}
		p := silent(&platform{}, got)
		for i := range 240 {
			o.enqueue(t, fmt.Sprint("dead", i), fmt.Sprint("d", i), "hello")
		}
		o.run(t, p)
		for n := range 12 {
			chat := fmt.Sprint("healthy", n)
			asked := time.Now()
			o.enqueue(t, chat, chat, "hello")
			pass(30 * time.Second)
			if at := p.arrived(got, chat); at.IsZero() || at.Sub(asked) > most || n > 3 &&
				at.Sub(asked) > time.Second {
				t.Errorf("message %d to a healthy chat arrived after %v", n, at.Sub(asked))
			}
		}
		pass(24 * time.Hour)
		for i := range 240 { // those that found no room were not counted an attempt for it, and all come to their end
			if life := o.life(t, fmt.Sprint("d", i)); life.End != corebot.EndDead || life.Attempts != 3 {
				t.Errorf("the message to dead chat %d ended %q after %d attempts", i, life.End, life.Attempts)
			}
		}
	})
}

func TestAChatThatFailedLatelyGetsAShortSlotThatGrowsWithItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		var took []time.Duration
		answers := false
		p := &platform{}
		p.send = func(ctx context.Context, m channels.Outbound) error {
			if answers {
				return nil
			}
			begun := time.Now()
			<-ctx.Done()
			p.mu.Lock()
			defer p.mu.Unlock()
			took = append(took, time.Since(begun).Round(time.Millisecond))
			return ctx.Err()
		}
		o.run(t, p)
		deal := func(id string, want ...time.Duration) {
			t.Helper()
			took = nil
			o.enqueue(t, "a", id, "hello")
			pass(5 * time.Minute)
			if !slices.Equal(took, want) {
				t.Errorf("the sends of message %s had %v, want %v", id, took, want)
			}
		}
		deal("1", 30*time.Second, 5*time.Second, 10*time.Second)
		deal("2", 5*time.Second, 5*time.Second, 10*time.Second) // its chat is remembered
		answers = true
		deal("3")
		answers = false
		deal("4", 30*time.Second, 5*time.Second, 10*time.Second) // after a success it has a full slot again
		pass(time.Hour)
		deal("5", 30*time.Second, 5*time.Second, 10*time.Second) // and after a while without a failure
	})
}

func TestASendThatNobodyAnsweredInTimeIsAmbiguous(t *testing.T) {
	for on, want := range map[channels.OnAmbiguous]corebot.Life{
		channels.Resend: {End: corebot.EndSent, Attempts: 2},
		channels.Hold:   {End: corebot.EndDead, Attempts: 1, Reason: channels.ReasonAmbiguous},
	} {
		t.Run(string(on), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutbox(t, "", on)
				sends := 0
				p := &platform{send: func(ctx context.Context, _ channels.Outbound) error {
					if sends++; sends > 1 {
						return nil
					}
					<-ctx.Done()
					return fmt.Errorf("post to the platform: %w", ctx.Err())
				}}
				o.enqueue(t, "a", "1", "hello")
				o.run(t, p)
				pass(time.Minute)
				life := o.life(t, "1")
				if life.End != want.End || life.Reason != want.Reason || life.Attempts != want.Attempts {
					t.Errorf("it ended %q (%s) after %d attempts", life.End, life.Reason, life.Attempts)
				}
				if !strings.Contains(life.LastError, "may have been sent") {
					t.Errorf("its last error is %q", life.LastError)
				}
				if n := o.counted(t, "corebot_outbox_ambiguous_total"); n != 1 {
					t.Errorf("%v sends are ambiguous", n)
				}
			})
		})
	}
}

func TestAWorkerDoesNotWaitForChatsThatFailedLately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		got := map[string]time.Time{}
		p := silent(&platform{}, got)
		lasting := p.send
		p.send = func(ctx context.Context, m channels.Outbound) error {
			if m.ID[0] == 'x' {
				return &corebot.Failure{Class: corebot.Permanent, Err: errors.New("blocked")}
			}
			return lasting(ctx, m)
		}
		stop := o.run(t, p)
		for i := range 80 {
			o.enqueue(t, fmt.Sprint("dead", i), fmt.Sprint("x", i), "hello")
		}
		pass(time.Second)
		for i := range 80 {
			o.enqueue(t, fmt.Sprint("dead", i), fmt.Sprint("d", i), "hello")
		}
		asked := time.Now()
		o.enqueue(t, "healthy", "h", "hello")
		pass(time.Second)
		if at := p.arrived(got, "healthy"); at.IsZero() || at.Sub(asked) > 50*time.Millisecond {
			t.Errorf("it arrived after %v", at.Sub(asked))
		}
		stop()
	})
}
