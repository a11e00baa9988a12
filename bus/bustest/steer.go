package bustest

import (
	"fmt"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

func steerSpecs() []spec {
	return []spec{
		{"a turn merges what is said to it, in order, and each message ends as merged into it", steerIsMerged},
		{"a steer that no turn merged has a turn of its own, once", steerBecomesPrompt},
		{"with nothing begun a steer is a prompt", steerOfNothing},
		{"a steer meant for a message that has ended is a prompt", steerComesLate},
		{"a steer of a turn that is about to stop is a prompt", steerOfAStoppedTurn},
		{"a steer reaches a head that backs off, at its next attempt", steerInBackoff},
		{"a steer is accepted once, however often it comes", steerIsDeduped},
		{"what a turn merged is in its journal after a restart, and waits nowhere", mergeSurvivesRestart},
		{"what a turn did not merge before a restart still waits for it", unmergedSurvivesRestart},
		{"a worker that lost its lease takes nothing in", staleMergesNothing},
		{"a replay of a dead letter gets again what its turn merged, also one that starts over", replayKeepsMerges},
		{"a message that cannot be read is not merged, and dies by itself", damagedIsNotMerged},
		{"the turn of one chat takes nothing of another in", mergeStaysInItsChat},
	}
}

// steerIn accepts a /steer for the turn of a life and returns the result.
func (s *suite) steerIn(chat, id string, head int64) corebot.Steered {
	s.t.Helper()
	got, err := s.Ledger.Steer(s.t.Context(), prompt(chat, id), head, corebot.AuditEvent{},
		func(merges bool) *corebot.Message {
			if !merges {
				return nil
			}
			n := stopNotice(chat, id, true)
			return &n
		})
	s.must(err)
	time.Sleep(moment)
	return got
}

// steers accepts a /steer that the turn of head can merge, and returns its life.
func (s *suite) steers(id string, head int64) int64 {
	s.t.Helper()
	got := s.steerIn("a", id, head)
	if !got.Merges || got.Duplicate {
		s.t.Fatalf("steer %s: %+v", id, got)
	}
	return got.Life
}

// waits accepts a /steer that must become a prompt.
func (s *suite) waits(id string, head int64) {
	s.t.Helper()
	if got := s.steerIn("a", id, head); got.Merges || got.Duplicate {
		s.t.Fatalf("steer %s: %+v, want a prompt that waits", id, got)
	}
}

// merge makes a delivery merge exactly these messages.
func (s *suite) merge(d corebot.Delivery, position int, ids ...string) {
	s.t.Helper()
	steps, err := s.Ledger.Merge(s.t.Context(), d, position)
	s.must(err)
	s.wantMerged(steps, position, ids...)
}

// wantMerged compares merge steps with the ids of the expected messages.
func (s *suite) wantMerged(steps []corebot.Step, position int, ids ...string) {
	s.t.Helper()
	var got []string
	for i, step := range steps {
		m := step.Merged
		if step.Kind != corebot.StepMerge || step.State != corebot.StepDone || step.Position != position+i || m == nil {
			s.t.Fatalf("step %d is %+v", i, step)
		}
		if m.Text() != "text of "+m.ID || m.Sender != prompt("a", m.ID).Sender {
			s.t.Fatalf("message %s was merged as %+v", m.ID, m)
		}
		got = append(got, m.ID)
	}
	if !slices.Equal(got, ids) {
		s.t.Fatalf("the turn merged %v, want %v", got, ids)
	}
}

// wantMergedInto checks which message answered a life.
func (s *suite) wantMergedInto(life int64, id string) {
	s.t.Helper()
	if l := s.life(life); l.End != corebot.EndMerged || l.MergedInto == nil || l.MergedInto.MessageID != id ||
		l.EndedAt.IsZero() {
		s.t.Fatalf("message %s: end %q, merged into %+v, want %s", l.MessageID, l.End, l.MergedInto, id)
	}
}

func steerIsMerged(s *suite) {
	head := s.publish("a", "1")
	d := s.claim("1")
	s.record(d, 0)
	x, y := s.steers("x", head), s.steers("y", head)
	s.publish("a", "2")
	s.nothingReady()
	s.merge(d, 1, "x", "y")
	s.wantMergedInto(x, "1")
	s.wantMergedInto(y, "1")
	s.merge(d, 3) // nothing more
	s.settle(d, answered())
	s.answerNext("2")
	s.nothingReady()
	if notices := s.ready(corebot.OutboundPool("test"), 1); len(notices) != 1 || notices[0].Message.ID != "x/notice" {
		s.t.Fatalf("the chat was told %+v", notices)
	}
}

func steerBecomesPrompt(s *suite) {
	head := s.publish("a", "1")
	d := s.claim("1")
	s.publish("a", "2")
	life := s.steers("x", head)
	s.settle(d, answered())
	s.answerNext("2")
	s.answerNext("x")
	s.nothingReady()
	if l := s.life(life); l.End != corebot.EndAnswered || l.MergedInto != nil {
		s.t.Fatalf("the steer ended %q, merged into %v", l.End, l.MergedInto)
	}
}

func steerOfNothing(s *suite) {
	s.waits("x", 0)
	s.answerNext("x")
	waiting := s.publish("a", "1")
	s.waits("y", waiting) // nobody works on it yet
	s.answerNext("1")
	s.answerNext("y")
}

func steerComesLate(s *suite) {
	head := s.publish("a", "1")
	d := s.claim("1")
	s.publish("a", "2")
	s.settle(d, answered())
	d = s.claim("2")
	s.waits("x", head)
	s.merge(d, 0)
	s.settle(d, answered())
	s.answerNext("x")
}

func steerOfAStoppedTurn(s *suite) {
	head := s.publish("a", "1")
	d := s.claim("1")
	s.stopFinds("stop", head)
	s.waits("x", head)
	s.settle(d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped})
	s.answerNext("x")
}

func steerInBackoff(s *suite) {
	head := s.publish("a", "1")
	d := s.claim("1")
	if d.Merges {
		s.t.Fatal("a message that came alone has something to merge")
	}
	s.settle(d, retryIn(time.Minute))
	life := s.steers("x", head)
	s.nothingReady()
	time.Sleep(time.Minute)
	if d = s.claim("1"); !d.Merges {
		s.t.Fatal("the claim does not say that somebody spoke")
	}
	s.merge(d, 0, "x")
	s.wantMergedInto(life, "1")
}

func steerIsDeduped(s *suite) {
	head := s.publish("a", "1")
	d := s.claim("1")
	s.steers("x", head)
	again := func() {
		s.t.Helper()
		before := s.census()
		if got := s.steerIn("a", "x", head); !got.Duplicate {
			s.t.Fatalf("the steer again: %+v", got)
		}
		s.unchanged(before)
	}
	again()
	s.merge(d, 0, "x")
	again()
	s.settle(d, answered())
	again()
	other := prompt("a", "x")
	other.Parts = corebot.TextPart("something else")
	_, err := s.Ledger.Steer(s.t.Context(), other, head, corebot.AuditEvent{},
		func(bool) *corebot.Message { return nil })
	s.wantErr(err, corebot.ErrConflict)
	s.nothingReady()
}

func mergeSurvivesRestart(s *suite) {
	head := s.publish("a", "1")
	d := s.claim("1")
	s.record(d, 0)
	s.steers("x", head)
	s.merge(d, 1, "x")
	s.reopen()
	d = s.claim("1")
	if len(d.Journal) != 2 {
		s.t.Fatalf("the journal is %+v", d.Journal)
	}
	s.wantMerged(d.Journal[1:], 1, "x")
	s.merge(d, 2)
	s.settle(d, answered())
	s.nothingReady()
}

func unmergedSurvivesRestart(s *suite) {
	head := s.publish("a", "1")
	s.claim("1")
	life := s.steers("x", head)
	s.reopen()
	d := s.claim("1")
	if !d.Merges {
		s.t.Fatal("the restart forgot that somebody spoke")
	}
	s.merge(d, 0, "x")
	s.wantMergedInto(life, "1")
}

func staleMergesNothing(s *suite) {
	head := s.publish("a", "1")
	old := s.claim("1")
	s.steers("x", head)
	time.Sleep(lease)
	current := s.claim("1")
	before := s.census()
	_, err := s.Ledger.Merge(s.t.Context(), old, 0)
	s.wantErr(err, corebot.ErrLeaseLost)
	s.unchanged(before)
	s.merge(current, 0, "x")
}

func replayKeepsMerges(s *suite) {
	for i, fresh := range []bool{false, true} {
		id := fmt.Sprint("dies ", i)
		head := s.publish("a", id)
		d := s.claim(id)
		s.record(d, 0)
		x := s.steers(id+" x", head)
		s.merge(d, 1, id+" x")
		s.record(d, 2)
		s.steers(id+" y", head)
		s.merge(d, 3, id+" y")
		s.settle(d, given("permanent"))
		s.wantMergedInto(x, id)
		s.must(s.DeadLetters.Replay(s.t.Context(), head, fresh))
		d = s.claim(id)
		if fresh {
			s.wantMerged(d.Journal, 0, id+" x", id+" y")
		} else if len(d.Journal) != 4 {
			s.t.Fatalf("the journal is %+v", d.Journal)
		}
		s.settle(d, answered())
		s.nothingReady()
	}
}

func damagedIsNotMerged(s *suite) {
	head := s.publish("a", "1")
	d := s.claim("1")
	s.must(s.Damage(s.steers("x", head), Body))
	s.steers("y", head)
	s.merge(d, 0, "y")
	s.settle(d, answered())
	d, o := s.unfit("x")
	s.settle(d, o)
	s.nothingReady()
}

func mergeStaysInItsChat(s *suite) {
	head := s.publish("a", "1")
	s.publish("b", "2")
	for _, d := range s.ready(corebot.InboundPool, 2) {
		if d.Message.ID == "2" {
			s.steers("x", head)
			s.merge(d, 0)
		}
	}
	if got := s.steerIn("b", "y", head); got.Merges {
		s.t.Fatal("a steer reached the turn of another chat")
	}
}
