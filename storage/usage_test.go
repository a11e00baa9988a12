package storage

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// openBooks is a database whose model m costs 1.00 for a million tokens of input and 2.00 of output.
func openBooks(t *testing.T, limits corebot.Limits) *DB {
	t.Helper()
	prices, err := corebot.ParsePrices("m=1/2")
	must(t, err)
	db, err := Open(t.Context(), seeded(t), Options{Accounting: corebot.Accounting{Prices: prices}, Limits: limits})
	must(t, err)
	runTest(t, db)
	return db
}

func publishInto(t *testing.T, db *DB, m corebot.Message) {
	t.Helper()
	if _, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{}); err != nil {
		t.Fatal(err)
	}
}

func spentBy(model string, in, out int64) corebot.ModelUsage {
	return corebot.ModelUsage{Model: model, Usage: corebot.Usage{InputTokens: in, OutputTokens: out}}
}

func ended() corebot.Outcome { return corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered} }

// The offline model uses nothing, and so can a provider say that tells no usage. A chat command asks no model.
func TestATurnCountsAlsoIfItsModelUsedNothing(t *testing.T) {
	db := openBooks(t, corebot.Limits{})
	for id, r := range map[string]corebot.Result{
		"offline": {Outcome: ended(), Model: "offline"},
		"told":    {Outcome: ended(), Model: "m", Spent: []corebot.ModelUsage{spentBy("m", 5, 7), spentBy("m", 1, 1)}},
		"command": {Outcome: ended()},
		"failed": {
			Outcome: corebot.Outcome{Verb: corebot.Dead, End: corebot.EndDead, Reason: "permanent"},
			Model:   "offline",
		},
	} {
		publishInto(t, db, testMessage(id, id))
		must(t, NewLedger(db).Commit(t.Context(), take(t, db, corebot.InboundPool), r))
	}
	use, err := NewBooks(db).Use(t.Context(), corebot.UsageFilter{From: "2000-01-01", To: "2999-01-01"})
	if err != nil || use.Turns != 2 || use.InputTokens != 6 {
		t.Errorf("the day has %+v, %v", use, err)
	}
}

func TestALaneHasPlacesForSoManyDeferredMessagesAndOneMoreChangesNothing(t *testing.T) {
	db := openBooks(t, corebot.Limits{LaneDepth: 2})
	l := NewLedger(db)
	deferIt := func(id string) (corebot.Delivery, error) {
		publishInto(t, db, testMessage("a", id))
		d := take(t, db, corebot.InboundPool)
		return d, l.Commit(t.Context(), d, corebot.Result{Outcome: corebot.Outcome{
			Verb: corebot.Defer,
			At:   time.Now().Add(time.Hour), Reason: "chat budget",
		}})
	}
	for _, id := range []string{"1", "2"} {
		_, err := deferIt(id)
		must(t, err)
	}
	d, err := deferIt("3")
	if !errors.Is(err, corebot.ErrLaneFull) {
		t.Fatalf("a third is deferred: %v", err)
	}
	must(t, l.Commit(t.Context(), d, corebot.Result{Outcome: ended()})) // the claim is still held
	if s, err := NewQueue(db).Stats(t.Context()); err != nil || s.Deferred["chat budget"] != 2 {
		t.Errorf("deferred: %+v, %v", s.Deferred, err)
	}
}

func TestWhatIsDeferredCanBeReleasedAndDropped(t *testing.T) {
	db := openBooks(t, corebot.Limits{})
	var lives []int64
	for _, id := range []string{"1", "2"} {
		publishInto(t, db, testMessage("a", id))
		d := take(t, db, corebot.InboundPool)
		lives = append(lives, d.Life)
		must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{
			Verb: corebot.Defer, At: time.Now().Add(time.Hour),
			Reason: "chat budget",
		}))
	}
	deferred := NewDeferred(db)
	if all, _, err := deferred.Page(t.Context(), "", 10); err != nil || len(all) != 2 || all[0].Life != lives[0] ||
		all[0].MessageID != "1" {
		t.Errorf("deferred are %+v: %v", all, err)
	}
	_, behindFirst, err := deferred.Page(t.Context(), "", 1)
	must(t, err)
	if rest, next, err := deferred.Page(t.Context(), behindFirst, 2); err != nil || len(rest) != 1 ||
		rest[0].Life != lives[1] || next != "" {
		t.Errorf("behind the first are %+v, then %q: %v", rest, next, err)
	}
	must(t, deferred.Drop(t.Context(), lives[0]))
	must(t, deferred.Release(t.Context(), lives[1]))
	if d := take(t, db, corebot.InboundPool); d.Life != lives[1] {
		t.Errorf("life %d came back", d.Life)
	}
	life := lifeOf(t, db, lives[0])
	if life.End != corebot.EndDropped || len(life.Replies) != 1 {
		t.Errorf("the dropped one is %+v", life)
	}
	for _, err := range []error{deferred.Release(t.Context(), lives[1]), deferred.Drop(t.Context(), lives[0])} {
		if !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("what is not deferred: %v", err)
		}
	}
	if problems, err := db.Problems(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestAMessageForALaterTimeCanBeReleasedAndDropped(t *testing.T) {
	db := openBooks(t, corebot.Limits{})
	deferred := NewDeferred(db)
	var lives []int64
	for _, id := range []string{"1", "2"} {
		m := testMessage("a", id)
		m.Envelope.DeliverAt = time.Now().Add(time.Hour)
		r, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
		must(t, err)
		lives = append(lives, r[0].Life)
	}
	must(t, deferred.Drop(t.Context(), lives[0]))
	must(t, deferred.Release(t.Context(), lives[1]))
	if d := take(t, db, corebot.InboundPool); d.Life != lives[1] || time.Since(d.PublishedAt) < 0 {
		t.Errorf("it came back as %+v", d)
	}
	told := lifeOf(t, db, lifeOf(t, db, lives[0]).Replies[0].ID)
	if text := told.Message.Text(); !strings.HasPrefix(text, "This message waited for the time of its delivery") {
		t.Errorf("the chat is told %q", text)
	}
	if problems, err := db.Problems(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// A command without a running Corebot must not make deferred messages come back, because nobody checks the budget then.
func TestWhatIsDeferredComesBackWithANewProcessUnlessItIsKept(t *testing.T) {
	dir := seeded(t)
	for i, c := range []struct {
		keep bool
		want int64
	}{{false, 1}, {true, 1}, {false, 0}} {
		db, err := Open(t.Context(), dir, Options{KeepDeferred: c.keep})
		must(t, err)
		stop := runWriter(db)
		if i == 0 {
			publishInto(t, db, testMessage("a", "1"))
			must(t, NewQueue(db).Settle(t.Context(), take(t, db, corebot.InboundPool),
				corebot.Outcome{Verb: corebot.Defer, At: time.Now().Add(time.Hour), Reason: "chat budget"}))
		}
		// in every transaction the writer looks for who is due
		must(t, NewChats(db).Register(t.Context(), testMessage("a", "1").Key, true, ""))
		s, err := NewQueue(db).Stats(t.Context())
		must(t, err)
		if s.Deferred["chat budget"] != c.want {
			t.Errorf("process %d: %d deferred, want %d", i, s.Deferred["chat budget"], c.want)
		}
		stop()
		must(t, db.Close())
	}
}

func TestTheUseOfASessionIsThatOfItsMessagesOnceEach(t *testing.T) {
	db := openBooks(t, corebot.Limits{})
	l := NewLedger(db)
	said := func(id, chat string, begins bool) {
		publishInto(t, db, testMessage(chat, id))
		d := take(t, db, corebot.InboundPool)
		step := corebot.Step{Kind: corebot.StepModel, State: corebot.StepDone, Answer: &corebot.Answer{
			Model: "m", Usage: corebot.Usage{InputTokens: 1_000, OutputTokens: 100},
		}}
		must(t, l.Record(t.Context(), d, step))
		must(t, l.Commit(t.Context(), d, corebot.Result{
			Outcome: ended(), Spent: []corebot.ModelUsage{spentBy("m", 2_000, 200)}, BeginsSession: begins,
			History: []corebot.HistoryEntry{
				{Speaker: corebot.SpeakerUser, MessageID: id, Parts: corebot.TextPart("hello"), At: time.Now()},
				{Speaker: corebot.SpeakerAssistant, MessageID: id, Parts: corebot.TextPart("yes"), At: time.Now()},
			},
		}))
	}
	want := func(messages int64) {
		t.Helper()
		u, err := NewBooks(db).OfSession(t.Context(), testMessage("a", "").Key)
		if err != nil || u.InputTokens != 3_000*messages || u.OutputTokens != 300*messages ||
			u.Cost != corebot.Money(3_600*messages) || u.Turns != messages {
			t.Errorf("the session used %+v, %v; want that of %d messages", u, err, messages)
		}
	}
	want(0)
	said("1", "a", false)
	said("2", "a", false)
	said("1", "b", false) // the same id in another chat
	want(2)
	said("3", "a", true) // with what it used before it began the session
	want(1)
}
