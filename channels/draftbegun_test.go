package channels_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/live"
)

// teller is an editor whose platform can tell what it shows.
type teller struct {
	*editor
	lose   func(o channels.Outbound) bool // the answer to a send
	answer error                          // in its place; nil: there is none
	mute   bool                           // it answers no question
	cannot bool                           // it cannot tell what it shows after all
	alike  bool                           // it knows messages by their texts only
	late   int                            // how often it says that it does not show what it shows
	asked  int

	locked sync.Mutex
	by     map[string]string // the platform's ids, by the key of the send
}

func (p *teller) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	r, err := p.editor.Send(ctx, o)
	if err != nil {
		return r, err
	}
	p.locked.Lock()
	defer p.locked.Unlock()
	if p.by == nil {
		p.by = map[string]string{}
	}
	p.by[o.IdempotencyKey] = r.IDs[0]
	if p.lose != nil && p.lose(o) && p.answer != nil {
		return channels.Receipt{}, p.answer
	}
	if p.lose != nil && p.lose(o) {
		return channels.Receipt{}, fmt.Errorf("%w: no answer", channels.ErrMayBeShown)
	}
	return r, nil
}

func (p *teller) Delivered(_ context.Context, o channels.Outbound) (channels.Receipt, bool, error) {
	p.locked.Lock()
	defer p.locked.Unlock()
	if p.asked++; p.mute {
		return channels.Receipt{}, false, &corebot.Failure{Err: fmt.Errorf("%w: EOF", channels.ErrMayBeShown)}
	}
	if p.cannot {
		return channels.Receipt{}, false, fmt.Errorf("%w: it lacks a scope", channels.ErrCannotTell)
	}
	id := p.by[o.IdempotencyKey]
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.ids, id)
	if p.alike {
		i = slices.Index(p.shown, o.Text())
	}
	if i < 0 || slices.Contains(o.Shown, p.ids[i]) || p.asked <= p.late {
		return channels.Receipt{}, false, nil
	}
	id = p.ids[i]
	return channels.Receipt{IDs: []string{id}, Reached: len(o.Text())}, true, nil
}

func lostEllipsis(o channels.Outbound) bool { return o.Text() == "…" }

func TestAnEllipsisWhoseAnswerWasLostIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &teller{editor: &editor{platform: &platform{}, every: time.Second}, lose: lostEllipsis}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.shows(t, "…")
		s.kept(t, 1)
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abc")
		s.shows(t, "abc")
		s.kept(t, 0)
		s.hub.Publish(live.Event{Kind: live.TurnStarted, Key: apptest.Key("c"), MessageID: "m2"})
		s.grow("d", "e", "f")
		s.hub.Publish(live.Event{Kind: live.TurnEnded, Key: apptest.Key("c"), MessageID: "m2"})
		s.say(t, corebot.KindNotice, "n1", "m2", "stopped")
		s.shows(t, "abc", "stopped")
		s.kept(t, 0)
		s.stop()
	})
}

// A server before the platform gives up sooner than the platform.
func TestAnEllipsisThatIsAnsweredByAnErrorOfThePlatformGrowsAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &teller{editor: &editor{platform: &platform{}, every: time.Second}, lose: lostEllipsis}
		p.answer = channels.Unsure(channels.OutOfOrder(errors.New("504")))
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		for range 30 {
			s.grow("x")
		}
		if len(s.edited()) == 0 || p.asked == 0 {
			t.Errorf("%d edits, and the platform was asked %d times", len(s.edited()), p.asked)
		}
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "xx")
		s.shows(t, "xx")
		s.kept(t, 0)
		s.stop()
	})
}

// mumbler is an editor whose platform cannot tell what it shows, and answers an ellipsis that it shows with an error.
type mumbler struct{ *editor }

func (p *mumbler) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	r, err := p.editor.Send(ctx, o)
	if err == nil && lostEllipsis(o) {
		return channels.Receipt{}, channels.Unsure(channels.OutOfOrder(errors.New("504")))
	}
	return r, err
}

func TestAnEllipsisThatNobodyCanAskForIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &mumbler{&editor{platform: &platform{}, every: time.Second}}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		for range 60 {
			s.grow("x")
		}
		s.shows(t, "…")
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "xx")
		s.shows(t, "…", "xx")
		s.stop()
	})
}

// Such as Slack without the scope for the history. The next answer has a draft again.
func TestAnEllipsisOfWhichThePlatformCannotTellHasNoSecondBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &teller{editor: &editor{platform: &platform{}, every: time.Second}, lose: lostEllipsis, cannot: true}
		p.answer = channels.Unsure(channels.OutOfOrder(errors.New("504")))
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		for range 60 {
			s.grow("x")
		}
		s.shows(t, "…")
		s.kept(t, 0)
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "xx")
		s.shows(t, "…", "xx")
		p.locked.Lock()
		p.lose = nil
		p.locked.Unlock()
		s.hub.Publish(live.Event{Kind: live.TurnStarted, Key: apptest.Key("c"), MessageID: "m2"})
		s.grow("d", "e", "f")
		s.shows(t, "…", "xx", "def")
		s.stop()
	})
}

// Nobody writes into the chat any more, so no next message looks.
func TestAnEllipsisThatThePlatformKnowsLateIsTakenBackWithoutANextMessage(t *testing.T) {
	for name, replied := range map[string]bool{"a reply was sent": true, "the turn was stopped": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &teller{editor: &editor{platform: &platform{}, every: time.Second}, lose: lostEllipsis, mute: true}
				s := streamBy(t, "", p.editor, p)
				pass(time.Minute)
				s.turn(live.TurnStarted, "")
				s.grow("a", "b")
				s.turn(live.TurnEnded, "answered")
				s.over(t)
				want := []string(nil)
				if replied {
					s.say(t, corebot.KindReply, "r1", "m1", "ab")
					want = []string{"ab"}
				}
				s.shows(t, append([]string{"…"}, want...)...)
				p.locked.Lock()
				p.mute = false
				p.locked.Unlock()
				pass(3 * time.Minute)
				s.shows(t, want...)
				s.kept(t, 0)
				s.stop()
			})
		})
	}
}

// A kill can come between the answer of the platform and the commit that has the id.
func TestAnEllipsisOfAKilledProcessIsFoundAgain(t *testing.T) {
	for what, shown := range map[string][]string{"it is shown": {"…"}, "it was never sent": nil} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, p := t.TempDir(), &teller{editor: &editor{platform: &platform{}, every: time.Second}}
				first := streamBy(t, dir, p.editor, p)
				d := corebot.Draft{Key: apptest.Key("c"), Answers: "m1", Began: time.UnixMilli(time.Now().UnixMilli())}
				if err := first.drafts.Put(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				first.stop()
				first.Crash()
				if p.shown = shown; shown != nil {
					key := fmt.Sprintf("draft/m1/%d", d.Began.UnixMilli())
					p.ids, p.by = []string{"id0"}, map[string]string{key: "id0"}
				}
				second := streamBy(t, dir, p.editor, p)
				pass(time.Minute)
				second.say(t, corebot.KindReply, "r1", "m1", "the answer")
				second.shows(t, "the answer")
				if shown == nil { // the platform may still show it
					second.kept(t, 1)
					second.over(t)
					pass(3 * time.Minute)
				}
				second.kept(t, 0)
				if p.asked == 0 {
					t.Error("the platform was not asked")
				}
				second.stop()
			})
		})
	}
}

func TestAPlatformThatDoesNotSayWhetherADraftBeganHoldsUpNoReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &teller{editor: &editor{platform: &platform{}, every: time.Second}, lose: lostEllipsis, mute: true}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abc")
		s.shows(t, "…", "abc")
		p.locked.Lock()
		p.mute = false
		p.locked.Unlock()
		s.say(t, corebot.KindReply, "r2", "m2", "next")
		s.shows(t, "abc", "next")
		s.kept(t, 0)
		s.stop()
	})
}

// In an outage nobody tells of the ellipsis, so the reply is sent beside it, and nobody tells of the reply. Then the
// platform shows both.
func TestAReplyThatWasSentBesideItsDraftIsNotShownInItToo(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				p := &teller{editor: &editor{platform: &platform{}, every: time.Second}, mute: true}
				p.lose = func(channels.Outbound) bool { return true }
				s := streamBy(t, dir, p.editor, p)
				s.turn(live.TurnStarted, "")
				s.grow("a", "b", "c")
				s.turn(live.TurnEnded, "answered")
				s.say(t, corebot.KindReply, "r1", "m1", "abc")
				pass(10 * time.Minute)
				s.shows(t, "…", "abc")
				if killed {
					s.stop()
					s.Crash()
					s = streamBy(t, dir, p.editor, p)
				}
				p.locked.Lock()
				p.mute, p.lose = false, nil
				p.locked.Unlock()
				pass(time.Minute)
				s.shows(t, "abc")
				s.kept(t, 0)
				s.stop()
			})
		})
	}
}

// The draft is erased behind the answer that is sent in its place. An answer that is found in the draft would be lost.
func TestADraftThatLooksLikeItsAnswerIsNotTakenForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &teller{editor: &editor{platform: &platform{}, every: time.Second}, alike: true}
		var tries atomic.Int64
		p.fails = func(int) error {
			switch tries.Load() {
			case 0:
				return nil
			case 1:
				tries.Add(1)
				return limited(time.Second)
			}
			return &corebot.Failure{Class: corebot.Permanent, Err: errors.New("it was edited too often")}
		}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		pass(time.Minute)
		s.shows(t, "abc")
		tries.Store(1)
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abc")
		pass(time.Minute)
		s.shows(t, "abc")
		s.kept(t, 0)
		s.stop()
	})
}

// A server that was started anew can know its newest messages only after a while.
func TestAnEllipsisThatThePlatformKnowsLateIsTakenBackBehindTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &teller{editor: &editor{platform: &platform{}, every: time.Second}, lose: lostEllipsis, late: 1}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b")
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "ab")
		s.shows(t, "ab")
		s.kept(t, 0)
		s.stop()
	})
}

// stubborn fails to take messages back so often.
type stubborn struct {
	*editor
	fails int
}

func (p *stubborn) Erase(ctx context.Context, k corebot.Key, id string) error {
	if p.fails--; p.fails >= 0 {
		return fmt.Errorf("%w: no answer", channels.ErrMayBeShown)
	}
	return p.editor.Erase(ctx, k, id)
}

// The next message can be far: half an answer would stand above the whole one until then.
func TestADraftThatCannotBeTakenBackIsTakenBackBehindTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &stubborn{&editor{platform: &platform{}, every: time.Second}, 1}
		p.editor.fails = func(n int) error {
			if n == 2 {
				return fmt.Errorf("%w: no answer", channels.ErrMayBeShown)
			}
			return nil
		}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abc")
		s.shows(t, "abc")
		s.kept(t, 0)
		s.stop()
	})
}

// Nobody knows whether a platform that gave no answer has taken a message back. An edit of such a message may be seen
// by nobody.
func TestADraftThatMayBeTakenBackIsNoPlaceForAReplyAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, p := t.TempDir(), &stubborn{&editor{platform: &platform{}, every: time.Second}, 2}
		p.editor.fails = func(n int) error {
			if n == 2 {
				return fmt.Errorf("%w: no answer", channels.ErrMayBeShown)
			}
			return nil
		}
		first := streamBy(t, dir, p.editor, p)
		first.turn(live.TurnStarted, "")
		first.grow("a", "b", "c")
		first.say(t, corebot.KindNotice, "n1", "m1", "a notice")
		first.kept(t, 1)
		first.stop()
		first.Crash()
		second := streamBy(t, dir, p.editor, p)
		second.say(t, corebot.KindReply, "r1", "m1", "abc")
		second.shows(t, "a notice", "abc")
		second.kept(t, 0)
		second.stop()
	})
}

// limited is the refusal of an edit for its rate.
func limited(wait time.Duration) error {
	return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: wait, Err: errors.New("429")}
}

func TestARefusedEditMakesTheNextOnesRarerAndASecondEndsThem(t *testing.T) {
	for _, refused := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			p := &editor{platform: &platform{}, every: time.Second}
			var at []time.Time
			p.fails = func(n int) error {
				if at = append(at, time.Now()); n >= 2 && n < 2+refused {
					return limited(3 * time.Second)
				}
				return nil
			}
			s := stream(t, "", p)
			s.turn(live.TurnStarted, "")
			text := ""
			for range 20 {
				s.grow("x")
				text += "x"
			}
			edits := s.edited()
			if len(edits) < 3 || at[2].Sub(at[1]) < 3*time.Second ||
				refused == 1 && (len(edits) < 5 || at[3].Sub(at[2]) < 5*time.Second/2) ||
				refused == 2 && len(edits) != 3 {
				t.Errorf("after %d refusals there were %d edits: %v", refused, len(edits), at)
			}
			s.turn(live.TurnEnded, "answered")
			s.say(t, corebot.KindReply, "r1", "m1", text)
			s.shows(t, text)
			s.kept(t, 0)
			if life := s.life(t, "r1"); life.Attempts != 1 || life.End != corebot.EndSent {
				t.Errorf("the reply ended %q after %d attempts", life.End, life.Attempts)
			}
			before := len(s.edited())
			s.hub.Publish(live.Event{Kind: live.TurnStarted, Key: apptest.Key("c"), MessageID: "m2"})
			s.grow("a", "b", "c", "d")
			if n := len(s.edited()) - before; (n > 0) != (refused == 1) {
				t.Errorf("after %d refusals the next answer had %d edits", refused, n)
			}
			s.stop()
		})
	}
}

// together counts the edits of all its chats together.
type together struct {
	*editor
	apart time.Duration
}

func (p together) EditsApart() time.Duration { return p.apart }

func TestDraftsOfAnAccountShareItsEdits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		var at []time.Time
		p.fails = func(int) error {
			at = append(at, time.Now())
			return nil
		}
		s := streamBy(t, "", p, together{p, 2 * time.Second})
		for i := range 5 {
			s.hub.Publish(live.Event{Kind: live.TurnStarted, Key: apptest.Key(fmt.Sprint("c", i)), MessageID: "m1"})
		}
		for range 30 {
			for i := range 5 {
				s.hub.Publish(live.Event{Kind: live.Text, Key: apptest.Key(fmt.Sprint("c", i)), Text: "x"})
			}
			pass(time.Second)
		}
		if len(at) < 10 || len(at) > 16 {
			t.Errorf("there were %d edits in 30 s", len(at))
		}
		for i := range at[1:] {
			if apart := at[i+1].Sub(at[i]); apart < 2*time.Second {
				t.Errorf("two edits are %v apart", apart)
			}
		}
		s.stop()
	})
}
