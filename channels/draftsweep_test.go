package channels_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/storage"
)

// streamAfter is stream after a process that has left a draft.
func streamAfter(t *testing.T, p *editor, left corebot.Draft) *streaming {
	t.Helper()
	dir := t.TempDir()
	before := newOutbox(t, dir, "")
	if err := storage.NewDrafts(before.DB).Put(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	before.Crash()
	return stream(t, dir, p)
}

// Nobody writes into the chat any more, so no next message looks.
func TestADraftThatNobodyWorksOnIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		answers, reply string
		busy           bool // the message with the id m1 waits
		shows          []string
		kept           int
	}{
		"its reply is a dead letter":         {"", "", false, nil, 0},
		"so it is while the next turn runs":  {"", "", true, nil, 0},
		"its turn ended without a reply":     {"m1", "", false, nil, 0},
		"its turn goes on":                   {"m1", "", true, []string{"half"}, 1},
		"a reply has taken its place":        {"m1", "r1", false, []string{"half"}, 0},
		"a reply that waits takes its place": {"m1", "r1", true, []string{"half"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &editor{platform: &platform{}, every: time.Second, shown: []string{"half"}, ids: []string{"id0"}}
				s := streamAfter(t, p, corebot.Draft{
					Key: apptest.Key("c"), Answers: c.answers, Shown: "id0", Reply: c.reply,
					Began: time.UnixMilli(time.Now().UnixMilli()),
				})
				if !c.busy {
					s.over(t)
				}
				pass(3 * time.Minute)
				s.shows(t, c.shows...)
				s.kept(t, c.kept)
				s.stop()
			})
		})
	}
}

func TestADraftWhoseTurnEndsWithoutAWordIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		p := &editor{platform: &platform{}, every: time.Second}
		s := streamBy(t, "", p, out{p, &away})
		s.turn(live.TurnStarted, "")
		s.grow("half ", "of ", "it ")
		s.turn(live.TurnEnded, "")
		s.over(t)
		away.Store(true)
		pass(time.Hour)
		s.shows(t, "half of it ")
		away.Store(false)
		pass(2 * time.Minute)
		s.shows(t)
		s.kept(t, 0)
		s.stop()
	})
}

func TestTheDraftOfAnAccountThatHasLeftIsForgottenAfterAWeek(t *testing.T) {
	for after, want := range map[time.Duration]int{24 * time.Hour: 1, 7 * 24 * time.Hour: 0} {
		synctest.Test(t, func(t *testing.T) {
			k := apptest.Key("c")
			k.Account = "gone"
			began := time.UnixMilli(time.Now().UnixMilli()).Add(-after)
			p := &editor{platform: &platform{}, every: time.Second}
			s := streamAfter(t, p, corebot.Draft{Key: k, Answers: "m0", Shown: "id0", Began: began})
			pass(time.Minute)
			s.kept(t, want)
			s.stop()
		})
	}
}

// A draft from before a long outage can be deleted, or too old to be edited, and the platform need not say so.
func TestNoReplyTakesThePlaceOfAnOldDraft(t *testing.T) {
	for age, want := range map[time.Duration][]string{
		draftIsYoung: {"answer"}, draftIsYoung + 2*time.Hour: {"another", "answer"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &editor{platform: &platform{}, every: time.Second}
			p.shown, p.ids = []string{"half", "another"}, []string{"id0", "id1"}
			if len(want) == 1 {
				p.shown, p.ids = p.shown[:1], p.ids[:1]
			}
			began := time.UnixMilli(time.Now().UnixMilli()).Add(-age)
			s := streamAfter(t, p, corebot.Draft{Key: apptest.Key("c"), Answers: "m1", Shown: "id0", Began: began})
			s.say(t, corebot.KindReply, "r1", "m1", "answer")
			s.shows(t, want...)
			s.kept(t, 0)
			s.stop()
		})
	}
}

const draftIsYoung = 11 * time.Hour

// The rest of an answer can be refused. Its beginning stands in the place of the draft then, and its receipt is stored.
// A replay goes on behind it.
func TestTheBeginningOfAnAnswerStaysWhoseRestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &censor{editor: &editor{platform: &platform{}, every: time.Second, most: 4}}
		s := streamBy(t, "", p.editor, p)
		s.turn(live.TurnStarted, "")
		s.grow("a ", "b ", "c ", "d ")
		s.turn(live.TurnEnded, "answered")
		p.on = true // messages are refused, and edits are not
		s.over(t)
		s.say(t, corebot.KindReply, "r1", "m1", "abcdefgh")
		pass(time.Hour)
		if life := s.life(t, "r1"); life.End != corebot.EndDead {
			t.Fatalf("it ended %q", life.End)
		}
		s.shows(t, "abcd")
		s.kept(t, 0)
		p.on = false
		if err := s.DeadLetters.Replay(t.Context(), s.life(t, "r1").ID, false); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		s.shows(t, "abcd", "efgh")
		s.stop()
	})
}
