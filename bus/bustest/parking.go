package bustest

import (
	"time"

	"github.com/corebot/corebot"
)

func parkingSpecs() []spec {
	return []spec{
		{"a parked message leaves its lane, which goes on, and comes back at the tail when it is due", parkedComesBack},
		{"a parked message that is due wakes a claim without polling", parkedWakes},
		{"a parked message is the same message: published again it is a duplicate, and it ends once", parkedIsTheSame},
		{"parking is fenced", parkingIsFenced},
		{"a message whose run has begun is not parked", begunIsNotParked},
		{"parked messages count as waiting ones", parkedCount},
		{"a parked message survives a restart, and comes back with it", parkedSurvives},
		{"a stop ends a parked message", stopOfParked},
		{"the chat is told once, whatever the later notices say", parkedToldOnce},
		{"a message that was parked can die and be replayed", parkedThenReplayed},
	}
}

// park defers a claimed message for some time.
func (s *suite) park(d corebot.Delivery, wait time.Duration) {
	s.t.Helper()
	s.must(s.Ledger.Commit(s.t.Context(), d, corebot.Result{Outcome: parkFor(wait)}))
}

func parkFor(wait time.Duration) corebot.Outcome {
	return corebot.Outcome{Verb: corebot.Park, At: time.Now().Add(wait), Reason: "chat budget"}
}

func parkedComesBack(s *suite) {
	life := s.publish("a", "1")
	s.publish("a", "2")
	s.park(s.claim("1"), time.Hour)
	if l := s.life(life); l.End != "" || l.State != "parked: chat budget" || !l.WakeAt.After(time.Now()) ||
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

func parkedWakes(s *suite) {
	s.publish("a", "1")
	s.park(s.claim("1"), 7*time.Minute)
	waiting := s.claimLater(corebot.InboundPool, 1)
	time.Sleep(7*time.Minute - moment)
	if waiting.over() {
		s.t.Fatal("it came back before it was due")
	}
	time.Sleep(moment)
	s.settle(s.now(waiting, "1"), answered())
}

func parkedIsTheSame(s *suite) {
	life := s.publish("a", "1")
	s.park(s.claim("1"), time.Hour)
	s.publishAgain("a", "1", life)
	time.Sleep(time.Hour)
	s.settle(s.claim("1"), answered())
	s.publishAgain("a", "1", life)
	s.nothingReady()
}

func parkingIsFenced(s *suite) {
	old, current := s.stale()
	before := s.census()
	s.wantErr(s.Ledger.Commit(s.t.Context(), old, corebot.Result{Outcome: parkFor(time.Hour)}), corebot.ErrLeaseLost)
	s.unchanged(before)
	s.settle(current, answered())
}

func begunIsNotParked(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	s.record(d, 0)
	s.settle(d, retryIn(0))
	d = s.claim("1")
	before := s.census()
	s.wantErr(s.Ledger.Commit(s.t.Context(), d, corebot.Result{Outcome: parkFor(time.Hour)}), corebot.ErrInvalid)
	s.unchanged(before)
	s.settle(d, answered())
}

func parkedCount(s *suite) {
	o := s.opts
	o.Limits = corebot.Limits{LaneDepth: 10, TotalDepth: 1, TotalBytes: 1 << 20}
	s.reopenWith(o)
	s.publish("a", "1")
	s.park(s.claim("1"), time.Hour)
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

func parkedSurvives(s *suite) {
	life := s.publish("a", "1")
	s.park(s.claim("1"), time.Hour)
	s.reopen()
	s.park(s.claim("1"), time.Hour) // a new process decides again whether the message may run
	s.reopen()
	d := s.claim("1")
	if d.Life != life || d.Attempt != 1 || d.Lost != 0 {
		s.t.Fatalf("it came back as %+v", d)
	}
	s.settle(d, answered())
}

func stopOfParked(s *suite) {
	life := s.publish("a", "1")
	s.park(s.claim("1"), time.Hour)
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

func parkedToldOnce(s *suite) {
	for _, id := range []string{"1", "2"} {
		s.publish("a", id)
		told := reply("a", "budget")
		told.InReplyTo, told.Parts = id, corebot.TextPart("told in answer to "+id)
		s.must(s.Ledger.Commit(s.t.Context(), s.claim(id), corebot.Result{
			Outcome: parkFor(time.Hour),
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

func parkedThenReplayed(s *suite) {
	life := s.publish("a", "1")
	s.park(s.claim("1"), time.Minute)
	time.Sleep(time.Minute)
	s.settle(s.claim("1"), given("permanent"))
	s.must(s.DeadLetters.Replay(s.t.Context(), life, false))
	d := s.claim("1")
	s.park(d, time.Minute)
	time.Sleep(time.Minute)
	if d = s.claim("1"); d.Run != 2 {
		s.t.Fatalf("it came back in run %d", d.Run)
	}
	s.settle(d, answered())
}
