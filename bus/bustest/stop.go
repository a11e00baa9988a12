package bustest

import (
	"time"

	"github.com/corebot/corebot"
)

func stopSpecs() []spec {
	return []spec{
		{"a stop marks a head in backoff, which is claimed at once", stopInBackoff},
		{"a stop marks a head that runs and leaves its lease alone", stopWhileRunning},
		{"a stop ends one message and never the next", stopEndsOne},
		{"a stop is applied once, however often it comes", stopIsDeduped},
		{"a stop has its id in common with no prompt of its chat", stopAndPrompt},
		{"a stop with nothing to stop says so", stopFindsNothing},
		{"a stop meant for a message that has ended stops nothing", stopComesLate},
		{"a stop survives a restart", stopSurvivesRestart},
	}
}

func stopMessage(chat, id string) corebot.Message {
	m := prompt(chat, id)
	m.Direction, m.Kind, m.Parts = corebot.Control, corebot.KindControl, corebot.TextPart("/stop")
	return m
}

// stopNotice is the notice of a /stop.
func stopNotice(chat, id string, found bool) corebot.Message {
	m := reply(chat, id+"/notice")
	m.Kind = corebot.KindNotice
	if !found {
		m.Parts = corebot.TextPart("nothing to stop")
	}
	return m
}

// stopIn applies a /stop to the head of a chat and returns its result.
func (s *suite) stopIn(chat, id string, head int64) (duplicate, found bool) {
	s.t.Helper()
	stopped, err := s.Ledger.Stop(s.t.Context(), stopMessage(chat, id), head, corebot.AuditEvent{},
		func(found bool) corebot.Message { return stopNotice(chat, id, found) })
	s.must(err)
	return stopped.Duplicate, stopped.Found
}

func (s *suite) stop(id string, head int64) (duplicate, found bool) {
	s.t.Helper()
	return s.stopIn("a", id, head)
}

// stopFinds applies a /stop that must find its message.
func (s *suite) stopFinds(id string, head int64) {
	s.t.Helper()
	if duplicate, found := s.stop(id, head); duplicate || !found {
		s.t.Fatalf("the stop: duplicate %v, found %v", duplicate, found)
	}
}

func stopInBackoff(s *suite) {
	for i, o := range []corebot.Outcome{retryIn(time.Hour), waitFor(time.Hour)} {
		id := string(rune('1' + i))
		life := s.publish("a", id)
		s.settle(s.claim(id), o)
		waiting := s.claimLater(corebot.InboundPool, 1)
		s.stopFinds("stop"+id, life)
		d := s.now(waiting, id)
		if !d.Stopped {
			s.t.Fatal("the delivery does not say that it was stopped")
		}
		s.settle(d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped})
	}
	s.nothingReady()
}

func stopWhileRunning(s *suite) {
	life := s.publish("a", "1")
	d := s.claim("1")
	s.stopFinds("stop", life)
	s.nothingReady() // the worker still holds the lease
	s.record(d, 0)
	s.settle(d, retryIn(0))
	if d = s.claim("1"); !d.Stopped {
		s.t.Fatal("the stop was forgotten at the retry")
	}
}

func stopEndsOne(s *suite) {
	life := s.publish("a", "1")
	s.publish("a", "2")
	s.publish("b", "3")
	s.stopFinds("stop", life)
	d := s.claim("1")
	if !d.Stopped {
		s.t.Fatal("the head is not stopped")
	}
	s.settle(d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped})
	for _, d := range s.ready(corebot.InboundPool, 10) {
		if d.Stopped {
			s.t.Errorf("message %s is stopped too", d.Message.ID)
		}
	}
}

func stopIsDeduped(s *suite) {
	life := s.publish("a", "1")
	s.stopFinds("stop", life)
	s.settle(s.claim("1"), corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped})
	next := s.publish("a", "2")
	before := s.census()
	if duplicate, found := s.stop("stop", next); !duplicate || found {
		s.t.Fatalf("the stop again: duplicate %v, found %v", duplicate, found)
	}
	s.unchanged(before)
	if d := s.claim("2"); d.Stopped {
		s.t.Fatal("the stop was applied twice")
	}
	other := stopMessage("a", "stop")
	other.Sender.ID = "somebody else"
	_, err := s.Ledger.Stop(s.t.Context(), other, 0, corebot.AuditEvent{},
		func(bool) corebot.Message { return reply("a", "x") })
	s.wantErr(err, corebot.ErrConflict)
}

func stopAndPrompt(s *suite) {
	life := s.publish("a", "1")
	before := s.census()
	stop := func(m corebot.Message) (corebot.Stopped, error) {
		return s.Ledger.Stop(s.t.Context(), m, life, corebot.AuditEvent{},
			func(found bool) corebot.Message { return stopNotice(m.Key.Chat, m.ID, found) })
	}
	_, err := stop(stopMessage("a", "1"))
	s.wantErr(err, corebot.ErrConflict)
	// The same words: a version of Corebot for which they were no command has accepted them.
	again := prompt("a", "1")
	again.Direction, again.Kind = corebot.Control, corebot.KindControl
	if r, err := stop(again); err != nil || !r.Duplicate || r.Found || r.Life != life {
		s.t.Fatalf("the words of the prompt as a stop: %+v, %v, want a duplicate of life %d", r, err, life)
	}
	s.unchanged(before)

	s.stopFinds("2", life)
	before = s.census()
	_, err = s.bus.Publish(s.t.Context(), prompt("a", "2"))
	s.wantErr(err, corebot.ErrConflict)
	s.limited(corebot.Limits{LaneDepth: 1})
	_, err = s.bus.Publish(s.t.Context(), prompt("a", "2"))
	s.wantErr(err, corebot.ErrConflict)
	s.unchanged(before)
	s.limited(corebot.Limits{})
	s.publish("b", "2") // another chat
	d := s.claim("1")
	s.must(s.Ledger.Commit(s.t.Context(), d, corebot.Result{
		Outcome: answered(), Replies: []corebot.Message{reply("a", "2")}, // another direction
	}))
}

func stopFindsNothing(s *suite) {
	if duplicate, found := s.stop("stop", 0); duplicate || found {
		s.t.Fatalf("in an empty chat: duplicate %v, found %v", duplicate, found)
	}
	got := s.ready(corebot.OutboundPool("test"), 1)
	if len(got) != 1 || got[0].Message.Text() != "nothing to stop" {
		s.t.Fatalf("the chat was told %+v", got)
	}
}

func stopComesLate(s *suite) {
	life := s.publish("a", "1")
	s.settle(s.claim("1"), answered())
	s.publish("a", "2")
	if _, found := s.stop("stop", life); found {
		s.t.Fatal("a stop found a message that had ended")
	}
	if d := s.claim("2"); d.Stopped {
		s.t.Fatal("the stop hit the next message")
	}
}

func stopSurvivesRestart(s *suite) {
	life := s.publish("a", "1")
	s.claim("1")
	s.stopFinds("stop", life)
	s.reopen()
	if d := s.claim("1"); !d.Stopped {
		s.t.Fatal("the restart forgot the stop")
	}
}
