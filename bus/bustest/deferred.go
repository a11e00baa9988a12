package bustest

import (
	"time"

	"github.com/corebot/corebot"
)

func deferredSpecs() []spec {
	return []spec{
		{
			"a deferred message leaves its lane, which goes on, and comes back at the tail when it is due",
			deferredComesBack,
		},
		{"a deferred message that is due wakes a claim without polling", deferredWakes},
		{
			"a deferred message is the same message: published again it is a duplicate, and it ends once",
			deferredIsTheSame,
		},
		{"deferring is fenced", deferringIsFenced},
		{"a message whose run has begun is not deferred", begunIsNotDeferred},
		{"deferred messages count as waiting ones", deferredCount},
		{"a deferred message survives a restart, and comes back with it", deferredSurvives},
		{"a stop ends a deferred message", stopOfDeferred},
		{"the chat is told once, whatever the later notices say", deferredToldOnce},
		{"a message that was deferred can die and be replayed", deferredThenReplayed},
	}
}

// deferFirst defers a claimed message for some time.
func (s *suite) deferFirst(d corebot.Delivery, wait time.Duration) {
	s.t.Helper()
	s.must(s.Ledger.Commit(s.t.Context(), d, corebot.Result{Outcome: deferFor(wait)}))
}

func deferFor(wait time.Duration) corebot.Outcome {
	return corebot.Outcome{Verb: corebot.Defer, At: time.Now().Add(wait), Reason: "chat budget"}
}

func deferredComesBack(s *suite) {
	life := s.publish("a", "1")
	s.publish("a", "2")
	s.deferFirst(s.claim("1"), time.Hour)
	if l := s.life(life); l.End != "" || l.State != "deferred: chat budget" || !l.WakeAt.After(time.Now()) ||
		l.Message == nil {
		s.t.Fatalf("the life says %+v", l)
	}
	s.settle(s.claim("2"), answered())
	s.nothingReady()
	time.Sleep(time.Hour - time.Minute)
	s.nothingReady()
	s.publish("a", "3")
	three := s.claim("3")
	s.publish("a", "4")
	time.Sleep(time.Minute)
	s.settle(three, answered())
	s.settle(s.claim("4"), answered()) // the message waited before the deferred one came back
	d := s.claim("1")
	if d.Life != life || d.Attempt != 1 || d.Run != 1 || d.Message.Text() != "text of 1" {
		s.t.Fatalf("it came back as %+v", d)
	}
	s.settle(d, answered())
}

func deferredWakes(s *suite) {
	s.publish("a", "1")
	s.deferFirst(s.claim("1"), 7*time.Minute)
	waiting := s.claimLater(corebot.InboundPool, 1)
	time.Sleep(7*time.Minute - moment)
	if waiting.over() {
		s.t.Fatal("it came back before it was due")
	}
	time.Sleep(moment)
	s.settle(s.now(waiting, "1"), answered())
}

func deferredIsTheSame(s *suite) {
	life := s.publish("a", "1")
	s.deferFirst(s.claim("1"), time.Hour)
	s.publishAgain("a", "1", life)
	time.Sleep(time.Hour)
	s.settle(s.claim("1"), answered())
	s.publishAgain("a", "1", life)
	s.nothingReady()
}

func deferringIsFenced(s *suite) {
	old, current := s.stale()
	before := s.census()
	s.wantErr(s.Ledger.Commit(s.t.Context(), old, corebot.Result{Outcome: deferFor(time.Hour)}), corebot.ErrLeaseLost)
	s.unchanged(before)
	s.settle(current, answered())
}

func begunIsNotDeferred(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	s.record(d, 0)
	s.settle(d, retryIn(0))
	d = s.claim("1")
	before := s.census()
	s.wantErr(s.Ledger.Commit(s.t.Context(), d, corebot.Result{Outcome: deferFor(time.Hour)}), corebot.ErrInvalid)
	s.unchanged(before)
	s.settle(d, answered())
}

func deferredCount(s *suite) {
	o := s.opts
	o.Limits = corebot.Limits{LaneDepth: 10, TotalDepth: 1, TotalBytes: 1 << 20}
	s.reopenWith(o)
	s.publish("a", "1")
	s.deferFirst(s.claim("1"), time.Hour)
	full := func() {
		_, err := s.bus.Publish(s.t.Context(), prompt("b", "2"))
		s.wantErr(err, corebot.ErrOverloaded)
	}
	full()
	time.Sleep(time.Hour)
	d := s.claim("1")
	full()
	s.settle(d, answered())
	s.publish("b", "2")
}

func deferredSurvives(s *suite) {
	life := s.publish("a", "1")
	s.deferFirst(s.claim("1"), time.Hour)
	s.reopen()
	s.deferFirst(s.claim("1"), time.Hour) // a new process decides again whether the message may run
	s.reopen()
	d := s.claim("1")
	if d.Life != life || d.Attempt != 1 || d.Lost != 0 {
		s.t.Fatalf("it came back as %+v", d)
	}
	s.settle(d, answered())
}

func stopOfDeferred(s *suite) {
	life := s.publish("a", "1")
	s.deferFirst(s.claim("1"), time.Hour)
	s.publish("a", "2")
	s.stopFinds("stop", life)
	if l := s.life(life); l.End != corebot.EndStopped {
		s.t.Fatalf("the life says %+v", l)
	}
	if d := s.claim("2"); d.Stopped {
		s.t.Fatal("the stop hit the next message")
	}
	time.Sleep(2 * time.Hour)
	if got := s.ready(corebot.InboundPool, 10); len(got) > 1 {
		s.t.Fatal("a stopped message came back")
	}
}

func deferredToldOnce(s *suite) {
	for _, id := range []string{"1", "2"} {
		s.publish("a", id)
		told := reply("a", "budget")
		told.InReplyTo, told.Parts = id, corebot.TextPart("told in answer to "+id)
		s.must(s.Ledger.Commit(s.t.Context(), s.claim(id), corebot.Result{
			Outcome: deferFor(time.Hour),
			Replies: []corebot.Message{told},
		}))
	}
	got := s.ready(corebot.OutboundPool("test"), 10)
	if len(got) != 1 || got[0].Message.Text() != "told in answer to 1" {
		s.t.Fatalf("the chat was told %+v", got)
	}
	s.settle(got[0], corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent})
	if again := s.ready(corebot.OutboundPool("test"), 10); len(again) > 0 {
		s.t.Fatalf("the chat was told again: %+v", again)
	}
}

func deferredThenReplayed(s *suite) {
	life := s.publish("a", "1")
	s.deferFirst(s.claim("1"), time.Minute)
	time.Sleep(time.Minute)
	s.settle(s.claim("1"), given("permanent"))
	s.must(s.DeadLetters.Replay(s.t.Context(), life, false))
	d := s.claim("1")
	s.deferFirst(d, time.Minute)
	time.Sleep(time.Minute)
	if d = s.claim("1"); d.Run != 2 {
		s.t.Fatalf("it came back in run %d", d.Run)
	}
	s.settle(d, answered())
}
