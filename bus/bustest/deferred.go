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

func laterSpecs() []spec {
	return []spec{
		{
			"a message that comes before its time waits for it outside its lane, and arrives at the tail",
			laterWaitsForItsTime,
		},
		{"a restart does not deliver a message before its time", laterSurvives},
		{"the time of its delivery is a part of a message", laterIsAPart},
		{"messages that wait for their time have the limits of a lane and of all lanes", laterIsBounded},
		{"a message that waits for its time counts for its sender", laterCountsForItsSender},
		{"a message whose time is over is delivered at once", laterOfThePast},
		{"a stop leaves a message alone that waits for its time", stopOfLater},
		{"a message that is over a budget at its time comes back at once after a restart", laterOverBudget},
	}
}

func promptLater(chat, id string, wait time.Duration) corebot.Message {
	m := prompt(chat, id)
	m.Envelope.DeliverAt = time.Now().Add(wait).Truncate(time.Millisecond).UTC()
	return m
}

func (s *suite) publishLater(chat, id string, wait time.Duration) int64 {
	s.t.Helper()
	r, err := s.bus.Publish(s.t.Context(), promptLater(chat, id, wait))
	s.must(err)
	return r.Life
}

func laterWaitsForItsTime(s *suite) {
	due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	life := s.publishLater("a", "1", time.Hour)
	s.publish("a", "2")
	if l := s.life(life); l.State != "deferred: "+corebot.DeferredToTime || !l.WakeAt.Equal(due) ||
		!l.DeliverAt.Equal(due) || l.Message == nil {
		s.t.Fatalf("the life says %+v", l)
	}
	s.settle(s.claim("2"), answered())
	waiting := s.claimLater(corebot.InboundPool, 1)
	time.Sleep(time.Until(due) - moment)
	if waiting.over() {
		s.t.Fatal("it came before its time")
	}
	time.Sleep(moment)
	d := s.now(waiting, "1")
	if d.Life != life || d.Attempt != 1 || d.Run != 1 || !d.PublishedAt.Equal(due) {
		s.t.Fatalf("it came as %+v", d)
	}
	s.settle(d, answered())
	if l := s.life(life); l.End != corebot.EndAnswered || !l.DeliverAt.Equal(due) || !l.PublishedAt.Before(due) {
		s.t.Fatalf("the life says %+v", l)
	}
	s.nothingReady()
}

func laterSurvives(s *suite) {
	life := s.publishLater("a", "1", time.Hour)
	s.reopen()
	s.nothingReady()
	time.Sleep(time.Hour)
	if d := s.claim("1"); d.Life != life {
		s.t.Fatalf("it came as %+v", d)
	}
}

func laterIsAPart(s *suite) {
	m := promptLater("a", "1", time.Hour)
	first, err := s.bus.Publish(s.t.Context(), m)
	s.must(err)
	before := s.census()
	again, err := s.bus.Publish(s.t.Context(), m)
	s.must(err)
	if !again.Duplicate || again.Life != first.Life {
		s.t.Fatalf("got %+v, want a duplicate of life %d", again, first.Life)
	}
	for _, other := range []corebot.Message{prompt("a", "1"), promptLater("a", "1", 2*time.Hour)} {
		_, err = s.bus.Publish(s.t.Context(), other)
		s.wantErr(err, corebot.ErrConflict)
	}
	s.unchanged(before)
	time.Sleep(time.Hour)
	s.settle(s.claim("1"), answered())
	if again, err = s.bus.Publish(s.t.Context(), m); err != nil || !again.Duplicate { // its time is over by now
		s.t.Fatalf("got %+v, %v", again, err)
	}
	s.nothingReady()
}

func laterIsBounded(s *suite) {
	o := s.opts
	o.Limits = corebot.Limits{LaneDepth: 2, TotalDepth: 3, TotalBytes: 1 << 20}
	s.reopenWith(o)
	s.publishLater("a", "1", time.Hour)
	s.publishLater("a", "2", time.Hour)
	_, err := s.bus.Publish(s.t.Context(), promptLater("a", "3", time.Hour))
	s.wantErr(err, corebot.ErrLaneFull)
	s.publish("a", "4") // such messages take no place in the lane
	_, err = s.bus.Publish(s.t.Context(), promptLater("b", "5", time.Hour))
	s.wantErr(err, corebot.ErrOverloaded)
	s.settle(s.claim("4"), answered())
	time.Sleep(time.Hour)
	s.settle(s.claim("1"), answered())
	s.settle(s.claim("2"), answered())
	s.publish("b", "6")
}

func laterCountsForItsSender(s *suite) {
	o := s.opts
	o.Limits = corebot.Limits{LaneDepth: 10, TotalDepth: 10, TotalBytes: 1 << 20, SenderDepth: 1}
	o.Turns = 1
	s.reopenWith(o)
	s.publishLater("a", "1", time.Hour)
	_, err := s.bus.Publish(s.t.Context(), prompt("b", "2"))
	s.wantErr(err, corebot.ErrSenderFull)
	time.Sleep(time.Hour)
	s.settle(s.claim("1"), answered())
	s.publish("b", "2")
}

func laterOfThePast(s *suite) {
	s.publishLater("a", "1", -time.Hour)
	if d := s.claim("1"); time.Since(d.PublishedAt) > time.Minute {
		s.t.Fatalf("it is as old as its time: %v", d.PublishedAt)
	}
}

func stopOfLater(s *suite) {
	life := s.publishLater("a", "1", time.Hour)
	head, _, err := s.Ledger.Head(s.t.Context(), prompt("a", "1").Key)
	s.must(err)
	if _, found := s.stop("stop", head); found {
		s.t.Fatal("a stop in a chat where nothing runs found something")
	}
	if l := s.life(life); l.End != "" {
		s.t.Fatalf("the life says %+v", l)
	}
	time.Sleep(time.Hour)
	if d := s.claim("1"); d.Stopped {
		s.t.Fatal("the stop has hit it after all")
	}
}

func laterOverBudget(s *suite) {
	s.publishLater("a", "1", time.Hour)
	time.Sleep(time.Hour)
	s.deferFirst(s.claim("1"), time.Hour)
	s.reopen()
	s.settle(s.claim("1"), answered())
}
