package bustest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
)

func deadLetterSpecs() []spec {
	return []spec{
		{"a dead letter is listed with its reason, newest first, and keeps its body", deadLettersAreListed},
		{"a replay is the next run at the tail of its lane, with attempts reset", replayAtTheTail},
		{"a replay that is asked for many times at once delivers once", replayDeliversOnce},
		{"a replay resumes its journal", replayResumes},
		{"a fresh replay starts over", freshReplayStartsOver},
		{"a damaged body is unfit and holds nobody up", damagedBodyIsUnfit},
		{"a damaged journal is unfit and holds nobody up", damagedJournalIsUnfit},
		{"a dead letter survives a restart and can die again", deadAgain},
		{"a reply that died is sent once more under its id", deadReplyIsReplayed},
		{"an edited letter is a new message at the tail, and the old one is over", editedAtTheTail},
		{"a dropped letter is over, and its id stays taken", droppedIsOver},
	}
}

// dead publishes a message and makes it a dead letter.
func (s *suite) dead(chat, id string) int64 {
	s.t.Helper()
	life := s.publish(chat, id)
	s.settle(s.claim(id), given("permanent"))
	return life
}

func (s *suite) list(d corebot.Direction, limit int) []corebot.DeadLetter {
	s.t.Helper()
	got, err := s.DeadLetters.List(s.t.Context(), corebot.DeadLetterFilter{Direction: d, Limit: limit})
	s.must(err)
	return got
}

func deadLettersAreListed(s *suite) {
	first := s.dead("a", "1")
	second := s.dead("b", "2")
	_, err := s.bus.Publish(s.t.Context(), reply("a", "r"))
	s.must(err)
	s.settle(s.ready(corebot.OutboundPool("test"), 1)[0], given("attempts"))
	got := s.list(corebot.Inbound, 10)
	if len(got) != 2 || got[0].ID != second || got[1].ID != first {
		s.t.Fatalf("got %+v", got)
	}
	dl := got[1]
	if dl.MessageID != "1" || dl.Reason != "permanent" || dl.LastError != "it broke" || dl.Attempts != 1 ||
		dl.Key != prompt("a", "1").Key || !dl.DeadAt.After(dl.CreatedAt) {
		s.t.Fatalf("got %+v", dl)
	}
	if all, one := s.list(0, 10), s.list(0, 1); len(all) != 3 || len(one) != 1 {
		s.t.Fatalf("listed %d of all and %d of one", len(all), len(one))
	}
	if l := s.life(first); l.Message == nil || l.Message.Text() != "text of 1" {
		s.t.Fatalf("the body is gone: %+v", l)
	}
}

func replayAtTheTail(s *suite) {
	life := s.publish("a", "1")
	s.settle(s.claim("1"), retryIn(0))
	s.settle(s.claim("1"), given("permanent"))
	s.publish("a", "2")
	s.must(s.DeadLetters.Replay(s.t.Context(), life, false))
	s.publish("a", "3")
	s.settle(s.claim("2"), answered())
	d := s.claim("1")
	if d.Run != 2 || d.Attempt != 1 || d.Lost != 0 || d.Life != life || d.Damaged != nil ||
		d.Message.Text() != "text of 1" {
		s.t.Fatalf("got %+v", d)
	}
	s.settle(d, answered())
	s.claim("3")
}

func replayDeliversOnce(s *suite) {
	life := s.dead("a", "1")
	var ok atomic.Int32
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if err := s.DeadLetters.Replay(s.t.Context(), life, i%2 == 0); err == nil {
				ok.Add(1)
			}
		})
	}
	wg.Wait()
	if ok.Load() != 1 {
		s.t.Fatalf("replayed %d times", ok.Load())
	}
	s.wantErr(s.DeadLetters.Replay(s.t.Context(), life, false), corebot.ErrNotFound)
	d := s.claim("1")
	s.wantErr(s.DeadLetters.Replay(s.t.Context(), life, false), corebot.ErrNotFound)
	s.settle(d, answered())
	s.wantErr(s.DeadLetters.Replay(s.t.Context(), life, false), corebot.ErrNotFound)
	s.wantErr(s.DeadLetters.Replay(s.t.Context(), 4711, false), corebot.ErrNotFound)
	s.nothingReady()
	s.publishAgain("a", "1", life)
}

// deadWithJournal makes a dead letter with one journaled step.
func (s *suite) deadWithJournal() int64 {
	s.t.Helper()
	life := s.publish("a", "1")
	d := s.claim("1")
	s.record(d, 0)
	s.settle(d, given("permanent"))
	return life
}

func replayResumes(s *suite) {
	life := s.deadWithJournal()
	for run := 2; run <= 4; run++ {
		s.must(s.DeadLetters.Replay(s.t.Context(), life, false))
		d := s.claim("1")
		if d.Run != run || len(d.Journal) != run-1 {
			s.t.Fatalf("run %d has %d steps, want run %d with %d", d.Run, len(d.Journal), run, run-1)
		}
		s.record(d, run-1)
		s.settle(d, given("permanent"))
	}
}

func freshReplayStartsOver(s *suite) {
	life := s.deadWithJournal()
	s.must(s.DeadLetters.Replay(s.t.Context(), life, true))
	d := s.claim("1")
	if d.Run != 2 || len(d.Journal) != 0 {
		s.t.Fatalf("run %d has %d steps", d.Run, len(d.Journal))
	}
	s.record(d, 0)
	time.Sleep(lease)
	if d = s.claim("1"); len(d.Journal) != 1 {
		s.t.Fatalf("the new run has %d steps, want its own", len(d.Journal))
	}
}

func damagedBodyIsUnfit(s *suite) {
	s.damagedIsUnfit("a", Body)
	s.damagedIsUnfit("b", Letter)
}

func (s *suite) damagedIsUnfit(chat string, what Damaged) {
	s.t.Helper()
	life := s.publish(chat, "1")
	s.publish(chat, "2")
	s.must(s.Damage(life, what))
	d, o := s.unfit("1")
	if d.Message.ID != "1" || d.Message.Key != prompt(chat, "1").Key {
		s.t.Fatalf("the chat cannot be told: %+v", d.Message)
	}
	s.settle(d, o)
	s.settle(s.claim("2"), answered())
	if l := s.life(life); l.End != corebot.EndDead || l.Message != nil {
		s.t.Fatalf("the life says %+v", l)
	}
}

// unfit claims a damaged message, which must not run.
func (s *suite) unfit(id string) (corebot.Delivery, corebot.Outcome) {
	s.t.Helper()
	d := s.claim(id)
	o, unfit := s.bus.Unfit(d)
	if d.Damaged == nil || !unfit || o.Verb != corebot.Dead || o.Reason != bus.ReasonDamaged {
		s.t.Fatalf("damaged: %v, outcome %+v", d.Damaged, o)
	}
	return d, o
}

func damagedJournalIsUnfit(s *suite) {
	life := s.publish("a", "1")
	s.publish("b", "2")
	d := s.claim("1")
	s.record(d, 0)
	s.settle(d, retryIn(0))
	s.must(s.Damage(life, Journal))
	s.settle(s.claim("2"), answered())
	d, o := s.unfit("1")
	if l := s.life(life); l.LastError == "" {
		s.t.Fatalf("the life does not say that its journal is damaged: %+v", l)
	}
	s.settle(d, o)
	s.nothingReady()
}

func deadAgain(s *suite) {
	life := s.dead("a", "1")
	for i := range 3 {
		s.reopen()
		s.must(s.DeadLetters.Replay(s.t.Context(), life, false))
		s.settle(s.claim("1"), given(fmt.Sprint("reason ", i)))
		if got := s.list(0, 10); len(got) != 1 || got[0].Reason != fmt.Sprint("reason ", i) {
			s.t.Fatalf("listed %+v", got)
		}
	}
}

func deadReplyIsReplayed(s *suite) {
	r, err := s.bus.Publish(s.t.Context(), reply("a", "r"))
	s.must(err)
	pool := corebot.OutboundPool("test")
	first := s.ready(pool, 1)[0]
	s.must(s.Ledger.Record(s.t.Context(), first, corebot.Step{Kind: corebot.StepPart, State: corebot.StepDone}))
	s.settle(first, given("permanent"))
	s.must(s.DeadLetters.Replay(s.t.Context(), r.Life, false))
	got := s.ready(pool, 2)
	if len(got) != 1 || got[0].Message.ID != "r" || got[0].Run != 2 || len(got[0].Journal) != 1 {
		s.t.Fatalf("got %+v", got)
	}
}

func editedAtTheTail(s *suite) {
	life := s.dead("a", "1")
	s.publish("a", "2")
	s.wantErr(s.Administer.Edit(s.t.Context(), life, "2", "taken"), corebot.ErrConflict)
	s.wantErr(s.Administer.Edit(s.t.Context(), life, "1", "taken"), corebot.ErrConflict)
	s.must(s.Administer.Edit(s.t.Context(), life, "1b", "better"))
	s.settle(s.claim("2"), answered())
	d := s.claim("1b")
	if d.Run != 1 || d.Message.Text() != "better" || d.Message.Sender != prompt("a", "1").Sender || d.Life == life {
		s.t.Fatalf("got %+v", d)
	}
	if c := s.life(d.Life).Cause; c == nil || c.Life != life || c.MessageID != "1" {
		s.t.Fatalf("it came of %+v", c)
	}
	s.wantOver(life)
}

func droppedIsOver(s *suite) {
	life := s.dead("a", "1")
	s.must(s.Administer.Drop(s.t.Context(), life))
	s.wantOver(life)
	s.nothingReady()
	s.publishAgain("a", "1", life)
}

// wantOver fails the test unless a letter has ended as dropped and refuses every further operation.
func (s *suite) wantOver(life int64) {
	s.t.Helper()
	if l := s.life(life); l.End != corebot.EndDropped || l.Message != nil {
		s.t.Fatalf("the life says %+v", l)
	}
	if got := s.list(0, 10); len(got) != 0 {
		s.t.Fatalf("listed %+v", got)
	}
	ctx := s.t.Context()
	for _, err := range []error{
		s.DeadLetters.Replay(ctx, life, false), s.Administer.Drop(ctx, life),
		s.Administer.Edit(ctx, life, "again", "x"),
	} {
		s.wantErr(err, corebot.ErrNotFound)
	}
}
