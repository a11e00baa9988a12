package cli

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// taken is a door that takes everything, as new or as known.
type taken struct{ duplicate bool }

func (d taken) Accept(_ context.Context, in channels.Incoming) (channels.Accepted, error) {
	return channels.Accepted{ID: in.ID, Duplicate: d.duplicate}, nil
}

func answerIn(chat, id, inReplyTo string) channels.Outbound {
	return channels.Outbound{
		ID: id, Key: corebot.Key{Agent: "main", Channel: Channel, Chat: chat}, Kind: corebot.KindReply,
		InReplyTo: inReplyTo, Parts: corebot.TextPart(id),
	}
}

func noticeIn(chat, id, inReplyTo string) channels.Outbound {
	m := answerIn(chat, id, inReplyTo)
	m.Kind = corebot.KindNotice
	return m
}

// shotBench is a message that is waited for, and what is known of it.
type shotBench struct {
	*OneShot
	t     *testing.T
	mu    sync.Mutex // over life, which Run reads too
	life  corebot.Life
	shown map[string]ShowAs
	ended chan error
}

func newShotBench(t *testing.T) *shotBench {
	b := &shotBench{t: t, shown: map[string]ShowAs{}, ended: make(chan error, 1)}
	b.OneShot = NewOneShot(channels.Incoming{ID: "question", Chat: "open"}, OneShotOptions{
		Show: func(m channels.Outbound, as ShowAs) error { b.shown[m.ID] = as; return nil },
		Life: func(context.Context) (corebot.Life, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.life, nil
		},
	})
	go func() { b.ended <- b.Run(t.Context(), taken{}) }()
	return b
}

// said notes what was said about the message so far.
func (b *shotBench) said(ids ...string) {
	for _, id := range ids {
		b.life.Replies = append(b.life.Replies, corebot.Life{MessageID: id})
	}
}

func (b *shotBench) send(ms ...channels.Outbound) {
	b.t.Helper()
	for _, m := range ms {
		if _, err := b.Send(b.t.Context(), m); err != nil {
			b.t.Fatalf("%s: %v", m.ID, err)
		}
	}
}

func TestOneMessageEndsWithItsAnswerAndShowsEarlierOnesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShotBench(t)
		b.send(answerIn("open", "old", "before"), answerIn("open", "answer", "question"))
		if err := <-b.ended; err != nil || b.End() != corebot.EndAnswered || !b.Accepted() {
			t.Errorf("it ended with %v, %q", err, b.End())
		}
		for _, m := range []channels.Outbound{
			answerIn("closed", "other", "before"),
			answerIn("open", "late", "later"),
		} {
			var failure *corebot.Failure
			if _, err := b.Send(t.Context(), m); !errors.As(err, &failure) || failure.Class != corebot.Cancelled ||
				failure.RetryAfter <= 0 {
				t.Errorf("%s was not left in the queue: %v", m.ID, err)
			}
		}
		if len(b.shown) != 2 || b.shown["old"] != (ShowAs{}) || b.shown["answer"] != (ShowAs{
			true,
			corebot.EndAnswered,
		}) {
			t.Errorf("shown: %v", b.shown)
		}
	})
}

func TestANoticeIsNoAnswerWhileTheMessageGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShotBench(t)
		b.said("approval")
		b.send(noticeIn("open", "approval", "question"))
		if b.shown["approval"] != (ShowAs{Own: true}) || b.End() != "" {
			t.Errorf("shown %v, ended %q", b.shown, b.End())
		}
		b.said("late notice", "answer")
		b.life.End = corebot.EndAnswered // before its notice was shown
		b.send(noticeIn("open", "late notice", "question"), answerIn("open", "answer", "question"))
		if err := <-b.ended; err != nil || b.shown["late notice"].End != "" || b.End() != corebot.EndAnswered {
			t.Errorf("shown %v, ended %q: %v", b.shown, b.End(), err)
		}
	})
}

func TestTheLastNoticeTellsHowAMessageEnded(t *testing.T) {
	for _, end := range []corebot.End{
		corebot.EndAnswered, corebot.EndApplied, corebot.EndStopped, corebot.EndRefused,
		corebot.EndDead, corebot.EndDropped,
	} {
		t.Run(string(end), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newShotBench(t)
				b.said("approval", "last")
				b.life.End = end
				b.send(noticeIn("open", "approval", "question"), noticeIn("open", "last", "question"))
				if err := <-b.ended; err != nil || b.End() != end {
					t.Errorf("it ended with %q: %v", b.End(), err)
				}
			})
		})
	}
}

func TestAMergedMessageIsAnsweredWithAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShotBench(t)
		b.said("steering")
		b.life.End = corebot.EndMerged
		other := answerIn("open", "answer", "other")
		other.AlsoAnswers = []string{"question"}
		b.send(noticeIn("open", "steering", "question"), other)
		if err := <-b.ended; err != nil || b.End() != corebot.EndAnswered {
			t.Errorf("it ended with %q: %v", b.End(), err)
		}
	})
}

func TestAMessageThatHasEndedWithoutAWordIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShotBench(t)
		b.mu.Lock()
		b.life.End = corebot.EndDropped
		b.mu.Unlock()
		if err := <-b.ended; err == nil || corebot.HintOf(err) == "" || b.End() != "" {
			t.Errorf("it ended with %q: %v", b.End(), err)
		}
	})
}

// TestAReplyOnItsWayIsWaitedFor reads the life as the control socket carries it.
func TestAReplyOnItsWayIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShotBench(t)
		reply := corebot.Life{MessageID: "question/1/1", Direction: corebot.Outbound, Kind: corebot.KindReply}
		raw, err := json.Marshal(corebot.Life{End: corebot.EndAnswered, Replies: []corebot.Life{reply}})
		if err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		err = json.Unmarshal(raw, &b.life)
		b.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		select {
		case err := <-b.ended:
			t.Fatalf("it ended before the reply came: %v", err)
		default:
		}
		b.send(answerIn("open", "question/1/1", "question"))
		if err := <-b.ended; err != nil || b.End() != corebot.EndAnswered {
			t.Errorf("it ended with %q: %v", b.End(), err)
		}
	})
}

func TestAMessageThatWasAcceptedBeforeIsNotWaitedFor(t *testing.T) {
	o := NewOneShot(channels.Incoming{ID: "question", Chat: "open"}, OneShotOptions{})
	var final *channels.Final
	if err := o.Run(t.Context(), taken{duplicate: true}); !errors.As(err, &final) || corebot.HintOf(err) == "" {
		t.Errorf("it ended with %v", err)
	}
}

func TestAnAnswerThatCannotBePrintedIsNotSent(t *testing.T) {
	o := NewOneShot(channels.Incoming{ID: "question", Chat: "open"}, OneShotOptions{
		Show: func(channels.Outbound, ShowAs) error { return errors.New("closed pipe") },
	})
	if _, err := o.Send(t.Context(), answerIn("open", "answer", "question")); err == nil || o.End() != "" {
		t.Errorf("a broken pipe counted as sent: %v", err)
	}
}
