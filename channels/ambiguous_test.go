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

// asked is a platform that can say what it shows.
type asked struct {
	*platform
	questions int
	fails     error // of the next questions
	less      int   // bytes that the platform shows of a message
}

func (a *asked) Delivered(_ context.Context, o channels.Outbound) (channels.Receipt, bool, error) {
	a.mu.Lock() // two chats can be asked about at once
	defer a.mu.Unlock()
	a.questions++
	shown := slices.ContainsFunc(a.sent, func(m channels.Outbound) bool { return m.IdempotencyKey == o.IdempotencyKey })
	return channels.Receipt{IDs: []string{"found"}, Reached: a.less}, shown && a.fails == nil, a.fails
}

func TestAPlatformThatCanBeAskedShowsAMessageOnceAfterACrash(t *testing.T) {
	for name, shown := range map[string]bool{"the platform has it": true, "the platform has it not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				before := newOutbox(t, dir, channels.Hold)
				before.enqueue(t, "a", "1", "hello")
				before.enqueue(t, "a", "2", "world")
				d := before.claim(t)
				before.Crash()

				o := newOutbox(t, dir, channels.Hold)
				p := &asked{platform: &platform{}}
				if shown {
					p.sent = append(p.sent, channels.OutboundOf(d.Message, p))
				}
				o.run(t, p)
				pass(time.Second)
				if got := p.texts("a"); !slices.Equal(got, []string{"hello", "world"}) || p.questions != 1 {
					t.Errorf("after %d questions the chat shows %q", p.questions, got)
				}
				life := o.life(t, "1")
				found := len(life.Steps) == 1 && slices.Equal(life.Steps[0].Sent.IDs, []string{"found"})
				if found != shown || life.End != corebot.EndSent {
					t.Errorf("it ended %q with the steps %+v", life.End, life.Steps)
				}
				if n := o.counted(t, "corebot_outbox_reconciled_total"); n != 1 {
					t.Errorf("%v questions were counted", n)
				}
				if n := o.counted(t, "corebot_outbox_ambiguous_total"); n != 0 {
					t.Errorf("%v sends are ambiguous", n)
				}
			})
		})
	}
}

// mute is a platform that cannot say what it shows, and takes every request and answers none until a time.
type mute struct {
	*platform
	until time.Time
}

func (m *mute) wait(ctx context.Context) error {
	if time.Now().Before(m.until) {
		<-ctx.Done()
		return fmt.Errorf("post to the platform: %w", ctx.Err())
	}
	return nil
}

func (m *mute) Reach(ctx context.Context) error { return m.wait(ctx) }

// refusing is a platform that nobody reaches any more, after it has broken off a send.
type refusing struct {
	*platform
	asked int
}

func (r *refusing) Reach(context.Context) error {
	r.asked++
	return errors.New("connection refused")
}

func TestAPlatformOutOfReachIsAskedForAMessageInDoubtFourTimesAMinuteAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p := &refusing{platform: &platform{}}
		p.send = func(context.Context, channels.Outbound) error {
			return fmt.Errorf("%w: the connection broke", channels.ErrMayBeShown)
		}
		o.enqueue(t, "a", "1", "hello")
		o.run(t, p)
		pass(time.Hour)
		if life := o.life(t, "1"); life.End != "" || p.asked == 0 || p.asked > 1+4*60 {
			t.Errorf("it was asked %d times in an hour, and the message ended %q", p.asked, life.End)
		}
	})
}

// ill is a platform that cannot say what it shows. A server before it gives up sooner than the platform, which carries
// out each send all the same.
type ill struct {
	*platform
	until time.Time
	asked int
}

func (p *ill) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	r, err := p.platform.Send(ctx, o)
	if err == nil && time.Now().Before(p.until) {
		err = channels.Unsure(channels.OutOfOrder(errors.New("504 Gateway Timeout")))
	}
	return r, err
}

func (p *ill) Reach(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked++; time.Now().Before(p.until) {
		return errors.New("504 Gateway Timeout")
	}
	return nil
}

func (p *ill) questions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// Each further send in the outage would be a dead letter with hold, and could be shown twice without.
func TestInAnOutageOfAPlatformThatCannotTellOnlyWhatWasOnItsWayIsAmbiguous(t *testing.T) {
	for on, ends := range map[channels.OnAmbiguous]struct {
		first corebot.End
		shown []string
	}{
		channels.Hold:   {corebot.EndDead, []string{"first"}},
		channels.Resend: {corebot.EndSent, []string{"first", "first"}},
	} {
		t.Run(string(on), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutbox(t, "", on)
				p := &ill{platform: &platform{}, until: time.Now().Add(time.Hour)}
				o.run(t, p)
				pass(time.Second)
				o.enqueue(t, "a", "first", "first")
				pass(time.Second)
				for n := range 20 {
					o.enqueue(t, fmt.Sprint("chat", n), fmt.Sprint(n), "hello")
				}
				pass(time.Hour - time.Minute)
				for n := range 20 {
					if life := o.life(t, fmt.Sprint(n)); life.End != "" || life.Attempts != 0 {
						t.Fatalf("%d ended %q after %d attempts: %s", n, life.End, life.Attempts, life.LastError)
					}
				}
				pass(2 * time.Minute)
				for n := range 20 {
					if got := p.texts(fmt.Sprint("chat", n)); !slices.Equal(got, []string{"hello"}) {
						t.Errorf("chat %d shows %q", n, got)
					}
				}
				life, count := o.life(t, "first"), o.counted(t, "corebot_outbox_ambiguous_total")
				if got := p.texts("a"); life.End != ends.first || !slices.Equal(got, ends.shown) || count != 1 {
					t.Errorf("it ended %q, %q; the chat shows %q, and %v sends are ambiguous", life.End, life.Reason,
						got, count)
				}
				asked := p.questions()
				o.enqueue(t, "b", "later", "later")
				pass(time.Second)
				if more := p.questions() - asked; more != 0 || len(p.texts("b")) != 1 {
					t.Errorf("%d questions later the chat shows %q", more, p.texts("b"))
				}
			})
		})
	}
}

func TestAPlatformThatAnswersNothingForHoursUsesUpNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p := &mute{&platform{}, time.Now().Add(5 * time.Hour)}
		p.send = func(ctx context.Context, _ channels.Outbound) error { return p.wait(ctx) }
		o.enqueue(t, "a", "1", "hello")
		o.enqueue(t, "a", "2", "world")
		o.run(t, p)
		pass(5*time.Hour - time.Second)
		if life := o.life(t, "1"); life.End != "" {
			t.Fatalf("it ended %q after %d attempts: %s", life.End, life.Attempts, life.LastError)
		}
		pass(time.Minute)
		for _, id := range []string{"1", "2"} {
			if life := o.life(t, id); life.End != corebot.EndSent {
				t.Errorf("message %s ended %q after %d attempts: %s", id, life.End, life.Attempts, life.LastError)
			}
		}
	})
}

// A question can take seconds, as in a mailbox. A backlog of replies must not wait for one each: only the first of a
// chat can have been at work when the program died.
func TestOnlyTheFirstMessageOfEachChatIsAskedForAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		before := newOutbox(t, dir, "")
		var want []string
		for n := range 20 {
			text := fmt.Sprint("text ", n)
			before.enqueue(t, "a", "a"+text, text)
			before.enqueue(t, "b", "b"+text, text)
			want = append(want, text)
		}
		before.Crash()

		o := newOutbox(t, dir, "")
		p := &asked{platform: &platform{}}
		o.run(t, p)
		pass(time.Second)
		o.enqueue(t, "a", "later", "later")
		pass(time.Second)
		if p.questions != 2 {
			t.Errorf("%d questions were asked", p.questions)
		}
		if got := p.texts("a"); !slices.Equal(got, append(want, "later")) {
			t.Errorf("chat a shows %q", got)
		}
	})
}

func TestASendThatEndedUnknownIsAskedForBeforeItIsMadeAgain(t *testing.T) {
	for name, class := range map[string]corebot.Class{
		"the answer was lost": corebot.Transient, "a server in between refused it": corebot.RateLimited,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutbox(t, "", channels.Hold)
				p := &asked{platform: &platform{}}
				p.send = func(_ context.Context, m channels.Outbound) error { // it takes effect all the same
					p.mu.Lock()
					defer p.mu.Unlock()
					p.sent = append(p.sent, m)
					return &corebot.Failure{
						Class: class, RetryAfter: time.Second,
						Err: fmt.Errorf("%w: no answer", channels.ErrMayBeShown),
					}
				}
				o.enqueue(t, "a", "1", "hello")
				o.run(t, p)
				pass(time.Hour)
				if got := p.texts("a"); len(got) != 1 || o.life(t, "1").End != corebot.EndSent {
					t.Errorf("the chat shows %q, and it ended %q", got, o.life(t, "1").End)
				}
			})
		})
	}
}

// A homeserver that is stopped breaks off sends that it has not taken.
func TestAPlatformThatIsAwayForMinutesUsesUpNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", channels.Hold)
		p, sends := &asked{platform: &platform{}}, 0
		back := time.Now().Add(20 * time.Minute)
		p.send = func(context.Context, channels.Outbound) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if sends++; time.Now().Before(back) {
				return &corebot.Failure{Err: fmt.Errorf("%w: EOF", channels.ErrMayBeShown)}
			}
			return nil
		}
		o.enqueue(t, "a", "1", "hello")
		o.run(t, p)
		pass(time.Hour)
		if life := o.life(t, "1"); len(p.texts("a")) != 1 || life.End != corebot.EndSent || sends < 10 {
			t.Errorf("after %d sends there is %q; it ended %q, %q", sends, p.texts("a"), life.End, life.Reason)
		}
	})
}

// A message that breaks the connection by itself does not hold up its chat for ever.
func TestAMessageThatIsNeverTakenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", channels.Hold)
		p := &asked{platform: &platform{}}
		p.send = func(context.Context, channels.Outbound) error {
			return &corebot.Failure{Err: fmt.Errorf("%w: EOF", channels.ErrMayBeShown)}
		}
		o.enqueue(t, "a", "1", "hello")
		o.run(t, p)
		pass(6 * time.Hour)
		if life := o.life(t, "1"); life.End != corebot.EndDead {
			t.Errorf("it ended %q", life.End)
		}
	})
}

func TestAPieceThatIsFoundShorterGoesOnWhereItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		before := newOutbox(t, dir, "")
		before.enqueue(t, "a", "1", "one two")
		d := before.claim(t)
		before.Crash()
		o := newOutbox(t, dir, "")
		p := &asked{platform: &platform{}, less: 4}
		p.sent = append(p.sent, channels.OutboundOf(d.Message, p))
		o.run(t, p)
		pass(time.Second)
		if got := p.texts("a"); !slices.Equal(got, []string{"one two", "two"}) {
			t.Errorf("the chat shows %q", got)
		}
	})
}

func TestAPlatformThatCannotTellLeavesTheChoiceToTheSettings(t *testing.T) {
	for name, c := range map[string]struct {
		fails error
		on    channels.OnAmbiguous
		sent  int
		end   corebot.End
		count float64
	}{
		"it cannot tell, and the send is held":  {channels.ErrCannotTell, channels.Hold, 0, corebot.EndDead, 1},
		"it cannot tell, and the send is again": {channels.ErrCannotTell, channels.Resend, 1, corebot.EndSent, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				before := newOutbox(t, dir, c.on)
				before.enqueue(t, "a", "1", "hello")
				before.claim(t)
				before.Crash()
				o := newOutbox(t, dir, c.on)
				p := &asked{platform: &platform{}, fails: c.fails}
				o.run(t, p)
				pass(time.Hour)
				life := o.life(t, "1")
				if n := o.counted(t, "corebot_outbox_ambiguous_total"); len(p.texts("a")) != c.sent ||
					life.End != c.end || n != c.count {
					t.Errorf("%d sends, %v ambiguous; it ended %q, %q", len(p.texts("a")), n, life.End, life.Reason)
				}
			})
		})
	}
}

func TestAPlatformThatDoesNotAnswerTheQuestionIsAskedUntilItDoes(t *testing.T) {
	for name, fails := range map[string]error{
		"an error": errors.New("down"), "no answer": &corebot.Failure{Err: context.DeadlineExceeded},
		"it breaks off": &corebot.Failure{Err: fmt.Errorf("%w: EOF", channels.ErrMayBeShown)}, // as a Wire says it
		"it is ill":     channels.OutOfOrder(errors.New("502")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				before := newOutbox(t, dir, "")
				before.enqueue(t, "a", "1", "hello")
				before.claim(t)
				before.Crash()
				o := newOutbox(t, dir, "")
				p := &asked{platform: &platform{}, fails: fails}
				o.run(t, p)
				pass(3 * time.Hour)
				if life := o.life(t, "1"); len(p.texts("a")) != 0 || life.End != "" || life.Attempts != 0 ||
					!strings.HasPrefix(life.LastError, "ask whether the message was shown: ") {
					t.Errorf("it ended %q after %d attempts, with %q", life.End, life.Attempts, life.LastError)
				}
				p.mu.Lock()
				p.fails = nil
				p.mu.Unlock()
				pass(time.Minute)
				if got := p.texts("a"); !slices.Equal(got, []string{"hello"}) {
					t.Errorf("the chat shows %q", got)
				}
			})
		})
	}
}
