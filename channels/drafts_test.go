package channels_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/storage"
)

// editor is a platform whose messages can be edited. It shows at most most bytes in one.
type editor struct {
	*platform
	on    channels.OnAmbiguous
	most  int
	every time.Duration
	fails func(n int) error // of the nth edit; nil: none does
	takes time.Duration     // of an edit

	broken atomic.Value // what fails of the store of drafts: all or put

	shown  []string // the messages of the chat, in order
	ids    []string
	next   int
	edits  []string // every text that was edited in
	erased int
}

func (p *editor) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	text := o.Text()
	most := p.cut(text)
	o.Parts = corebot.TextPart(text[:most])
	if _, err := p.platform.Send(ctx, o); err != nil {
		return channels.Receipt{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	id := fmt.Sprint("id", p.next)
	p.shown, p.ids = append(p.shown, text[:most]), append(p.ids, id)
	return channels.Receipt{IDs: []string{id}, Reached: most}, nil
}

func (p *editor) cut(text string) int {
	if p.most > 0 {
		return min(len(text), p.most)
	}
	return len(text)
}

func (p *editor) Edit(_ context.Context, id string, o channels.Outbound) (channels.Receipt, error) {
	time.Sleep(p.takes)
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.cut(o.Text())
	p.edits = append(p.edits, o.Text()[:n])
	if p.fails != nil {
		if err := p.fails(len(p.edits)); err != nil {
			return channels.Receipt{}, err
		}
	}
	i := slices.Index(p.ids, id)
	if i < 0 {
		return channels.Receipt{}, fmt.Errorf("%w: there is no %s", channels.ErrGone, id)
	}
	p.shown[i] = o.Text()[:n]
	return channels.Receipt{Reached: n}, nil
}

func (p *editor) Erase(_ context.Context, _ corebot.Key, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.ids, id); i >= 0 {
		p.shown, p.ids = slices.Delete(p.shown, i, i+1), slices.Delete(p.ids, i, i+1)
		p.erased++
	}
	return nil
}

func (p *editor) DraftEvery(corebot.Key) time.Duration { return p.every }

// damaged is a store of drafts that fails in what it is told to.
type damaged struct {
	*storage.Drafts
	broken *atomic.Value
}

func (f *damaged) All(ctx context.Context) ([]corebot.Draft, error) {
	if f.broken.Load() == "all" {
		return nil, errors.New("the page is damaged")
	}
	return f.Drafts.All(ctx)
}

func (f *damaged) Put(ctx context.Context, d corebot.Draft) error {
	if f.broken.Load() == "put" {
		return errors.New("the page is damaged")
	}
	return f.Drafts.Put(ctx, d)
}

// streaming is a Corebot that shows answers while they grow. Its turns are events.
type streaming struct {
	*outbox
	*editor
	hub    *live.Hub
	drafts *storage.Drafts
	runs   func(context.Context) error // the channels, which most tests do without
	stop   func()
}

func stream(t *testing.T, dir string, p *editor) *streaming {
	t.Helper()
	return streamBy(t, dir, p, p)
}

// streamBy is stream by a channel that goes on to the editor.
func streamBy(t *testing.T, dir string, p *editor, by channels.Channel) *streaming {
	t.Helper()
	s := &streaming{outbox: newOutbox(t, dir, p.on), editor: p, hub: new(live.Hub)}
	s.drafts = storage.NewDrafts(s.DB)
	s.Stream(&damaged{s.drafts, &p.broken})
	supervisor, err := channels.NewSupervisor(s.Door, s.Outbox, zerolog.Nop(),
		channels.Entry{Account: channels.Account{Kind: apptest.Channel}, Channel: by})
	if err != nil {
		t.Fatal(err)
	}
	s.runs = supervisor.Receive
	ctx, cancel := context.WithCancel(context.Background())
	s.asked(t, "m1")
	ended := make(chan error, 3)
	go func() { ended <- supervisor.Send(ctx) }()
	go func() { ended <- supervisor.Type(ctx, s.hub) }()
	go func() { ended <- supervisor.Draft(ctx, s.hub) }()
	s.stop = func() {
		cancel()
		if err := errors.Join(<-ended, <-ended, <-ended); err != nil {
			t.Error(err)
		}
	}
	synctest.Wait()
	return s
}

// asked has a message of a person wait, whose turn the events are of.
func (s *streaming) asked(t *testing.T, id string) {
	t.Helper()
	_, err := s.Bus.Publish(t.Context(), corebot.Message{
		ID: id, Direction: corebot.Inbound, Key: apptest.Key("c"), Kind: corebot.KindPrompt,
		Sender: apptest.Person("p"), Parts: corebot.TextPart("a question"),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// over ends the turn of a message, as one that says nothing.
func (s *streaming) over(t *testing.T) {
	t.Helper()
	ended := corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped}
	if err := s.Bus.Settle(t.Context(), s.Claim(), ended); err != nil {
		t.Fatal(err)
	}
}

func (s *streaming) turn(kind live.EventKind, text string) {
	s.hub.Publish(live.Event{Kind: kind, Key: apptest.Key("c"), MessageID: "m1", Text: text})
}

// grow streams a text in pieces, one each second.
func (s *streaming) grow(pieces ...string) {
	for _, p := range pieces {
		s.turn(live.Text, p)
		pass(time.Second)
	}
}

func (s *streaming) say(t *testing.T, kind corebot.Kind, id, answers, text string) {
	t.Helper()
	_, err := s.Bus.Publish(t.Context(), corebot.Message{
		ID: id, Direction: corebot.Outbound, Key: apptest.Key("c"), Kind: kind, Parts: corebot.TextPart(text),
		InReplyTo: answers,
	})
	if err != nil {
		t.Fatal(err)
	}
	pass(100 * time.Millisecond)
}

func (s *streaming) shows(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.shown, want) {
		t.Errorf("the chat shows %q and not %q", s.shown, want)
	}
}

// edited are the texts that were edited in.
func (s *streaming) edited() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.edits)
}

// gone is how many messages were erased.
func (s *streaming) gone() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.erased
}

// kept wants that so many drafts are stored.
func (s *streaming) kept(t *testing.T, n int) {
	t.Helper()
	all, err := s.drafts.All(t.Context())
	if err != nil || len(all) != n {
		t.Errorf("%d drafts are stored, want %d, %v: %+v", len(all), n, err, all)
	}
}

func TestAnAnswerGrowsInOneMessageWhosePlaceItsReplyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stream(t, "", &editor{platform: &platform{}, every: 2 * time.Second, most: 10})
		s.turn(live.TurnStarted, "a question")
		s.grow("one ")
		s.shows(t) // a quick answer has no draft
		s.grow("two ", "six ")
		s.shows(t, "one two ")
		s.kept(t, 1)
		s.grow("ten ", "elf ", "zig ")
		s.shows(t, "one two si")
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "one two six ten elf zig")
		s.shows(t, "one two si", "x ten elf ", "zig")
		s.kept(t, 0)
		if got := s.receipts(t, "r1"); len(got) != 3 || got[0].IDs[0] != "id1" || got[0].To != 10 {
			t.Errorf("the receipts are %+v", got)
		}
		pass(time.Hour)
		s.shows(t, "one two si", "x ten elf ", "zig")
		if n := len(s.edited()); n > 4 {
			t.Errorf("there were %d edits: %q", n, s.edited())
		}
		s.stop()
	})
}

func TestWhatIsNotTheAnswerAfterAllIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stream(t, "", &editor{platform: &platform{}, every: time.Second})
		s.turn(live.TurnStarted, "")
		s.grow("I look into", " the file", ".")
		s.turn(live.TextReset, "")
		s.turn(live.ToolStarted, "")
		pass(time.Minute)
		s.grow("It is", " empty", ".", "")
		s.shows(t, "It is empty.")
		s.say(t, corebot.KindReply, "r1", "m1", "It is empty.")
		s.turn(live.TurnEnded, "answered")
		s.shows(t, "It is empty.")
		s.stop()
	})
}

// The reply can be sent before the draft hears that the turn has ended.
func TestNothingIsEditedBehindTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, takes := range []time.Duration{0, 3 * time.Second} { // an edit is under way
			s := stream(t, "", &editor{platform: &platform{}, every: time.Second, takes: takes})
			s.turn(live.TurnStarted, "")
			s.grow("a", "b", "c")
			s.say(t, corebot.KindReply, "r1", "m1", "abc, whole")
			s.grow("d") // which is of the same answer, and late
			pass(time.Minute)
			s.turn(live.TurnEnded, "answered")
			s.shows(t, "abc, whole")
			s.kept(t, 0)
			s.stop()
		}
	})
}

func TestANoticeInBetweenStandsBelowWhatCameBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stream(t, "", &editor{platform: &platform{}, every: time.Second})
		s.turn(live.TurnStarted, "")
		s.grow("I ask", " you", ".")
		s.turn(live.TextReset, "")
		s.say(t, corebot.KindNotice, "n1", "m1", "May it?")
		s.shows(t, "May it?")
		pass(time.Minute)
		s.grow("It ", "may", ".", "")
		s.shows(t, "May it?", "It may.")
		s.say(t, corebot.KindReply, "r1", "m1", "It may.")
		s.turn(live.TurnEnded, "answered")
		s.shows(t, "May it?", "It may.")
		s.stop()
	})
}

func TestADraftWhoseTurnFailsIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stream(t, "", &editor{platform: &platform{}, every: time.Second})
		s.turn(live.TurnStarted, "")
		s.grow("half of", " it", "")
		s.turn(live.TurnEnded, "failed")
		s.say(t, corebot.KindNotice, "n1", "m1", "It failed.")
		s.shows(t, "It failed.")
		s.kept(t, 0)
		s.turn(live.TurnStarted, "") // of which nobody says that it ended
		s.grow("half of", " it", "")
		s.turn(live.TurnEnded, "")
		s.hub.Publish(live.Event{Kind: live.TurnStarted, Key: apptest.Key("c"), MessageID: "m2"})
		s.grow("another", " one", "")
		s.shows(t, "It failed.", "another one")
		if all, err := s.drafts.All(t.Context()); err != nil || len(all) != 1 || all[0].Answers != "m2" {
			t.Errorf("the draft is %+v, %v", all, err)
		}
		s.stop()
	})
}

func TestThePlatformIsLeftAloneAfterARefusalAndTheReplyComesInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rest = 20 * time.Second
		p := &editor{platform: &platform{}, every: time.Second}
		p.fails = func(n int) error {
			if n == 2 {
				return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: rest, Err: errors.New("429")}
			}
			return nil
		}
		s := stream(t, "", p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c", "d", "e", "f", "g", "h")
		began, n := time.Now(), len(s.edited())
		if n != 2 {
			t.Errorf("there were %d edits", n)
		}
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abcdefgh")
		if len(s.edited()) != n {
			t.Error("the reply did not wait as long as the platform has asked to")
		}
		pass(30 * time.Second)
		s.shows(t, "abcdefgh")
		s.hub.Publish(live.Event{Kind: live.TurnStarted, Key: apptest.Key("c"), MessageID: "m2"})
		s.grow("next", " one", " too")
		if s.shows(t, "abcdefgh"); time.Since(began) > 5*time.Minute {
			t.Fatal("the test took too long to say anything")
		}
		s.stop()
	})
}

// An edit of which nobody knows whether it comes later could replace the reply.
func TestADraftWithAnEditOfUnknownEndIsErasedBeforeTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		p.fails = func(n int) error {
			if n == 1 {
				return fmt.Errorf("%w: no answer", channels.ErrMayBeShown)
			}
			return nil
		}
		s := stream(t, "", p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.turn(live.TurnEnded, "retrying")
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.turn(live.TurnEnded, "answered")
		s.say(t, corebot.KindReply, "r1", "m1", "abc")
		if s.shows(t, "abc"); s.gone() != 1 || len(s.edited()) != 1 {
			t.Errorf("%d messages were erased, and the edits are %q", s.gone(), s.edited())
		}
		s.stop()
	})
}

func TestAReplyWhoseDraftIsGoneIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stream(t, "", &editor{platform: &platform{}, every: time.Second})
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.turn(live.TurnEnded, "answered")
		_ = s.Erase(t.Context(), apptest.Key("c"), "id1") // a person has deleted it
		s.say(t, corebot.KindReply, "r1", "m1", "abc")
		s.shows(t, "abc")
		s.kept(t, 0)
		s.stop()
	})
}

// A lost answer to the last edit is no send of unknown end.
func TestALastEditWithoutAnAnswerIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		s := stream(t, "", p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.turn(live.TurnEnded, "answered")
		left := 3
		p.fails = func(int) error {
			if left--; left >= 0 {
				return fmt.Errorf("%w: no answer", channels.ErrMayBeShown)
			}
			return nil
		}
		s.say(t, corebot.KindReply, "r1", "m1", "abc, whole")
		if all, err := s.drafts.All(t.Context()); err != nil || len(all) != 1 || all[0].Reply != "r1" {
			t.Errorf("the draft is %+v, %v", all, err)
		}
		pass(time.Hour)
		s.shows(t, "abc, whole")
		if n := s.counted(t, "corebot_outbox_ambiguous_total"); n != 0 || s.life(t, "r1").Attempts != 1 {
			t.Errorf("%v sends are ambiguous after %d attempts", n, s.life(t, "r1").Attempts)
		}
		s.stop()
	})
}

func TestADraftOfAnEarlierProcessGoesOnAndIsShownOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, p := t.TempDir(), &editor{platform: &platform{}, every: time.Second}
		first := stream(t, dir, p)
		first.turn(live.TurnStarted, "")
		first.grow("half ", "of ", "it ")
		first.stop()
		first.Crash()
		second := stream(t, dir, p)
		second.turn(live.TurnStarted, "")
		second.grow("all ", "of ", "it ")
		second.shows(t, "all of it ")
		second.turn(live.TurnEnded, "answered")
		second.say(t, corebot.KindReply, "r1", "m1", "all of it")
		second.shows(t, "all of it")
		second.kept(t, 0)
		second.stop()
	})
}

// A crash can come between the end of a reply and that of its draft.
func TestAReplyThatHasTakenTheDraftStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second, shown: []string{"it"}, ids: []string{"id0"}}
		s := streamAfter(t, p, corebot.Draft{Key: apptest.Key("c"), Answers: "m0", Shown: "id0", Reply: "r0"})
		s.say(t, corebot.KindReply, "r1", "m1", "another")
		s.shows(t, "it", "another")
		s.kept(t, 0)
		s.stop()
	})
}

func TestTheNextAnswerHasNoDraftWhileAReplyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		s := stream(t, "", p)
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.turn(live.TurnEnded, "answered")
		left := 1
		p.fails = func(int) error {
			if left--; left >= 0 {
				return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: time.Minute, Err: errors.New("away")}
			}
			return nil
		}
		s.say(t, corebot.KindReply, "r1", "m1", "abc, whole")
		s.hub.Publish(live.Event{Kind: live.TurnStarted, Key: apptest.Key("c"), MessageID: "m2"})
		s.grow("d", "e", "f")
		pass(2 * time.Minute)
		if s.shows(t, "abc, whole"); s.gone() != 0 {
			t.Error("a message was erased whose place a reply has taken")
		}
		s.stop()
	})
}

func TestADraftGivesWayToTheReplyOfAnotherMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stream(t, "", &editor{platform: &platform{}, every: time.Second})
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c")
		s.say(t, corebot.KindReply, "r0", "m0", "of an earlier one")
		s.shows(t, "of an earlier one")
		s.grow("d", "e", "f")
		if s.shows(t, "of an earlier one", "abcdef"); s.gone() != 1 {
			t.Errorf("%d messages were erased", s.gone())
		}
		s.stop()
	})
}

func TestNoDraftOvertakesAMessageThatIsBeingSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		p.send = func(_ context.Context, o channels.Outbound) error {
			if o.ID == "r0" {
				time.Sleep(3 * time.Second)
			}
			return nil
		}
		s := stream(t, "", p)
		s.say(t, corebot.KindReply, "r0", "m0", "of an earlier one")
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c", "d", "e", "f")
		s.shows(t, "of an earlier one", "abcdef")
		s.stop()
	})
}

func TestAChatThatThePlatformHasClosedSeesNoDraft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &editor{platform: &platform{}, every: time.Second}
		tries := 0
		p.send = func(context.Context, channels.Outbound) error {
			if tries++; tries == 1 {
				return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: time.Minute, Err: errors.New("429")}
			}
			return nil
		}
		s := stream(t, "", p)
		s.say(t, corebot.KindNotice, "n1", "", "hello")
		s.turn(live.TurnStarted, "")
		s.grow("a", "b", "c", "d", "e")
		s.shows(t)
		pass(time.Hour)
		s.shows(t, "hello")
		s.stop()
	})
}

func TestADamagedTableOfDraftsHoldsUpNoReply(t *testing.T) {
	for _, what := range []string{"all", "put"} {
		synctest.Test(t, func(t *testing.T) {
			p := &editor{platform: &platform{}, every: time.Second}
			if what == "all" {
				p.broken.Store(what)
			}
			s := stream(t, "", p)
			s.turn(live.TurnStarted, "")
			s.grow("a", "b", "c")
			p.broken.Store(what)
			s.turn(live.TurnEnded, "answered")
			s.say(t, corebot.KindReply, "r1", "m1", "abc")
			s.shows(t, "abc")
			if n := s.life(t, "r1").Attempts; n != 1 {
				t.Errorf("%s: there were %d attempts", what, n)
			}
			s.stop()
		})
	}
}

func TestTasksAndChatsWithoutDraftsSeeOnlyTheirReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for every, id := range map[time.Duration]string{time.Second: corebot.OwnID("task", 1), 0: "m1"} {
			s := stream(t, "", &editor{platform: &platform{}, every: every})
			k := apptest.Key("c")
			s.hub.Publish(live.Event{Kind: live.TurnStarted, Key: k, MessageID: id})
			for range 5 {
				s.hub.Publish(live.Event{Kind: live.Text, Key: k, MessageID: id, Text: "text"})
				pass(time.Second)
			}
			s.shows(t)
			s.stop()
		}
	})
}

func TestALongAnswerIsEditedMoreAndMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stream(t, "", &editor{platform: &platform{}, every: 2 * time.Second})
		s.turn(live.TurnStarted, "")
		for range 600 {
			s.grow(strings.Repeat("x", 100))
		}
		if n := len(s.edited()); n < 20 || n > 45 {
			t.Errorf("ten minutes of an answer made %d edits", n)
		}
		s.stop()
	})
}
