package bustest

import (
	"errors"
	"fmt"
	"time"

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

func rateSpecs() []spec {
	return []spec{
		{"a lane gives out its messages no faster than its rate", laneIsThrottled},
		{"after a pause a burst goes out at once", burstAfterAPause},
		{"a rate delays and never refuses", rateNeverRefuses},
		{"a throttled lane delays no other", throttledLaneDelaysNoOther},
		{"a waiting claim is served when the rate allows", waitingClaimIsServedInTime},
		{"a restart does not reset the rate", restartKeepsTheRate},
		{"a message that is tried again is not counted again", retryIsNotThrottled},
		{"a lost lease is claimed again at once", lostLeaseIsNotThrottled},
		{"outbound lanes have no rate", outboundIsNotThrottled},
		{"a clock that was ahead holds a lane for an hour at most", rateSurvivesAClockAhead},
	}
}

const every = time.Minute

// throttled reopens the bus with a rate of one message in a minute, and the given burst.
func (s *suite) throttled(burst int) {
	s.t.Helper()
	o := s.opts
	o.Rate = corebot.Rate{Every: every, Burst: burst}
	s.reopenWith(o)
}

// answerNext claims the one message that must be due and settles it.
func (s *suite) answerNext(id string) {
	s.t.Helper()
	s.settle(s.claim(id), answered())
}

func laneIsThrottled(s *suite) {
	s.throttled(1)
	for i := range 3 {
		s.publish("a", fmt.Sprint(i))
	}
	for i := range 3 {
		s.answerNext(fmt.Sprint(i))
		time.Sleep(every - 10*moment)
		s.nothingReady()
		time.Sleep(10 * moment)
	}
	s.publish("a", "at once") // the lane has been free since
	s.answerNext("at once")
	s.publish("a", "later") // into an empty lane that is not free
	s.nothingReady()
	time.Sleep(every)
	s.claim("later")
}

func burstAfterAPause(s *suite) {
	s.throttled(3)
	for i := range 5 {
		s.publish("a", fmt.Sprint(i))
	}
	for i := range 3 {
		s.answerNext(fmt.Sprint(i))
	}
	s.nothingReady()
	time.Sleep(every)
	s.answerNext("3")
	s.nothingReady()
	time.Sleep(every)
	s.answerNext("4")
	time.Sleep(10 * every) // at most three are saved up
	for i := 5; i < 9; i++ {
		s.publish("a", fmt.Sprint(i))
	}
	for i := 5; i < 8; i++ {
		s.answerNext(fmt.Sprint(i))
	}
	s.nothingReady()
}

func rateNeverRefuses(s *suite) {
	s.throttled(1)
	for i := range 100 {
		s.publish("a", fmt.Sprint(i))
	}
}

func throttledLaneDelaysNoOther(s *suite) {
	s.throttled(1)
	s.publish("a", "1")
	s.publish("a", "2")
	s.answerNext("1")
	s.publish("b", "3")
	s.answerNext("3")
	s.nothingReady()
}

func waitingClaimIsServedInTime(s *suite) {
	s.throttled(1)
	s.publish("a", "1")
	s.publish("a", "2")
	s.answerNext("1")
	p := s.claimLater(corebot.InboundPool, 1)
	time.Sleep(every - 10*moment)
	if p.over() {
		s.t.Fatal("the claim was served before its time")
	}
	time.Sleep(10 * moment)
	if !p.over() || len(p.got) != 1 || p.got[0].Message.ID != "2" {
		s.t.Fatalf("got %+v, %v", p.got, p.err)
	}
}

func restartKeepsTheRate(s *suite) {
	s.throttled(1)
	s.publish("a", "1")
	s.publish("a", "2")
	s.publish("b", "3")
	s.answerNext("1")
	s.answerNext("3")
	s.reopen()
	s.publish("b", "4") // into the empty lane
	s.nothingReady()
	time.Sleep(every)
	s.claim("2")
	s.claim("4")
}

func retryIsNotThrottled(s *suite) {
	s.throttled(1)
	s.publish("a", "1")
	s.publish("a", "2")
	began := time.Now()
	d := s.claim("1")
	s.settle(d, retryIn(time.Second))
	time.Sleep(time.Second)
	d = s.claim("1")
	s.settle(d, s.bus.Verdict(d, errors.New("still")))
	time.Sleep(5 * time.Second) // until after its backoff
	s.answerNext("1")
	s.nothingReady()
	time.Sleep(time.Until(began.Add(every)))
	s.claim("2")
}

func lostLeaseIsNotThrottled(s *suite) {
	s.throttled(1)
	s.publish("a", "1")
	s.claim("1")
	s.reopen()
	s.claim("1")
	time.Sleep(lease)
	s.claim("1")
}

func outboundIsNotThrottled(s *suite) {
	s.throttled(1)
	for i := range 3 {
		_, err := s.bus.Publish(s.t.Context(), reply("a", fmt.Sprint(i)))
		s.must(err)
	}
	for i := range 3 {
		got := s.ready(corebot.OutboundPool("test"), 1)
		if len(got) != 1 || got[0].Message.ID != fmt.Sprint(i) {
			s.t.Fatalf("got %+v, want reply %d", got, i)
		}
		s.settle(got[0], corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent})
	}
}

func rateSurvivesAClockAhead(s *suite) {
	o := s.opts
	o.Rate = corebot.Rate{Every: 1000 * time.Hour, Burst: 1} // as if the clock had shown next month an hour ago
	s.reopenWith(o)
	s.publish("a", "1")
	s.publish("a", "2")
	s.answerNext("1")
	s.reopen()
	time.Sleep(time.Hour)
	s.claim("2")
}
