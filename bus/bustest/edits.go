package bustest

import (
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

func editSpecs() []spec {
	return []spec{
		{"an edit takes the place of a message that waits, with its place in the lane", editReplaces},
		{"an edit of a message that was edited changes its newest text, by either name", editOfAnEdit},
		{"an edit needs no room in a full lane, and room in bytes for what it adds", editNeedsItsGrowth},
		{"an edit of a running turn steers it", editSteers},
		{
			"an edit reaches a head that backs off, or was claimed by an earlier process, at its next attempt",
			editOfABegun,
		},
		{"an edit of what a running turn has merged steers the turn", editOfAMerged},
		{"an edit of a turn that is about to stop has a turn of its own", editOfAStopped},
		{"an edit of an answered, dead, unknown or later message is heard", editIsHeard},
		{"an edit of another sender, of another chat or of a sender without an id is heard", editOfAnother},
		{"an edit changes what waits for a running turn, also while the turn merges it", editOfASteer},
		{"an edit of a collected message leaves the others in its turn", editOfACollected},
		{"an edit of a deferred message comes back in its place", editOfADeferred},
		{"an edit of a message that is replayed joins its turn", editOfAReplayed},
		{"an edit of a waiting command takes its place", editOfACommand},
		{"an edit is accepted once, however often it comes", editIsDeduped},
		{"an edit survives a restart", editSurvives},
		{"a deletion ends a message that waits, whatever its place", deletionEnds},
		{"a deletion of the first collected message leaves the others together", deletionOfACollected},
		{"a deletion ends a deferred message", deletionOfADeferred},
		{"a deletion of a message that was edited ends the edit", deletionOfAnEdited},
		{"a deletion of a begun, answered or unknown message changes nothing", deletionChangesNothing},
		{"a deletion leaves a lane that waits for its rate in its wait", deletionInARate},
	}
}

// editOf is a new text for a message.
func editOf(chat, id, of string) corebot.Message {
	m := prompt(chat, id)
	m.EditOf = of
	return m
}

// edits publishes an edit in the chat a, which must be new, and returns its life.
func (s *suite) edits(id, of string) int64 {
	s.t.Helper()
	return s.editsAs(editOf("a", id, of))
}

func (s *suite) editsAs(m corebot.Message) int64 {
	s.t.Helper()
	r, err := s.bus.Publish(s.t.Context(), m)
	s.must(err)
	if r.Duplicate || r.Life == 0 {
		s.t.Fatalf("the edit %s: %+v", m.ID, r)
	}
	time.Sleep(moment)
	return r.Life
}

// wantReplaced checks which message took the place of a life.
func (s *suite) wantReplaced(life int64, id string) {
	s.t.Helper()
	if l := s.life(life); l.End != corebot.EndReplaced || l.MergedInto == nil || l.MergedInto.MessageID != id ||
		l.EndedAt.IsZero() {
		s.t.Fatalf("message %s: end %q, replaced by %+v, want %s", l.MessageID, l.End, l.MergedInto, id)
	}
}

func (s *suite) wantEnd(life int64, end corebot.End) {
	s.t.Helper()
	if l := s.life(life); l.End != end {
		s.t.Fatalf("message %s ended %q (%s), want %q", l.MessageID, l.End, l.State, end)
	}
}

// deletes accepts the deletion of a message of the chat a, and says whether it ended one.
func (s *suite) deletes(of string) bool { return s.deletesIn("a", of) }

func (s *suite) deletesIn(chat, of string) bool {
	s.t.Helper()
	m := stopMessage(chat, "deletes "+of)
	m.DeleteOf, m.Parts = of, corebot.TextPart("deletes "+of)
	r, err := s.Ledger.Cancel(s.t.Context(), m)
	s.must(err)
	time.Sleep(moment)
	return r.Life != 0
}

func editReplaces(s *suite) {
	s.publish("a", "1")
	two := s.publish("a", "2")
	s.publish("a", "3")
	edit := s.edits("2b", "2")
	s.wantReplaced(two, "2b")
	if log := s.life(edit).AttemptLog; len(log) != 1 || log[0].What != "edit" || log[0].Plain != "of message 2" {
		s.t.Fatalf("the edit is told as %+v", log)
	}
	one := s.edits("1b", "1") // the head
	s.answerNext("1b")
	s.wantEnd(one, corebot.EndAnswered)
	s.answerNext("2b")
	s.answerNext("3")
	s.nothingReady()
}

func editOfAnEdit(s *suite) {
	s.publish("a", "0")
	d := s.claim("0")
	one := s.publish("a", "1")
	two := s.edits("2", "1")
	three := s.edits("3", "1") // as a platform names it whose messages keep their id
	s.wantReplaced(one, "3")
	s.wantReplaced(two, "3")
	s.edits("4", "3") // as one whose edits have ids
	s.wantReplaced(three, "4")
	s.edits("5", "2")
	s.settle(d, answered())
	s.answerNext("5")
	s.nothingReady()
	s.wantEnd(s.edits("6", "1"), corebot.EndHeard)
}

func editNeedsItsGrowth(s *suite) {
	options := s.opts
	options.Limits = corebot.Limits{LaneDepth: 2, TotalDepth: 2, SenderDepth: 2}
	s.reopenWith(options)
	s.publish("a", "1")
	s.publish("a", "2")
	_, err := s.bus.Publish(s.t.Context(), prompt("a", "3"))
	s.wantErr(err, corebot.ErrLaneFull)
	s.edits("2b", "2")
	options.Limits = corebot.Limits{TotalBytes: 1000}
	s.reopenWith(options)
	large := editOf("a", "2c", "2")
	large.Parts = corebot.TextPart(fmt.Sprintf("%2000d", 1))
	_, err = s.bus.Publish(s.t.Context(), large)
	s.wantErr(err, corebot.ErrOverloaded)
	options.Limits = corebot.Limits{SenderDepth: 10, SenderBytes: 1000}
	s.reopenWith(options)
	_, err = s.bus.Publish(s.t.Context(), large)
	s.wantErr(err, corebot.ErrLaneFull)
	s.edits("2d", "2")
	s.answerNext("1")
	s.answerNext("2d")
}

func editSteers(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	s.record(d, 0)
	s.publish("a", "2")
	edit := s.edits("1b", "1")
	s.merge(d, 1, "1b")
	s.wantMergedInto(edit, "1")
	s.settle(d, answered())
	s.answerNext("2")
	s.publish("a", "3")
	d = s.claim("3")
	late := s.edits("3b", "3") // the turn ends before it merges it
	s.settle(d, answered())
	s.answerNext("3b")
	s.wantEnd(late, corebot.EndAnswered)
}

func editOfABegun(s *suite) {
	for i, begin := range []func(corebot.Delivery){
		func(d corebot.Delivery) { s.settle(d, retryIn(time.Minute)) },
		func(d corebot.Delivery) { s.settle(d, waitFor(time.Minute)) },
		func(corebot.Delivery) { s.reopen() },
	} {
		id, edit := fmt.Sprint(i), fmt.Sprint(i, "b")
		life := s.publish("a", id)
		d := s.claim(id)
		s.record(d, 0)
		begin(d)
		s.edits(edit, id)
		time.Sleep(2 * time.Minute)
		d = s.claim(id)
		s.merge(d, 1, edit)
		s.settle(d, answered())
		s.wantEnd(life, corebot.EndAnswered)
		s.nothingReady()
	}
}

func editOfAMerged(s *suite) {
	head := s.publish("a", "1")
	d := s.claim("1")
	s.steers("x", head)
	s.merge(d, 0, "x")
	s.edits("xb", "x")
	s.merge(d, 1, "xb")
	s.settle(d, answered())
	s.wantEnd(s.edits("xc", "x"), corebot.EndHeard)
	s.nothingReady()
}

func editOfAStopped(s *suite) {
	head := s.publish("a", "1")
	d := s.claim("1")
	s.stopFinds("stop", head)
	s.edits("1b", "1")
	s.merge(d, 0)
	s.settle(d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped})
	s.answerNext("1b")
}

func editIsHeard(s *suite) {
	s.publish("a", "1")
	s.answerNext("1")
	s.publish("a", "2")
	s.settle(s.claim("2"), given("permanent"))
	before := s.census().History
	for i, of := range []string{"1", "2", "never", "later"} {
		s.wantEnd(s.edits(fmt.Sprint("edit", i), of), corebot.EndHeard)
	}
	if n := s.census().History - before; n != 4 {
		s.t.Fatalf("%d history entries were written", n)
	}
	s.publish("a", "later")
	s.answerNext("later")
	if len(s.list(0, 0)) != 1 {
		s.t.Fatal("the dead letter is gone")
	}
	s.nothingReady()
}

func editOfAnother(s *suite) {
	s.publish("a", "1")
	other := editOf("a", "x", "1")
	other.Sender.ID = "another"
	s.wantEnd(s.editsAs(other), corebot.EndHeard)
	s.wantEnd(s.editsAs(editOf("b", "y", "1")), corebot.EndHeard)
	nameless := prompt("a", "2")
	nameless.Sender.ID = ""
	s.editsAs(nameless) // a prompt
	nameless.ID, nameless.EditOf = "z", "2"
	s.wantEnd(s.editsAs(nameless), corebot.EndHeard)
	s.answerNext("1")
	s.answerNext("2")
	s.nothingReady()
}

func editOfASteer(s *suite) {
	head := s.publish("a", "1")
	d := s.claim("1")
	x := s.steers("x", head)
	s.edits("xb", "x")
	s.wantReplaced(x, "xb")
	s.merge(d, 0, "xb")
	s.steers("y", head)
	changed := make(chan struct{})
	go func() { // one of both comes first
		defer close(changed)
		_, _ = s.bus.Publish(s.t.Context(), editOf("a", "yb", "y"))
	}()
	steps, err := s.Ledger.Merge(s.t.Context(), d, 1)
	s.must(err)
	<-changed
	more, err := s.Ledger.Merge(s.t.Context(), d, 1+len(steps))
	s.must(err)
	if all := append(steps, more...); len(all) == 0 || all[len(all)-1].Merged.ID != "yb" {
		s.t.Fatalf("the turn merged %+v", all)
	}
	s.settle(d, answered())
	s.nothingReady()
}

func editOfACollected(s *suite) {
	s.mode("a", corebot.ModeCollect)
	for _, id := range []string{"1", "2", "3"} {
		s.publish("a", id)
	}
	s.edits("1b", "1")
	s.edits("3b", "3")
	time.Sleep(Debounce)
	s.answerWith("1b", "2", "3b")
	s.nothingReady()
}

func editOfADeferred(s *suite) {
	life := s.publish("a", "1")
	s.deferFirst(s.claim("1"), time.Hour)
	s.edits("1b", "1")
	s.wantReplaced(life, "1b")
	s.nothingReady()
	time.Sleep(time.Hour)
	s.answerNext("1b")
	s.nothingReady()
}

func editOfAReplayed(s *suite) {
	life := s.publish("a", "1")
	d := s.claim("1")
	s.record(d, 0)
	s.settle(d, given("permanent"))
	s.must(s.DeadLetters.Replay(s.t.Context(), life, false))
	time.Sleep(moment)
	s.edits("1b", "1")
	d = s.claim("1")
	s.merge(d, 1, "1b")
	s.settle(d, answered())
	s.nothingReady()
}

func editOfACommand(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	s.publishCommand("a", "new")
	s.edits("newb", "new")
	s.settle(d, answered())
	s.answerNext("newb")
	s.publishCommand("a", "help")
	d = s.claim("help")
	s.wantEnd(s.edits("helpb", "help"), corebot.EndHeard) // it has been carried out
	s.settle(d, answered())
	s.nothingReady()
}

func editIsDeduped(s *suite) {
	s.publish("a", "1")
	life := s.edits("1b", "1")
	before := s.census()
	r, err := s.bus.Publish(s.t.Context(), editOf("a", "1b", "1"))
	s.must(err)
	if !r.Duplicate || r.Life != life {
		s.t.Fatalf("the edit came again: %+v", r)
	}
	own := editOf("a", "1b", "1b") // an edit of itself
	if r, err = s.bus.Publish(s.t.Context(), own); err != nil || !r.Duplicate {
		s.t.Fatalf("an edit of itself: %+v, %v", r, err)
	}
	s.unchanged(before)
	s.answerNext("1b")
	if r, err = s.bus.Publish(s.t.Context(), editOf("a", "1b", "1")); err != nil || !r.Duplicate {
		s.t.Fatalf("the edit came again: %+v, %v", r, err)
	}
}

func editSurvives(s *suite) {
	s.publish("a", "1")
	s.publish("a", "2")
	s.edits("1b", "1")
	s.reopen()
	s.edits("2b", "2")
	s.reopen()
	s.answerNext("1b")
	s.answerNext("2b")
	s.nothingReady()
}

func deletionEnds(s *suite) {
	one, two := s.publish("a", "1"), s.publish("a", "2")
	s.publish("a", "3")
	four := s.publish("a", "4")
	for _, id := range []string{"2", "1", "4"} { // in the middle, the head, the last
		if !s.deletes(id) {
			s.t.Fatalf("message %s is not deleted", id)
		}
	}
	for _, life := range []int64{one, two, four} {
		s.wantEnd(life, corebot.EndDeleted)
	}
	s.reopen()
	s.answerNext("3")
	s.publish("a", "5")
	if !s.deletes("5") { // the only one
		s.t.Fatal("message 5 is not deleted")
	}
	s.nothingReady()
	s.publish("a", "6")
	s.answerNext("6")
}

func deletionOfACollected(s *suite) {
	s.mode("a", corebot.ModeCollect)
	for _, id := range []string{"1", "2", "3"} {
		s.publish("a", id)
	}
	if !s.deletes("1") {
		s.t.Fatal("it is not deleted")
	}
	s.nothingReady() // the sender may still write
	time.Sleep(Debounce)
	s.answerWith("2", "3")
	s.nothingReady()
}

func deletionOfADeferred(s *suite) {
	life := s.publish("a", "1")
	s.deferFirst(s.claim("1"), time.Hour)
	if !s.deletes("1") {
		s.t.Fatal("it is not deleted")
	}
	s.wantEnd(life, corebot.EndDeleted)
	time.Sleep(time.Hour)
	s.nothingReady()
}

func deletionOfAnEdited(s *suite) {
	s.publish("a", "1")
	edit := s.edits("1b", "1")
	if !s.deletes("1") {
		s.t.Fatal("it is not deleted")
	}
	s.wantEnd(edit, corebot.EndDeleted)
	s.nothingReady()
	s.wantEnd(s.edits("1c", "1"), corebot.EndHeard)
}

func deletionChangesNothing(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	s.record(d, 0)
	before := s.census()
	for _, id := range []string{"1", "never", "deletes 1"} {
		if s.deletes(id) {
			s.t.Fatalf("message %s is deleted", id)
		}
	}
	s.reopen() // what an earlier process has begun goes on
	if s.deletes("1") {
		s.t.Fatal("a begun message is deleted")
	}
	s.unchanged(before)
	d = s.claim("1")
	s.settle(d, answered())
	if s.deletes("1") || s.deletesIn("b", "1") {
		s.t.Fatal("an answered message is deleted")
	}
}

func deletionInARate(s *suite) {
	options := s.opts
	options.Rate = corebot.Rate{Every: time.Minute, Burst: 1}
	s.reopenWith(options)
	s.publish("a", "1")
	s.answerNext("1")
	s.publish("a", "2")
	s.publish("a", "3")
	if !s.deletes("2") {
		s.t.Fatal("it is not deleted")
	}
	s.nothingReady()
	time.Sleep(time.Minute)
	s.answerNext("3")
}
