package channels_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/storage"
)

// out is an editor whose platform is away for a while.
type out struct {
	*editor
	away *atomic.Bool
}

func (p out) gone() error {
	if p.away.Load() {
		return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: channels.Unsent, Err: errors.New("it is away")}
	}
	return nil
}

func (p out) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	if err := p.gone(); err != nil {
		return channels.Receipt{}, err
	}
	return p.editor.Send(ctx, o)
}

func (p out) Edit(ctx context.Context, id string, o channels.Outbound) (channels.Receipt, error) {
	if err := p.gone(); err != nil {
		return channels.Receipt{}, err
	}
	return p.editor.Edit(ctx, id, o)
}

func (p out) Erase(ctx context.Context, k corebot.Key, id string) error {
	if err := p.gone(); err != nil {
		return err
	}
	return p.editor.Erase(ctx, k, id)
}

func TestAPartOfAnAnswerIsTakenBackAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		p := &editor{platform: &platform{}, every: time.Second}
		p.fails = func(n int) error {
			if n == 2 {
				away.Store(true)
				return fmt.Errorf("%w: no answer", channels.ErrMayBeShown)
			}
			return nil
		}
		s := streamBy(t, "", p, out{p, &away})
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c", "d", "e")
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abcde")
		pass(time.Second)
		away.Store(false)
		pass(time.Minute)
		s.shows(t, "abcde")
		s.kept(t, 0)
		s.stop()
	})
}

func TestAPartOfATurnThatFailedInAnOutageIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		p := &editor{platform: &platform{}, every: time.Second}
		s := streamBy(t, "", p, out{p, &away})
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c", "d", "e")
		away.Store(true)
		s.turn(live.TurnEnded, "failed")
		s.say(t, corebot.KindNotice, "n1", "m1", "it failed")
		pass(time.Second)
		away.Store(false)
		pass(time.Minute)
		s.shows(t, "it failed")
		s.kept(t, 0)
		s.stop()
	})
}

func TestAnAnswerWhoseLastEditIsRefusedForGoodIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		var refused atomic.Bool
		p.fails = func(int) error {
			if refused.Load() {
				return &corebot.Failure{Class: corebot.Permanent, Err: errors.New("refused for good")}
			}
			return nil
		}
		s := stream(t, "", p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		refused.Store(true)
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abcde")
		pass(time.Minute)
		s.shows(t, "abcde")
		s.kept(t, 0)
		s.stop()
	})
}

// A platform that takes longer than a request may take can still show what it was asked for.
func TestADraftWithAnEditThatTookTooLongIsErasedBeforeTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second, takes: 11 * time.Second}
		s := stream(t, "", p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		pass(20 * time.Second)
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abc")
		pass(time.Minute)
		if s.shows(t, "abc"); s.gone() != 1 || len(s.edited()) != 1 {
			t.Errorf("%d messages were erased, and the edits are %q", s.gone(), s.edited())
		}
		s.stop()
	})
}

func TestSoManyAnswersGrowAtOnceAndSoMuchOfEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		s := stream(t, "", p)
		const answers = 70
		say := func(kind live.EventKind, text string) {
			for i := range answers {
				s.hub.Publish(live.Event{Kind: kind, Key: apptest.Key(fmt.Sprint("x", i)), MessageID: "m1", Text: text})
				synctest.Wait() // a watcher that is behind hears no more
			}
		}
		say(live.TurnStarted, "")
		for range 4 {
			say(live.Text, strings.Repeat("x", 40<<10))
			pass(2 * time.Second)
		}
		longest := 0
		for _, text := range s.edited() {
			longest = max(longest, len(text))
		}
		s.mu.Lock()
		grown := s.next
		s.mu.Unlock()
		if grown != 64 || longest != 80<<10 { // of the first piece that is over the limit all is kept
			t.Errorf("of %d answers %d have grown, to %d bytes at most", answers, grown, longest)
		}
		s.stop()
	})
}

func TestAnswersWhoseEndWasMissedKeepNoOtherFromGrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		s := stream(t, "", p)
		for i := range 64 { // as many as can grow at once
			s.hub.Publish(live.Event{Kind: live.TurnStarted, Key: apptest.Key(fmt.Sprint("x", i)), MessageID: "m1"})
		}
		pass(time.Hour)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c", "d", "e")
		if len(s.edited()) == 0 {
			t.Error("no answer grows any more")
		}
		s.stop()
	})
}

func TestAPartOfAnAnswerThatIsADeadLetterIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		p := &editor{platform: &platform{}, every: time.Second}
		s := streamBy(t, "", p, broken{p, &away})
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		away.Store(true)
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abcde")
		pass(time.Hour)
		if life := s.life(t, "r1"); life.End != corebot.EndDead {
			t.Fatalf("it ended %q", life.End)
		}
		away.Store(false)
		s.say(t, corebot.KindReply, "r2", "m2", "next")
		pass(time.Minute)
		s.shows(t, "next")
		s.kept(t, 0)
		s.stop()
	})
}

// broken is an editor whose platform fails at every message.
type broken struct {
	*editor
	fails *atomic.Bool
}

func (b broken) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	if b.fails.Load() {
		return channels.Receipt{}, errors.New("it failed")
	}
	return b.editor.Send(ctx, o)
}

func (b broken) Edit(ctx context.Context, id string, o channels.Outbound) (channels.Receipt, error) {
	if b.fails.Load() {
		return channels.Receipt{}, errors.New("it failed")
	}
	return b.editor.Edit(ctx, id, o)
}

// TestACrashInTheLastEditHoldsNoReply: an edit can be repeated, so nothing is left for an operator to decide. The send
// of a further piece cannot.
func TestACrashInTheLastEditHoldsNoReply(t *testing.T) {
	for name, c := range map[string]struct {
		reply   string // whose place the draft was
		further bool   // the first piece was shown
		end     corebot.End
	}{
		"in the last edit":              {"r1", false, corebot.EndSent},
		"in the send of a second piece": {"r1", true, corebot.EndDead},
		"in a send":                     {"", false, corebot.EndDead},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				before := newOutbox(t, dir, channels.Hold)
				d := corebot.Draft{Key: apptest.Key("c"), Answers: "m1", Shown: "id0", Reply: c.reply}
				if err := storage.NewDrafts(before.DB).Put(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				before.enqueue(t, "c", "r1", "all of it")
				claimed := before.claim(t)
				if c.further {
					step := corebot.Step{Kind: corebot.StepPart, State: corebot.StepDone, StartedAt: time.Now()}
					step.Sent, step.EndedAt = &corebot.Sent{To: 3, IDs: []string{"id0"}}, time.Now()
					if err := before.Ledger.Record(t.Context(), claimed, step); err != nil {
						t.Fatal(err)
					}
				}
				before.Crash()
				p := &editor{
					platform: &platform{}, every: time.Second, on: channels.Hold,
					shown: []string{"all"}, ids: []string{"id0"},
				}
				s := stream(t, dir, p)
				pass(time.Hour)
				if life := s.life(t, "r1"); life.End != c.end {
					t.Errorf("it ended %q, %q", life.End, life.Reason)
				}
				want := 0.0
				if c.end == corebot.EndSent {
					s.shows(t, "all of it")
				} else {
					s.shows(t, "all")
					want = 1
				}
				if n := s.counted(t, "corebot_outbox_ambiguous_total"); n != want {
					t.Errorf("%v sends are ambiguous", n)
				}
				s.stop()
			})
		})
	}
}

// sending is an editor that does something before each send.
type sending struct {
	*editor
	before func()
}

func (p sending) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	p.before()
	return p.editor.Send(ctx, o)
}

// TestAReplyThatIsSentInsteadOfAnEditIsNoEditAfterACrash: the store must not say so any more when the send begins.
func TestAReplyThatIsSentInsteadOfAnEditIsNoEditAfterACrash(t *testing.T) {
	for name, why := range map[string]error{
		"the draft is gone":   fmt.Errorf("%w: it was deleted", channels.ErrGone),
		"the edit is refused": &corebot.Failure{Class: corebot.Permanent, Err: errors.New("refused for good")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &editor{platform: &platform{}, every: time.Second}
				var refused, asked atomic.Bool
				p.fails = func(int) error {
					if refused.Load() {
						return why
					}
					return nil
				}
				var s *streaming
				s = streamBy(t, "", p, sending{p, func() {
					if !refused.Load() {
						return
					}
					asked.Store(true)
					all, err := s.drafts.All(t.Context())
					if err != nil || len(all) > 0 && all[0].Reply != "" {
						t.Errorf("the send begins, and the store has %+v, %v", all, err)
					}
				}})
				s.turn(live.TurnStarted, "")
				s.grow("a", "b", "c")
				refused.Store(true)
				s.turn(live.TurnEnded, "answered")
				s.say(t, corebot.KindReply, "r1", "m1", "abcde")
				pass(time.Minute)
				if s.kept(t, 0); !asked.Load() {
					t.Error("nothing was sent")
				}
				s.stop()
			})
		})
	}
}
