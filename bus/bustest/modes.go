package bustest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

func modeSpecs() []spec {
	return []spec{
		{"in mode steer a prompt steers the turn that runs, whoever sent it", promptSteers},
		{"in mode steer a chat command waits its turn", commandDoesNotSteer},
		{"in mode interrupt a prompt stops the turn of its sender and waits its turn", promptInterrupts},
		{"in mode interrupt nobody stops the turn of another", promptOfAnotherDoesNotInterrupt},
		{"in mode interrupt a prompt that waits is not stopped", nothingToInterrupt},
		{"an interrupt survives a restart", interruptSurvivesRestart},
		{"an interrupt ends a head that backs off", interruptInBackoff},
		{"in mode collect the prompts of one sender become one turn after a silence", promptsAreCollected},
		{"in mode collect messages of others, and commands, keep their places", othersAreNotCollected},
		{"in mode collect what comes while a turn runs is one turn after it", collectedBehindATurn},
		{"in mode collect whoever is never silent is heard all the same", collectingEnds},
		{"in mode collect a turn has a bounded number of messages", collectingIsBounded},
		{"in mode collect the rate of the chat holds too", collectedIsThrottled},
		{"a silence goes on after a restart", silenceSurvivesRestart},
		{"what was collected for a message that is stopped has turns of its own", collectedForAStopped},
		{"what an operator puts into a lane has no mode", editedLetterDoesNotInterrupt},
		{"a chat keeps its mode when its lane is new, and can have the default again", modeIsKept},
		{"a mode that does not exist is refused", unknownModeIsRefused},
		{"a flood of a sender's commands that find nothing to do is refused", controlsAreThrottled},
	}
}

// Debounce is the debounce time of a store under test.
const Debounce = 2 * time.Second

// ControlRate is the rate of control messages of a store under test. It is generous enough for random histories.
func ControlRate() corebot.Rate { return corebot.Rate{Every: time.Minute, Burst: 30} }

func (s *suite) mode(chat string, m corebot.QueueMode) {
	s.t.Helper()
	s.must(s.Modes.SetQueueMode(s.t.Context(), prompt(chat, "").Key, m))
}

// publishAs publishes a prompt of another sender than the usual one.
func (s *suite) publishAs(sender, chat, id string) corebot.Receipt {
	s.t.Helper()
	m := prompt(chat, id)
	m.Sender.ID = sender
	r, err := s.bus.Publish(s.t.Context(), m)
	s.must(err)
	time.Sleep(moment)
	return r
}

// publishCommand publishes a chat command.
func (s *suite) publishCommand(chat, id string) {
	s.t.Helper()
	m := prompt(chat, id)
	m.Kind = corebot.KindCommand
	_, err := s.bus.Publish(s.t.Context(), m)
	s.must(err)
	time.Sleep(moment)
}

// mergedIDs lists the ids of the messages that a delivery merges.
func (s *suite) mergedIDs(d corebot.Delivery) (ids []string) {
	s.t.Helper()
	steps, err := s.Ledger.Merge(s.t.Context(), d, len(d.Journal))
	s.must(err)
	for _, step := range steps {
		ids = append(ids, step.Merged.ID)
	}
	return ids
}

// answerWith claims the one message that must be due, with the messages that its turn merges, and answers it.
func (s *suite) answerWith(id string, others ...string) {
	s.t.Helper()
	d := s.claim(id)
	if got := s.mergedIDs(d); fmt.Sprint(got) != fmt.Sprint(others) {
		s.t.Fatalf("the turn of %s merged %v, want %v", id, got, others)
	}
	s.settle(d, answered())
}

func promptSteers(s *suite) {
	s.mode("a", corebot.ModeSteer)
	s.publish("a", "1")
	s.publish("a", "2") // nobody works yet
	d := s.claim("1")
	s.publishAs("another", "a", "3")
	if got := s.mergedIDs(d); fmt.Sprint(got) != "[3]" {
		s.t.Fatalf("the turn merged %v", got)
	}
	s.settle(d, answered())
	s.answerNext("2")
	s.publish("b", "1")
	s.claim("1")
	s.publish("b", "2") // whose mode is the default
	s.nothingReady()
}

func commandDoesNotSteer(s *suite) {
	s.mode("a", corebot.ModeSteer)
	s.publish("a", "1")
	d := s.claim("1")
	s.publishCommand("a", "new")
	s.merge(d, 0)
	s.settle(d, answered())
	d = s.claim("new")
	s.publish("a", "2") // a command merges nothing
	s.waits("3", d.Life)
	s.settle(d, answered())
	s.answerNext("2")
	s.answerNext("3")
}

func promptInterrupts(s *suite) {
	s.mode("a", corebot.ModeInterrupt)
	head := s.publish("a", "1")
	d := s.claim("1")
	if r := s.publishAs("someone", "a", "2"); r.Stops != head {
		s.t.Fatalf("the receipt is %+v, want the life %d stopped", r, head)
	}
	if r := s.publishAs("someone", "a", "3"); r.Stops != 0 {
		s.t.Fatalf("a turn was stopped twice: %+v", r)
	}
	s.nothingReady()
	s.settle(d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped})
	d = s.claim("2")
	if d.Stopped {
		s.t.Fatal("the newer prompt is stopped too")
	}
	s.settle(d, answered())
	s.answerNext("3")
}

func promptOfAnotherDoesNotInterrupt(s *suite) {
	s.mode("a", corebot.ModeInterrupt)
	s.publish("a", "1")
	d := s.claim("1")
	if r := s.publishAs("another", "a", "2"); r.Stops != 0 {
		s.t.Fatalf("the receipt is %+v", r)
	}
	s.settle(d, retryIn(0))
	if d = s.claim("1"); d.Stopped {
		s.t.Fatal("the turn of another was stopped")
	}
}

func nothingToInterrupt(s *suite) {
	s.mode("a", corebot.ModeInterrupt)
	s.publish("a", "1")
	s.publish("a", "2")
	for _, id := range []string{"1", "2"} {
		d := s.claim(id)
		if d.Stopped {
			s.t.Fatalf("message %s was stopped before anybody worked on it", id)
		}
		s.settle(d, answered())
	}
}

func interruptSurvivesRestart(s *suite) {
	s.mode("a", corebot.ModeInterrupt)
	s.publish("a", "1")
	s.claim("1")
	s.publish("a", "2")
	s.reopen()
	d := s.claim("1")
	if !d.Stopped || !d.Interrupted {
		s.t.Fatalf("stopped %v, interrupted %v", d.Stopped, d.Interrupted)
	}
	s.settle(d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped})
	s.answerNext("2")
	head := s.publish("a", "3")
	s.claim("3")
	s.stopFinds("stop", head)
	s.reopen()
	if d := s.claim("3"); !d.Stopped || d.Interrupted {
		s.t.Fatalf("a /stop: stopped %v, interrupted %v", d.Stopped, d.Interrupted)
	}
}

func interruptInBackoff(s *suite) {
	s.mode("a", corebot.ModeInterrupt)
	s.publish("a", "1")
	s.settle(s.claim("1"), retryIn(time.Hour))
	s.nothingReady()
	s.publish("a", "2")
	if d := s.claim("1"); !d.Stopped {
		s.t.Fatal("the head is not stopped")
	}
}

func promptsAreCollected(s *suite) {
	s.mode("a", corebot.ModeCollect)
	s.publish("a", "1")
	time.Sleep(Debounce / 2)
	s.publish("a", "2")
	second := s.life(s.publish("a", "3")).ID
	s.nothingReady()
	time.Sleep(Debounce - 10*moment)
	s.nothingReady()
	time.Sleep(10 * moment)
	d := s.claim("1")
	if !d.Merges {
		s.t.Fatal("the claim does not say that there is something to merge")
	}
	s.merge(d, 0, "2", "3")
	s.wantMergedInto(second, "1")
	s.settle(d, answered())
	s.nothingReady()
}

func othersAreNotCollected(s *suite) {
	s.mode("a", corebot.ModeCollect)
	s.publish("a", "1")
	s.publish("a", "2")
	s.publishAs("another", "a", "3")
	s.publish("a", "4")
	s.publishCommand("a", "new")
	s.publish("a", "5")
	s.publish("a", "6")
	time.Sleep(Debounce)
	s.answerWith("1", "2")
	s.answerWith("3")
	s.answerWith("4")
	s.answerWith("new")
	s.answerWith("5", "6")
	s.nothingReady()
}

func collectedBehindATurn(s *suite) {
	s.mode("a", corebot.ModeCollect)
	s.publish("a", "1")
	time.Sleep(Debounce)
	d := s.claim("1")
	s.publish("a", "2")
	s.publish("a", "3")
	s.merge(d, 0)
	time.Sleep(Debounce / 2)
	s.settle(d, answered())
	s.nothingReady() // the sender has not been silent for long enough
	time.Sleep(Debounce / 2)
	s.answerWith("2", "3")
	s.publish("a", "4")
	time.Sleep(Debounce)
	d = s.claim("4")
	s.publish("a", "5")
	time.Sleep(Debounce)
	s.settle(d, answered())
	s.answerWith("5") // at once
	s.publish("a", "6")
	time.Sleep(Debounce)
	d = s.claim("6")
	// the silence counts from the end of a long turn, also for messages that came late in it
	for range corebot.MaxDebounces + 1 {
		time.Sleep(Debounce)
		_, err := s.bus.Extend(s.t.Context(), []corebot.Lease{d.Lease})
		s.must(err)
	}
	s.publish("a", "7")
	s.settle(d, answered())
	s.nothingReady()
	s.publish("a", "8")
	time.Sleep(Debounce)
	s.answerWith("7", "8")
}

func collectingEnds(s *suite) {
	s.mode("a", corebot.ModeCollect)
	began := time.Now()
	for i := 0; ; i++ {
		s.publish("a", fmt.Sprint(i))
		if got := s.ready(corebot.InboundPool, 1); len(got) > 0 {
			break
		}
		if time.Since(began) > (corebot.MaxDebounces+1)*Debounce {
			s.t.Fatalf("a sender who is never silent is not heard after %v", time.Since(began))
		}
		time.Sleep(Debounce / 2)
	}
	if waited := time.Since(began); waited < (corebot.MaxDebounces-1)*Debounce {
		s.t.Fatalf("the turn began after %v", waited)
	}
}

func collectingIsBounded(s *suite) {
	s.mode("a", corebot.ModeCollect)
	for i := range corebot.MaxCollected + 1 {
		s.publish("a", fmt.Sprint(i))
	}
	time.Sleep(Debounce)
	d := s.claim("0")
	if n := len(s.mergedIDs(d)); n != corebot.MaxCollected-1 {
		s.t.Fatalf("the turn merged %d messages beside its own", n)
	}
	s.settle(d, answered())
	s.answerWith(fmt.Sprint(corebot.MaxCollected))
	s.mode("b", corebot.ModeCollect)
	s.publish("b", "small")
	big := prompt("b", "big")
	big.Parts = corebot.TextPart(strings.Repeat("x", corebot.MaxCollectedBytes))
	_, err := s.bus.Publish(s.t.Context(), big)
	s.must(err)
	time.Sleep(Debounce)
	s.answerWith("small")
	s.answerWith("big")
}

func editedLetterDoesNotInterrupt(s *suite) {
	s.mode("a", corebot.ModeInterrupt)
	life := s.dead("a", "1")
	s.publish("a", "2")
	d := s.claim("2")
	s.must(s.Administer.Edit(s.t.Context(), life, "edited", "another text"))
	s.settle(d, retryIn(0))
	if d = s.claim("2"); d.Stopped {
		s.t.Fatal("an operator's edit stopped the turn that runs")
	}
}

func collectedIsThrottled(s *suite) {
	s.throttled(1)
	s.mode("a", corebot.ModeCollect)
	s.publish("a", "1")
	time.Sleep(Debounce)
	s.answerWith("1")
	s.publish("a", "2")
	time.Sleep(Debounce)
	s.nothingReady()
	time.Sleep(every)
	s.answerWith("2")
}

func silenceSurvivesRestart(s *suite) {
	s.mode("a", corebot.ModeCollect)
	s.publish("a", "1")
	s.publish("a", "2")
	s.reopen()
	s.nothingReady()
	time.Sleep(Debounce)
	s.answerWith("1", "2")
}

func collectedForAStopped(s *suite) {
	s.mode("a", corebot.ModeCollect)
	head := s.publish("a", "1")
	s.publish("a", "2")
	s.stopFinds("stop", head)
	d := s.claim("1")
	if !d.Stopped {
		s.t.Fatal("the head is not stopped")
	}
	s.settle(d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped})
	time.Sleep(Debounce)
	s.answerWith("2")
}

func modeIsKept(s *suite) {
	s.mode("never seen", corebot.ModeSteer)
	s.publish("never seen", "1")
	d := s.claim("1")
	s.publish("never seen", "2")
	s.merge(d, 0, "2")
	s.mode("never seen", "")
	s.publish("never seen", "3")
	s.merge(d, 1)
	s.reopen()
	s.settle(s.claim("1"), answered())
	s.answerNext("3")
}

func unknownModeIsRefused(s *suite) {
	before := s.census()
	s.wantErr(s.Modes.SetQueueMode(s.t.Context(), prompt("a", "").Key, "whatever"), corebot.ErrInvalid)
	s.unchanged(before)
}

func controlsAreThrottled(s *suite) {
	said := func(bool) corebot.Message { return reply("a", "said") }
	for i := range ControlRate().Burst {
		if _, found := s.stop(fmt.Sprint("stop ", i), 0); found {
			s.t.Fatal("there was nothing to stop")
		}
		time.Sleep(moment)
	}
	before := s.census()
	_, err := s.Ledger.Stop(s.t.Context(), stopMessage("a", "one more"), 0, corebot.AuditEvent{}, said)
	s.wantErr(err, corebot.ErrCommandRate)
	soon := (*corebot.TooSoon)(nil)
	if !errors.As(err, &soon) || soon.After <= 0 || soon.After > ControlRate().Every {
		s.t.Fatalf("when the next is accepted: %v", err)
	}
	again := time.Now().Add(soon.After)
	s.unchanged(before)
	other := stopMessage("a", "of another sender")
	other.Sender.ID = "another"
	_, err = s.Ledger.Stop(s.t.Context(), other, 0, corebot.AuditEvent{}, said)
	s.must(err)
	if duplicate, _ := s.stop("stop 0", 0); !duplicate { // an accepted /stop stays accepted
		s.t.Fatal("a duplicate is no duplicate")
	}
	s.stopFinds("effective", s.publish("a", "1")) // nobody is kept from stopping
	if _, found := s.stopIn("b", "of another chat", 0); found {
		s.t.Fatal("there was nothing to stop")
	}
	time.Sleep(time.Until(again) - time.Millisecond)
	_, err = s.Ledger.Stop(s.t.Context(), stopMessage("a", "too early"), 0, corebot.AuditEvent{}, said)
	s.wantErr(err, corebot.ErrCommandRate)
	time.Sleep(time.Millisecond)
	if duplicate, _ := s.stop("later", 0); duplicate {
		s.t.Fatal("a new /stop is a duplicate")
	}
}
