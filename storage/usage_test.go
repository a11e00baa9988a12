package storage

import (
	"errors"
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

func spentBy(model string, in, out int64) corebot.Spent {
	return corebot.Spent{Model: model, Usage: corebot.Usage{InputTokens: in, OutputTokens: out}}
}

func modelStep(position int, s corebot.Spent) corebot.Step {
	return corebot.Step{Position: position, Kind: corebot.StepModel, State: corebot.StepDone, Answer: &corebot.Answer{Model: s.Model, Usage: s.Usage}}
}

// useOf is what was used today, by whom the filter means.
func useOf(t *testing.T, db *DB, f corebot.UseFilter) corebot.Use {
	t.Helper()
	f.From = db.accounting.Day(time.Now())
	f.To = f.From
	u, err := NewBooks(db).Use(t.Context(), f)
	must(t, err)
	return u
}

func ended() corebot.Outcome { return corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered} }

func TestEachCallIsBookedOnceHoweverOftenItsTurnIsTried(t *testing.T) {
	db := openBooks(t, corebot.Limits{})
	l := NewLedger(db)
	publishInto(t, db, testMessage("a", "1"))
	d := take(t, db, corebot.InboundPool)
	for range 2 { // a step may be recorded again
		must(t, l.Record(t.Context(), d, modelStep(0, spentBy("m", 100, 10))))
	}
	failed := corebot.Result{Outcome: corebot.Outcome{Verb: corebot.RetryAt, At: time.Now()}, Spent: []corebot.Spent{spentBy("m", 1, 0)}}
	must(t, l.Commit(t.Context(), d, failed))
	d = take(t, db, corebot.InboundPool)
	if len(d.Journal) != 1 {
		t.Fatalf("the journal has %d steps", len(d.Journal))
	}
	must(t, l.Summarize(t.Context(), d, corebot.Step{Position: 1, Kind: corebot.StepSummary, State: corebot.StepDone, Answer: modelStep(1, spentBy("m", 20, 2)).Answer}, corebot.Summary{Session: 1, Through: 1}))
	must(t, l.Commit(t.Context(), d, corebot.Result{Outcome: ended(), Spent: []corebot.Spent{spentBy("m", 50, 5), spentBy("other", 4, 3)}}))
	want := corebot.Use{Turns: 1, InputTokens: 175, OutputTokens: 20, Cost: 171 + 2*17, UnpricedTokens: 7}
	if got := useOf(t, db, corebot.UseFilter{}); got != want {
		t.Errorf("the day has %+v, want %+v", got, want)
	}
	life := lifeOf(t, db, d.Life)
	if life.Usage.InputTokens != 175 || life.Usage.OutputTokens != 20 || life.Cost != want.Cost || life.UnpricedTokens != 7 {
		t.Errorf("the life has %+v, cost %d", life.Usage, life.Cost)
	}
}

func TestAWorkerThatLostItsLeaseBooksNothing(t *testing.T) {
	db := openBooks(t, corebot.Limits{})
	l := NewLedger(db)
	publishInto(t, db, testMessage("a", "1"))
	d := take(t, db, corebot.InboundPool)
	stale := d
	stale.Epoch--
	for name, err := range map[string]error{
		"step": l.Record(t.Context(), stale, modelStep(0, spentBy("m", 1, 1))),
		"turn": l.Commit(t.Context(), stale, corebot.Result{Outcome: ended(), Spent: []corebot.Spent{spentBy("m", 1, 1)}}),
	} {
		if !errors.Is(err, corebot.ErrLeaseLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := useOf(t, db, corebot.UseFilter{}); got != (corebot.Use{}) {
		t.Errorf("the day has %+v", got)
	}
}

func TestUseIsToldByChatPrincipalAndTheRoleThatSomebodyHasNow(t *testing.T) {
	db := openBooks(t, corebot.Limits{})
	l := NewLedger(db)
	turn := func(chat, id, sender string, tokens int64) {
		t.Helper()
		m := testMessage(chat, id)
		m.Sender.ID = sender
		publishInto(t, db, m)
		must(t, l.Commit(t.Context(), take(t, db, corebot.InboundPool), corebot.Result{Outcome: ended(), Spent: []corebot.Spent{spentBy("m", tokens, 0)}}))
	}
	turn("a", "1", "ann", 1)
	turn("a", "2", "bob", 10)
	turn("b", "3", "ann", 100)
	turn("b", "4", "", 1000)
	ann := testMessage("a", "x").Sender
	ann.ID = "ann"
	must(t, NewGrants(db).Grant(t.Context(), corebot.Grant{Principal: ann, Role: corebot.RoleAdmin, Chat: testMessage("b", "x").Key, By: "operator"}))
	for name, c := range map[string]struct {
		filter corebot.UseFilter
		want   int64
	}{
		"all":               {corebot.UseFilter{}, 1111},
		"a chat":            {corebot.UseFilter{Chat: testMessage("a", "x").Key}, 11},
		"a principal":       {corebot.UseFilter{Principal: ann}, 101},
		"admins, of chat b": {corebot.UseFilter{Role: corebot.RoleAdmin}, 100},
		"those who are not": {corebot.UseFilter{Role: corebot.RoleNormal}, 1011},
	} {
		if got := useOf(t, db, c.filter).InputTokens; got != c.want {
			t.Errorf("%s: %d tokens, want %d", name, got, c.want)
		}
	}
	rows, err := NewBooks(db).Days(t.Context(), "0000", "9999", 10)
	must(t, err)
	if len(rows) != 4 || rows[0].Model != "m" || rows[0].Turns != 1 {
		t.Errorf("the rows are %+v", rows)
	}
}

func TestALaneHasPlacesForSoManyParkedMessagesAndOneMoreChangesNothing(t *testing.T) {
	db := openBooks(t, corebot.Limits{LaneDepth: 2})
	l := NewLedger(db)
	park := func(id string) (corebot.Delivery, error) {
		publishInto(t, db, testMessage("a", id))
		d := take(t, db, corebot.InboundPool)
		return d, l.Commit(t.Context(), d, corebot.Result{Outcome: corebot.Outcome{Verb: corebot.Park, At: time.Now().Add(time.Hour), Reason: "chat budget"}})
	}
	for _, id := range []string{"1", "2"} {
		_, err := park(id)
		must(t, err)
	}
	d, err := park("3")
	if !errors.Is(err, corebot.ErrLaneFull) {
		t.Fatalf("a third is parked: %v", err)
	}
	must(t, l.Commit(t.Context(), d, corebot.Result{Outcome: ended()})) // the claim is still held
	if s, err := NewQueue(db).Stats(t.Context()); err != nil || s.Parked["chat budget"] != 2 {
		t.Errorf("parked: %+v, %v", s.Parked, err)
	}
}

func TestWhatIsParkedCanBeReleasedAndDropped(t *testing.T) {
	db := openBooks(t, corebot.Limits{})
	var lives []int64
	for _, id := range []string{"1", "2"} {
		publishInto(t, db, testMessage("a", id))
		d := take(t, db, corebot.InboundPool)
		lives = append(lives, d.Life)
		must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Park, At: time.Now().Add(time.Hour), Reason: "chat budget"}))
	}
	lot := NewLot(db)
	if all, err := lot.List(t.Context(), 10); err != nil || len(all) != 2 || all[0].Life != lives[0] || all[0].MessageID != "1" {
		t.Errorf("parked are %+v: %v", all, err)
	}
	must(t, lot.Drop(t.Context(), lives[0]))
	must(t, lot.Release(t.Context(), lives[1]))
	if d := take(t, db, corebot.InboundPool); d.Life != lives[1] {
		t.Errorf("life %d came back", d.Life)
	}
	life := lifeOf(t, db, lives[0])
	if life.End != corebot.EndDropped || len(life.Replies) != 1 {
		t.Errorf("the dropped one is %+v", life)
	}
	for _, err := range []error{lot.Release(t.Context(), lives[1]), lot.Drop(t.Context(), lives[0])} {
		if !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("what is not parked: %v", err)
		}
	}
	if problems, err := db.Problems(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// A command that changes something while no Corebot runs must not have every parked message come back: nobody is there to look at the budget.
func TestWhatIsParkedComesBackWithANewProcessUnlessItIsKept(t *testing.T) {
	dir := seeded(t)
	for i, c := range []struct {
		keep bool
		want int64
	}{{false, 1}, {true, 1}, {false, 0}} {
		db, err := Open(t.Context(), dir, Options{KeepParked: c.keep})
		must(t, err)
		stop := runWriter(db)
		if i == 0 {
			publishInto(t, db, testMessage("a", "1"))
			must(t, NewQueue(db).Settle(t.Context(), take(t, db, corebot.InboundPool), corebot.Outcome{Verb: corebot.Park, At: time.Now().Add(time.Hour), Reason: "chat budget"}))
		}
		must(t, NewChats(db).Register(t.Context(), testMessage("a", "1").Key, true, "")) // in every transaction the writer looks for who is due
		s, err := NewQueue(db).Stats(t.Context())
		must(t, err)
		if s.Parked["chat budget"] != c.want {
			t.Errorf("process %d: %d parked, want %d", i, s.Parked["chat budget"], c.want)
		}
		stop()
		must(t, db.Close())
	}
}

func TestTheModelOfASessionEndsWithIt(t *testing.T) {
	db := openBooks(t, corebot.Limits{})
	chats, k := NewChats(db), testMessage("a", "x").Key
	if err := chats.SetModel(t.Context(), k, "big"); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("a chat that nobody knows: %v", err)
	}
	must(t, chats.Register(t.Context(), k, true, ""))
	must(t, chats.SetModel(t.Context(), k, "big"))
	for _, want := range []string{"big", ""} {
		found, _, err := NewHistory(db).Recall(t.Context(), corebot.Delivery{Message: corebot.Message{Key: k}}, 1)
		must(t, err)
		now, err := chats.Situation(t.Context(), k)
		must(t, err)
		if found.Model != want || now.Model != want {
			t.Errorf("the session asks for %q and %q, want %q", found.Model, now.Model, want)
		}
		must(t, chats.Reset(t.Context(), k))
	}
}
