package bustest

import (
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

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
