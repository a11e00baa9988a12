package bustest

import (
	"fmt"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
)

func wakeSpecs() []spec {
	return []spec{
		{"a waiting claim gets a message in the moment of its publishing", waitingGetsPublish},
		{"a waiting claim gets a reply that a turn enqueued", waitingGetsReply},
		{"a waiting claim gets the next message of a lane when its head is settled", waitingGetsNext},
		{"a waiting claim gets a retry and a wait exactly when they are due", waitingGetsDue},
		{"a waiting claim gets the nearer of two moments", waitingGetsNearer},
		{"a waiting claim gets a replayed dead letter at once", waitingGetsReplay},
		{"a claim that was cancelled while it waited leases nothing", cancelledLeasesNothing},
		{"of many waiting claims one gets the one message", oneOfManyGetsIt},
		{"waiting claims are served first come first served", firstComeFirstServed},
	}
}

// now checks that a waiting claim got this message without any time passing.
func (s *suite) now(p *pending, id string) corebot.Delivery {
	s.t.Helper()
	if !p.over() {
		s.t.Fatalf("nobody woke the claim for message %s", id)
	}
	s.must(p.err)
	if len(p.got) != 1 || p.got[0].Message.ID != id {
		s.t.Fatalf("got %+v, want message %s", p.got, id)
	}
	return p.got[0]
}

func waitingGetsPublish(s *suite) {
	p := s.claimLater(corebot.InboundPool, 1)
	_, err := s.bus.Publish(s.t.Context(), prompt("a", "1"))
	s.must(err)
	s.now(p, "1")
}

func waitingGetsReply(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	p := s.claimLater(corebot.OutboundPool("test"), 1)
	s.must(s.Ledger.Commit(s.t.Context(), d, turn(answered())))
	s.now(p, "1/1/0")
}

func waitingGetsNext(s *suite) {
	for i, o := range everyOutcome() {
		chat := fmt.Sprint(i)
		s.publish(chat, chat+"1")
		s.publish(chat, chat+"2")
		d := s.claim(chat + "1")
		p := s.claimLater(corebot.InboundPool, 1)
		o.At = time.Now()
		s.settle(d, o)
		switch o.Verb {
		case corebot.Done, corebot.Dead:
			s.now(p, chat+"2")
		case corebot.Defer: // it waits at the tail now
			s.settle(s.now(p, chat+"2"), answered())
			s.claim(chat + "1")
		default:
			s.settle(s.now(p, chat+"1"), answered())
			s.claim(chat + "2")
		}
	}
}

func waitingGetsDue(s *suite) {
	s.publish("a", "1")
	for _, o := range []func(time.Duration) corebot.Outcome{retryIn, waitFor} {
		s.settle(s.claim("1"), o(90*time.Minute))
		p := s.claimLater(corebot.InboundPool, 1)
		time.Sleep(90*time.Minute - moment)
		if p.over() {
			s.t.Fatal("the claim was served too early")
		}
		time.Sleep(moment)
		s.settle(s.now(p, "1"), retryIn(0))
	}
}

func waitingGetsNearer(s *suite) {
	s.publish("a", "1")
	s.publish("b", "2")
	d1, d2 := s.claim("1"), s.claim("2")
	p := s.claimLater(corebot.InboundPool, 1) // the claim knows when the lease expires
	s.settle(d1, retryIn(20*time.Second))
	s.settle(d2, retryIn(5*time.Second))
	time.Sleep(5 * time.Second)
	s.now(p, "2")
	p = s.claimLater(corebot.InboundPool, 1)
	time.Sleep(15 * time.Second)
	s.now(p, "1")
}

func waitingGetsReplay(s *suite) {
	life := s.publish("a", "1")
	s.settle(s.claim("1"), given("permanent"))
	p := s.claimLater(corebot.InboundPool, 1)
	s.must(s.DeadLetters.Replay(s.t.Context(), life, false))
	s.now(p, "1")
}

func cancelledLeasesNothing(s *suite) {
	for range 20 {
		p := s.claimLater(corebot.InboundPool, 5)
		p.cancel()
		if !p.over() || p.err == nil || len(p.got) > 0 {
			s.t.Fatalf("a cancelled claim returned %v, %v", p.got, p.err)
		}
	}
	s.publish("a", "1")
	if d := s.claim("1"); d.Epoch != 1 || d.Lost != 0 {
		s.t.Fatalf("somebody had claimed it before: %+v", d.Lease)
	}
}

func oneOfManyGetsIt(s *suite) {
	var waiting []*pending
	for range 16 {
		waiting = append(waiting, s.claimLater(corebot.InboundPool, 1))
	}
	for round := range 3 {
		_, err := s.bus.Publish(s.t.Context(), prompt(fmt.Sprint(round), "1"))
		s.must(err)
		synctest.Wait()
		served := 0
		for _, p := range waiting {
			if p.over() {
				served++
			}
		}
		if served != round+1 {
			s.t.Fatalf("%d claims were served, want %d", served, round+1)
		}
	}
	for _, p := range waiting {
		p.cancel()
	}
}

func firstComeFirstServed(s *suite) {
	first := s.claimLater(corebot.InboundPool, 1)
	second := s.claimLater(corebot.InboundPool, 1)
	s.publish("a", "1")
	s.now(first, "1")
	if second.over() {
		s.t.Fatal("both claims were served")
	}
	s.publish("b", "2")
	s.now(second, "2")
}

func nextSpecs() []spec {
	return []spec{
		{"the end of a claim gets the lane that is ready, in the same commit", endGetsReady},
		{"the end of a claim gets the next message of its own lane", endGetsOwnLane},
		{"the end of a claim gets as many lanes as it asks for", endGetsSeveral},
		{"the end of a claim waits for nothing", endWaitsForNothing},
		{"claims that wait come before the end of a claim", waitingComesFirst},
		{"an end that is refused claims nothing", refusedEndClaimsNothing},
		{"the end of a claim gives its turn back before the next is counted", endGivesTurnBack},
	}
}

// ends are the two ways to end a claim together with the next one.
func (s *suite) ends() map[string]func(corebot.Delivery, corebot.Claim) ([]corebot.Delivery, error) {
	return map[string]func(corebot.Delivery, corebot.Claim) ([]corebot.Delivery, error){
		"settle": func(d corebot.Delivery, next corebot.Claim) ([]corebot.Delivery, error) {
			return s.bus.SettleAndClaim(s.t.Context(), d, answered(), next)
		},
		"commit": func(d corebot.Delivery, next corebot.Claim) ([]corebot.Delivery, error) {
			return s.Ledger.CommitAndClaim(s.t.Context(), d, corebot.Result{Outcome: answered()}, next)
		},
	}
}

// endAndClaim ends a claim and expects these messages from the next.
func (s *suite) endAndClaim(d corebot.Delivery, n int, want ...string) []corebot.Delivery {
	s.t.Helper()
	return s.endAndClaimBy("settle", d, n, want...)
}

func (s *suite) endAndClaimBy(how string, d corebot.Delivery, n int, want ...string) []corebot.Delivery {
	s.t.Helper()
	got, err := s.ends()[how](d, s.bus.Next(corebot.InboundPool, n))
	s.must(err)
	if len(got) != len(want) {
		s.t.Fatalf("%s: got %v, want %v", how, ids(got), want)
	}
	for i, id := range want {
		if got[i].Message.ID != id {
			s.t.Fatalf("%s: got %v, want %v", how, ids(got), want)
		}
	}
	return got
}

func endGetsReady(s *suite) {
	for how := range s.ends() {
		s.publish(how, how+"1")
		s.publish("other "+how, how+"2")
		d := s.endAndClaimBy(how, s.claim(how+"1"), 1, how+"2")[0]
		if d.Epoch != 1 || d.Attempt != 1 || d.Message.Text() != "text of "+how+"2" {
			s.t.Errorf("%s: got %+v", how, d)
		}
		s.settle(d, answered())
		s.nothingReady()
	}
}

func endGetsOwnLane(s *suite) {
	for how := range s.ends() {
		s.publish(how, how+"1")
		s.publish(how, how+"2")
		s.publish(how, how+"3")
		d := s.endAndClaimBy(how, s.claim(how+"1"), 5, how+"2")[0]
		d = s.endAndClaimBy(how, d, 5, how+"3")[0]
		s.endAndClaimBy(how, d, 5)
	}
}

func endGetsSeveral(s *suite) {
	for _, chat := range []string{"a", "b", "c", "d"} {
		s.publish(chat, chat)
	}
	d := s.claim("a")
	s.endAndClaim(d, 2, "b", "c")
	s.claim("d")
}

func endWaitsForNothing(s *suite) {
	for how := range s.ends() {
		s.publish("a", how+"1")
		s.endAndClaimBy(how, s.claim(how+"1"), 1)
		s.publish("b "+how, how+"2")
		if d := s.claim(how + "2"); d.Epoch != 1 {
			s.t.Errorf("%s: somebody had claimed it before: %+v", how, d.Lease)
		}
	}
}

func waitingComesFirst(s *suite) {
	for how := range s.ends() {
		s.publish(how, how+"1")
		s.publish(how, how+"2")
		d := s.claim(how + "1")
		p := s.claimLater(corebot.InboundPool, 1)
		s.endAndClaimBy(how, d, 1)
		s.now(p, how+"2")
	}
}

func refusedEndClaimsNothing(s *suite) {
	for how, end := range s.ends() {
		s.publish(how, how+"1")
		old := s.claim(how + "1")
		time.Sleep(lease)
		d := s.claim(how + "1")
		s.publish("other "+how, how+"2")
		got, err := end(old, s.bus.Next(corebot.InboundPool, 1))
		s.wantErr(err, corebot.ErrLeaseLost)
		if len(got) > 0 {
			s.t.Errorf("%s: a stale worker got %v", how, ids(got))
		}
		other := s.claim(how + "2")
		if other.Epoch != 1 {
			s.t.Errorf("%s: the stale worker has claimed it: %+v", how, other.Lease)
		}
		s.settle(d, answered())
		s.settle(other, answered())
	}
}

func endGivesTurnBack(s *suite) {
	s.reopenWith(bus.Options{Lease: lease, Turns: 1})
	for how := range s.ends() {
		s.publish(how, how+"1")
		d := s.claim(how + "1")
		s.publish("other "+how, how+"2")
		s.nothingReady()
		d = s.endAndClaimBy(how, d, 1, how+"2")[0]
		s.settle(d, answered())
	}
}
