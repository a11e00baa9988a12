package bustest

import (
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
)

func leaseSpecs() []spec {
	return []spec{
		{"a lease that is not extended is lost after exactly its time", leaseEnds},
		{"a lease that is extended goes on", extendedLeaseGoesOn},
		{"an expired lease that nobody took may still settle", expiredLeaseMaySettle},
		{"a new process has every lane ready at once", leasesAreVoidAtBoot},
		{"a new process leaves backoff and waits as they are", bootKeepsBackoff},
		{"a new process ends what waited for something of the old one", bootEndsNotNow},
		{"no wait outlasts a new process by more than an hour", bootCapsWaits},
		{"a head that loses its lease three times without a step is poison", lostLeasesArePoison},
		{"heads that lost their lease twice are claimed one after the other", suspectsRunAlone},
		{"nobody dies of another's poison", innocentsSurvivePoison},
		{"a suspect holds up nobody who is none", suspectHoldsUpNobody},
		{"a new step resets the count of lost leases", stepResetsLosses},
		{"a counted retry resets the count of lost leases", retryResetsLosses},
		{"a wait without a reason keeps the journal", waitKeepsJournal},
		{"a resumed claim brings the journal of its run", journalComesBack},
	}
}

func leaseEnds(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	if got := d.ExpiresAt.Sub(d.ClaimedAt); got != lease {
		s.t.Fatalf("the lease is for %v", got)
	}
	next := s.claimLater(corebot.InboundPool, 1)
	time.Sleep(lease - moment)
	if next.over() {
		s.t.Fatal("the lane was given away before its lease ended")
	}
	time.Sleep(moment)
	if !next.over() {
		s.t.Fatal("the lease has ended and the lane is not given away")
	}
	if got := next.got[0]; got.Message.ID != "1" || got.Attempt != 1 || got.Lost != 1 {
		s.t.Fatalf("got %+v", got)
	}
}

func extendedLeaseGoesOn(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	next := s.claimLater(corebot.InboundPool, 1)
	for range 5 {
		time.Sleep(lease - moment)
		lost, err := s.bus.Extend(s.t.Context(), []corebot.Lease{d.Lease})
		s.must(err)
		if len(lost) > 0 || next.over() {
			s.t.Fatal("a lease that was extended in time is lost")
		}
	}
	time.Sleep(lease)
	if !next.over() {
		s.t.Fatal("the extended lease never ends")
	}
}

func expiredLeaseMaySettle(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	time.Sleep(2 * lease)
	lost, err := s.bus.Extend(s.t.Context(), []corebot.Lease{d.Lease})
	s.must(err)
	if len(lost) > 0 {
		s.t.Fatal("a lease that nobody took is called lost")
	}
	s.nothingReady()
	time.Sleep(2 * lease)
	s.settle(d, answered())
}

func leasesAreVoidAtBoot(s *suite) {
	for i := range 5 {
		s.publish(fmt.Sprint(i), fmt.Sprint(i))
	}
	s.ready(corebot.InboundPool, 5)
	s.nothingReady()
	s.reopen()
	got := s.ready(corebot.InboundPool, 10)
	if len(got) != 5 {
		s.t.Fatalf("%d lanes are ready after the restart, want 5", len(got))
	}
	for _, d := range got {
		if d.Attempt != 1 || d.Lost != 1 {
			s.t.Errorf("message %s has attempt %d, lost %d", d.Message.ID, d.Attempt, d.Lost)
		}
	}
}

func bootKeepsBackoff(s *suite) {
	s.publish("a", "1")
	s.settle(s.claim("1"), retryIn(time.Minute))
	s.reopen()
	s.nothingReady()
	next := s.claimLater(corebot.InboundPool, 1)
	time.Sleep(time.Minute - moment)
	if next.over() {
		s.t.Fatal("the restart cut the backoff short")
	}
	time.Sleep(moment)
	if !next.over() || next.got[0].Attempt != 2 || next.got[0].Lost != 0 {
		s.t.Fatalf("got %+v", next.got)
	}
}

func bootEndsNotNow(s *suite) {
	s.publish("a", "1")
	s.publish("b", "2")
	d1, d2 := s.claim("1"), s.claim("2")
	s.settle(d1, corebot.Outcome{Verb: corebot.Wait, At: time.Now().Add(30 * time.Minute), Reason: corebot.NotNow})
	s.settle(d2, waitFor(30*time.Minute))
	s.nothingReady()
	s.reopen()
	if d := s.claim("1"); d.Attempt != 1 || d.Lost != 0 {
		s.t.Fatalf("got %+v", d)
	}
	s.nothingReady()
}

// A moment that a clock far ahead has written must not hold a chat for as long.
func bootCapsWaits(s *suite) {
	s.publish("a", "1")
	s.settle(s.claim("1"), retryIn(1000*time.Hour))
	s.reopen()
	next := s.claimLater(corebot.InboundPool, 1)
	time.Sleep(time.Hour - moment)
	if next.over() {
		s.t.Fatal("the restart cut a backoff shorter than an hour")
	}
	time.Sleep(moment)
	s.now(next, "1")
}

func lostLeasesArePoison(s *suite) {
	s.publish("a", "1")
	s.publish("a", "2")
	d := s.claim("1")
	for range 3 {
		if _, unfit := s.bus.Unfit(d); unfit {
			s.t.Fatalf("unfit after %d losses", d.Lost)
		}
		s.reopen()
		d = s.claim("1")
	}
	o, unfit := s.bus.Unfit(d)
	if !unfit || o.Verb != corebot.Dead || o.Reason != bus.ReasonPoison {
		s.t.Fatalf("after %d losses: %+v", d.Lost, o)
	}
	s.settle(d, o)
	if next := s.claim("2"); next.Lost != 0 {
		s.t.Fatalf("the next message inherits %d losses", next.Lost)
	}
}

// suspects makes heads that lost their leases twice, in the chats "0" to n-1.
func (s *suite) suspects(n int) {
	s.t.Helper()
	for i := range n {
		s.publish(fmt.Sprint("chat ", i), fmt.Sprint(i))
	}
	for range 2 {
		if got := s.ready(corebot.InboundPool, n+1); len(got) != n {
			s.t.Fatalf("claimed %d of %d", len(got), n)
		}
		s.reopen()
	}
}

// alone claims the one suspect that can be claimed now.
func (s *suite) alone() corebot.Delivery {
	s.t.Helper()
	got := s.ready(corebot.InboundPool, 9)
	if len(got) != 1 || got[0].Lost != 2 {
		s.t.Fatalf("claimed %+v", got)
	}
	return got[0]
}

func suspectsRunAlone(s *suite) {
	const n = 4
	s.suspects(n)
	seen := map[string]bool{}
	for range n {
		d := s.alone()
		seen[d.Message.ID] = true
		time.Sleep(5 * time.Second) // the suspect is at work; the other heads are claimed meanwhile
		s.nothingReady()
		s.settle(d, answered())
		time.Sleep(time.Second)
	}
	s.nothingReady()
	if len(seen) != n {
		s.t.Fatalf("seen %v", seen)
	}
}

func innocentsSurvivePoison(s *suite) {
	s.suspects(4)
	poison := s.alone().Message.ID
	s.reopen() // the message kills its worker again
	time.Sleep(time.Second)
	alive, dead := 0, ""
	for range 4 {
		for _, d := range s.ready(corebot.InboundPool, 9) {
			if o, unfit := s.bus.Unfit(d); unfit {
				dead += d.Message.ID
				s.settle(d, o)
				continue
			}
			alive++
			s.settle(d, answered())
		}
		time.Sleep(time.Second)
	}
	if alive != 3 || dead != poison {
		s.t.Fatalf("%d were answered, and %q died for %q", alive, dead, poison)
	}
}

func suspectHoldsUpNobody(s *suite) {
	s.suspects(2)
	s.alone()
	s.publish("another", "new")
	s.claim("new")
}

func stepResetsLosses(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	for position := range 3 {
		for lost := 1; lost <= 2; lost++ {
			time.Sleep(lease)
			d = s.claim("1")
			if d.Lost != lost || len(d.Journal) != position {
				s.t.Fatalf("at position %d: lost %d, journal %d; want %d losses", position, d.Lost, len(d.Journal),
					lost)
			}
		}
		s.record(d, position)
	}
	// A step that goes from intended to done is progress as well.
	intent := step(3)
	intent.State, intent.Result = corebot.StepIntended, nil
	s.must(s.Ledger.Record(s.t.Context(), d, intent))
	time.Sleep(lease)
	d = s.claim("1")
	s.record(d, 3)
	time.Sleep(lease)
	if d = s.claim("1"); d.Lost != 1 {
		s.t.Fatalf("lost %d after a step was finished, want 1", d.Lost)
	}
}

func retryResetsLosses(s *suite) {
	s.publish("a", "1")
	s.claim("1")
	time.Sleep(lease)
	s.settle(s.claim("1"), retryIn(0))
	if d := s.claim("1"); d.Lost != 0 || d.Attempt != 2 {
		s.t.Fatalf("lost %d, attempt %d", d.Lost, d.Attempt)
	}
}

func waitKeepsJournal(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	s.record(d, 0)
	s.settle(d, corebot.Outcome{Verb: corebot.Wait, At: time.Now()})
	if d = s.claim("1"); len(d.Journal) != 1 {
		s.t.Fatalf("the journal has %d steps", len(d.Journal))
	}
}

func journalComesBack(s *suite) {
	life := s.publish("a", "1")
	s.record(s.claim("1"), 0)
	for i, again := range []func(d corebot.Delivery){
		func(corebot.Delivery) { time.Sleep(lease) },
		func(corebot.Delivery) { s.reopen() },
		func(d corebot.Delivery) { s.settle(d, retryIn(0)) },
		func(d corebot.Delivery) { s.settle(d, waitFor(0)) },
		func(d corebot.Delivery) { s.reopen(); s.settle(s.claim("1"), retryIn(0)) },
	} {
		if i == 0 {
			time.Sleep(lease)
		}
		d := s.claim("1")
		if len(d.Journal) != 1 || d.Journal[0].Call == nil || d.Journal[0].Result.Content != "a file" {
			s.t.Fatalf("claim %d has the journal %+v", i, d.Journal)
		}
		again(d)
	}
	if d := s.claim("1"); len(d.Journal) != 1 {
		s.t.Fatal("the journal is lost")
	}
	if got := s.life(life); got.State != "running" || len(got.Steps) != 1 || len(got.AttemptLog) == 0 {
		s.t.Fatalf("the life says %+v", got)
	}
}
