package bustest

import (
	"errors"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
)

func limitSpecs() []spec {
	return []spec{
		{"a full lane refuses, others do not", fullLaneRefuses},
		{"too many messages of one direction are refused, whatever the lane", totalDepthRefuses},
		{"too many bytes are refused", totalBytesRefuse},
		{"a duplicate over a limit is still a success", duplicateOverLimit},
		{"a settled message makes room, and so it is after a restart", settlingMakesRoom},
		{"a refusal leaves no trace", refusalLeavesNoTrace},
		{"replies of a turn are admitted over every limit", repliesAreAdmitted},
		{"one message over the size limit is refused", tooLargeIsRefused},
	}
}

// limited reopens the bus with limits.
func (s *suite) limited(l corebot.Limits) {
	s.t.Helper()
	o := s.opts
	o.Limits = l
	s.reopenWith(o)
}

// refused publishes a message that must fail with want and change nothing in the store.
func (s *suite) refused(chat, id string, want error) {
	s.t.Helper()
	before := s.census()
	_, err := s.bus.Publish(s.t.Context(), prompt(chat, id))
	s.wantErr(err, want)
	s.unchanged(before)
}

func fullLaneRefuses(s *suite) {
	s.limited(corebot.Limits{LaneDepth: 2})
	s.publish("a", "1")
	s.publish("a", "2")
	s.refused("a", "3", corebot.ErrLaneFull)
	s.publish("b", "3")
}

func totalDepthRefuses(s *suite) {
	s.limited(corebot.Limits{TotalDepth: 2})
	s.publish("a", "1")
	s.publish("b", "2")
	s.refused("a", "3", corebot.ErrOverloaded)
	s.refused("b", "3", corebot.ErrOverloaded)
	_, err := s.bus.Publish(s.t.Context(), reply("a", "3"))
	s.must(err) // the other direction has its own count
}

func totalBytesRefuse(s *suite) {
	s.publish("a", "1")
	size := int64(s.claim("1").Size)
	s.limited(corebot.Limits{TotalBytes: 2*size + 1})
	s.publish("a", "2")
	s.refused("b", "3", corebot.ErrOverloaded)
}

func duplicateOverLimit(s *suite) {
	s.limited(corebot.Limits{LaneDepth: 1, TotalDepth: 1, TotalBytes: 1_000})
	life := s.publish("a", "1")
	s.publishAgain("a", "1", life)
	conflict := prompt("a", "1")
	conflict.Parts = corebot.TextPart("another text")
	_, err := s.bus.Publish(s.t.Context(), conflict)
	s.wantErr(err, corebot.ErrConflict)
}

func settlingMakesRoom(s *suite) {
	s.limited(corebot.Limits{TotalDepth: 1})
	for i, o := range []corebot.Outcome{answered(), given("permanent")} {
		id := fmt.Sprint(i)
		s.publish("a", id)
		s.refused("b", "x", corebot.ErrOverloaded)
		s.reopen()
		s.refused("b", "x", corebot.ErrOverloaded)
		s.settle(s.claim(id), o)
	}
	for i := range 3 { // coming and going many times loses no count
		id := fmt.Sprint("again", i)
		s.publish("a", id)
		s.refused("b", "x", corebot.ErrOverloaded)
		s.settle(s.claim(id), answered())
	}
	s.publish("a", "sized")
	d := s.claim("sized")
	s.limited(corebot.Limits{TotalBytes: int64(d.Size) + 1}) // a limit of bytes that one message meets
	s.refused("b", "x", corebot.ErrOverloaded)
	s.settle(s.claim("sized"), retryIn(0))
	s.refused("b", "x", corebot.ErrOverloaded)
	s.settle(s.claim("sized"), given("permanent"))
	s.publish("b", "x")
}

func refusalLeavesNoTrace(s *suite) {
	s.limited(corebot.Limits{TotalDepth: 1})
	s.publish("a", "1")
	for i := range 10 {
		s.refused(fmt.Sprint("new chat ", i), "1", corebot.ErrOverloaded)
	}
}

func repliesAreAdmitted(s *suite) {
	s.limited(corebot.Limits{LaneDepth: 1, TotalDepth: 1, TotalBytes: 500})
	s.publish("a", "1")
	d := s.claim("1")
	s.must(s.Ledger.Commit(s.t.Context(), d, corebot.Result{
		Outcome: answered(), Replies: []corebot.Message{reply("a", "1/1/0"), reply("a", "1/1/1"), reply("a", "1/1/2")},
	}))
	if c := s.census(); c.Waiting != 3 {
		s.t.Fatalf("%d replies wait, want 3", c.Waiting)
	}
}

func tooLargeIsRefused(s *suite) {
	o := s.opts
	o.MaxBytes = 64
	s.reopenWith(o)
	m := prompt("a", "1")
	m.Parts = corebot.TextPart(fmt.Sprintf("%065d", 0))
	if _, err := s.bus.Publish(s.t.Context(), m); !errors.Is(err, corebot.ErrTooLarge) {
		s.t.Fatalf("got %v", err)
	}
	if _, err := bus.New(s.Queue, bus.Options{MaxBytes: -1}); !errors.Is(err, corebot.ErrInvalid) {
		s.t.Fatalf("a negative limit: %v", err)
	}
	s.publish("a", "1")
}
