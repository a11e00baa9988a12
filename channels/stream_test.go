package channels_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
)

// typingEditor is an editor whose platform shows typing.
type typingEditor struct {
	*editor
	at []time.Duration // when it was told to, since the begin

	began time.Time
}

func (p *typingEditor) Typing(context.Context, corebot.Key) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, time.Since(p.began))
	return 4 * time.Second, nil
}

// typed is how often typing was shown between two times.
func (p *typingEditor) typed(from, to time.Duration) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.at {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

func TestAnAnswerThatGrowsShowsNoTypingAndOneThatStandsStillDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &typingEditor{editor: &editor{platform: &platform{}, every: time.Second}, began: time.Now()}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		pass(10 * time.Second)
		for range 60 {
			s.grow("x")
		}
		pass(2 * time.Minute) // a tool works
		s.say(t, corebot.KindNotice, "n1", "m1", "May it?")
		pass(20 * time.Second)
		s.turn(live.TurnEnded, "")
		pass(time.Minute)
		const second = time.Second
		if p.typed(0, 10*second) < 2 || p.typed(15*second, 90*second) != 0 || p.typed(105*second, 190*second) < 5 ||
			p.typed(190*second, 210*second) < 3 || p.typed(215*second, time.Hour) != 0 {
			t.Errorf("typing was shown after %v", p.at)
		}
		s.stop()
	})
}

// The draft is gone behind a notice, so nothing else says that Corebot is at work.
func TestTypingIsShownAgainSoonBehindANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &typingEditor{editor: &editor{platform: &platform{}, every: time.Second}, began: time.Now()}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		for range 10 {
			s.grow("x")
		}
		s.say(t, corebot.KindNotice, "n1", "m1", "May it?")
		said := time.Since(p.began)
		pass(10 * time.Second)
		if n := p.typed(said, said+8*time.Second); n == 0 {
			t.Errorf("typing was shown after %v, and the notice came after %v", p.at, said)
		}
		s.stop()
	})
}

// An edit that was under way stands above the notice when it ends.
func TestAnEditThatANoticeOvertakesKeepsNoTypingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &typingEditor{
			editor: &editor{platform: &platform{}, every: time.Second, takes: 8 * time.Second}, began: time.Now(),
		}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		for range 5 {
			s.grow("x")
		}
		s.say(t, corebot.KindNotice, "n1", "m1", "May it?")
		pass(15 * time.Second)
		s.shows(t, "May it?")
		if p.typed(10*time.Second, 20*time.Second) == 0 {
			t.Errorf("typing was shown after %v", p.at)
		}
		s.stop()
	})
}

func TestEditsThatWouldUseUpTheLimitsOfAPlatformAreRefused(t *testing.T) {
	const least, api = 2 * time.Second, "https://api.example.org/v1"
	for every, refused := range map[time.Duration]bool{
		0: false, time.Millisecond: true, least - 1: true, least: false, time.Minute: false,
	} {
		err := channels.CheckStream(every, least, api)
		if (err != nil) != refused || refused && !strings.Contains(corebot.HintOf(err), "2s or more") {
			t.Errorf("%v: %v, %s", every, err, corebot.HintOf(err))
		}
	}
	if err := channels.CheckStream(time.Millisecond, least, "http://127.0.0.1:8081"); err != nil {
		t.Errorf("a server of this machine: %v", err)
	}
}
