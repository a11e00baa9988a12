package storage

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// stepped is a database whose wall clock a test can step, beside the virtual clock of its bubble.
type stepped struct {
	*DB
	t    *testing.T
	skew *atomic.Int64
}

func openStepped(t *testing.T, dir string, ahead time.Duration, o Options) *stepped {
	t.Helper()
	db, err := Open(t.Context(), dir, o)
	must(t, err)
	s := &stepped{db, t, new(atomic.Int64)}
	s.skew.Store(int64(ahead))
	db.clock = newClock(func() time.Duration { return time.Duration(s.skew.Load()) })
	return s
}

func newStepped(t *testing.T) *stepped {
	s := openStepped(t, seeded(t), 0, Options{Limits: corebot.Limits{Control: corebot.Rate{Every: time.Second}}})
	runTest(t, s.DB)
	return s
}

func (s *stepped) step(d time.Duration) { s.skew.Add(int64(d)) }

// wall is what a bus with the same clock says.
func (s *stepped) wall() time.Time { return time.Now().Add(time.Duration(s.skew.Load())) }

// claim gives the message that is claimed within a time, or "".
func (s *stepped) claim(patience time.Duration, opts corebot.ClaimOptions) corebot.Delivery {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	ds, err := NewQueue(s.DB).Claim(ctx, corebot.InboundPool, 1, opts)
	if errors.Is(err, context.DeadlineExceeded) {
		return corebot.Delivery{}
	}
	must(s.t, err)
	return ds[0]
}

var stepClaim = corebot.ClaimOptions{Lease: 30 * time.Second}

func (s *stepped) wantWithin(id string, patience time.Duration) corebot.Delivery {
	s.t.Helper()
	began := time.Now()
	d := s.claim(patience, stepClaim)
	if d.Message.ID != id {
		s.t.Fatalf("within %v, %q was claimed, want %q", patience, d.Message.ID, id)
	}
	s.t.Logf("%s after %v", id, time.Since(began))
	return d
}

func TestAClockThatIsSetBackHoldsUpNoMessage(t *testing.T) {
	for name, wait := range map[string]struct {
		prepare func(*stepped)
		within  time.Duration
	}{
		"that is ready": {func(s *stepped) {}, time.Second},
		"that backs off": {func(s *stepped) {
			must(s.t, NewQueue(s.DB).Settle(s.t.Context(), s.claim(time.Second, stepClaim),
				corebot.Outcome{Verb: corebot.RetryAt, At: s.wall().Add(5 * time.Second), Error: "x"}))
		}, 6 * time.Second},
		"that waits for something": {func(s *stepped) {
			must(s.t, NewQueue(s.DB).Settle(s.t.Context(), s.claim(time.Second, stepClaim),
				corebot.Outcome{Verb: corebot.Wait, At: s.wall().Add(20 * time.Second), Reason: "approval"}))
		}, 21 * time.Second},
		"that waits for its rate": {func(s *stepped) {
			opts := stepClaim
			opts.Rate = corebot.Rate{Every: 10 * time.Second}
			publishTest(s.t, s.DB, "a", "0")
			first := s.claim(time.Second, opts)
			must(s.t, NewQueue(s.DB).Settle(s.t.Context(), first, corebot.Outcome{
				Verb: corebot.Done,
				End:  corebot.EndAnswered,
			}))
		}, 11 * time.Second},
		"whose worker is gone": {func(s *stepped) { s.claim(time.Second, stepClaim) }, 31 * time.Second},
		"that is deferred": {func(s *stepped) {
			must(s.t, NewQueue(s.DB).Settle(s.t.Context(), s.claim(time.Second, stepClaim),
				corebot.Outcome{Verb: corebot.Defer, At: s.wall().Add(time.Minute), Reason: "budget"}))
		}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStepped(t)
				if name == "that waits for its rate" {
					wait.prepare(s)
					publishTest(t, s.DB, "a", "1")
				} else {
					publishTest(t, s.DB, "a", "1")
					wait.prepare(s)
				}
				s.step(-time.Hour)
				s.wantWithin("1", wait.within)
			})
		})
	}
}

func TestAClaimThatWaitsIsServedInTimeWhenTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStepped(t)
		publishTest(t, s.DB, "a", "1")
		must(t, NewQueue(s.DB).Settle(t.Context(), s.claim(time.Second, stepClaim),
			corebot.Outcome{Verb: corebot.RetryAt, At: s.wall().Add(5 * time.Minute), Error: "x"}))
		time.AfterFunc(time.Minute, func() { s.step(-24 * time.Hour) })
		s.wantWithin("1", 5*time.Minute+time.Second)
	})
}

func TestALaneKeepsItsPlaceWhenTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStepped(t)
		publishTest(t, s.DB, "a", "1")
		s.step(-time.Hour)
		time.Sleep(time.Second)
		publishTest(t, s.DB, "b", "2")
		s.wantWithin("1", time.Second)
	})
}

func TestACommandIsAnsweredAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStepped(t)
		ask := func(id string) error {
			m := testMessage("a", id)
			m.Direction, m.Kind = corebot.Control, corebot.KindControl
			notice := testMessage("a", id+"/status")
			notice.Direction, notice.Kind = corebot.Outbound, corebot.KindNotice
			_, err := NewLedger(s.DB).Answer(t.Context(), m, notice)
			return err
		}
		must(t, ask("1"))
		if err := ask("2"); !errors.Is(err, corebot.ErrCommandRate) {
			t.Fatalf("the rate does not hold: %v", err)
		}
		s.step(-time.Hour)
		time.Sleep(2 * time.Second)
		must(t, ask("3"))
	})
}

func TestAnApprovalExpiresInTimeWhenTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStepped(t)
		publishTest(t, s.DB, "a", "1")
		d := s.claim(time.Second, stepClaim)
		step := corebot.Step{
			Kind: corebot.StepTool, State: corebot.StepAwaiting,
			Call: &corebot.ToolCall{ID: "c", Tool: "x", Args: []byte(`{}`)},
		}
		asked := corebot.Approval{
			Bound:     corebot.Bound{Tool: "x", Args: []byte(`{}`)},
			ExpiresAt: s.wall().Add(15 * time.Minute),
		}
		stands, err := NewLedger(s.DB).Ask(t.Context(), d, step, []corebot.NewApproval{{Approval: asked}})
		must(t, err)
		must(t, NewQueue(s.DB).Settle(t.Context(), d, corebot.Outcome{
			Verb: corebot.Wait, At: stands.ExpiresAt,
			Reason: corebot.AwaitingApproval,
		}))
		s.step(-time.Hour)
		again := s.wantWithin("1", 15*time.Minute+time.Second)
		stands, err = NewLedger(s.DB).Ask(t.Context(), again, step, []corebot.NewApproval{{Approval: asked}})
		if err != nil || stands.State != corebot.ApprovalExpired {
			t.Errorf("it is %q: %v", stands.State, err)
		}
	})
}

// TestADetachedRequestExpiresInTimeWhenTheClockIsSetBack: nobody claims anything for it.
func TestADetachedRequestExpiresInTimeWhenTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStepped(t)
		publishTest(t, s.DB, "a", "1")
		d := s.claim(time.Second, stepClaim)
		step := corebot.Step{
			Kind: corebot.StepTool, State: corebot.StepAwaiting,
			Call: &corebot.ToolCall{ID: "c", Tool: "x", Args: []byte(`{}`)},
		}
		ask := corebot.NewApproval{Approval: corebot.Approval{
			Bound:     corebot.Bound{Tool: "x", Args: []byte(`{}`)},
			ExpiresAt: s.wall().Add(15 * time.Minute),
		}, AnswerAfter: time.Millisecond}
		for range 2 {
			_, err := NewLedger(s.DB).Ask(t.Context(), d, step, []corebot.NewApproval{ask})
			must(t, err)
			time.Sleep(time.Second)
		}
		must(t, NewQueue(s.DB).Settle(t.Context(), d, answeredWell))
		a, err := NewApprovals(s.DB).Approval(t.Context(), 1)
		if err != nil || !a.Detached() {
			t.Fatalf("it is %+v: %v", a, err)
		}
		s.step(-time.Hour)
		time.Sleep(15 * time.Minute)
		if a, err = NewApprovals(s.DB).Approval(t.Context(), 1); err != nil || a.State != corebot.ApprovalExpired {
			t.Errorf("it is %q: %v", a.State, err)
		}
	})
}

// A machine that was suspended wakes with its wall clock ahead of its monotonic one: the same as a step forward.
func TestAClockThatIsSetForwardTakesNoLeaseFromALiveWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStepped(t)
		publishTest(t, s.DB, "a", "1")
		d := s.claim(time.Second, stepClaim)
		time.Sleep(5 * time.Second)
		s.step(8 * time.Hour)
		if stolen := s.claim(20*time.Second, stepClaim); stolen.Life != 0 {
			t.Fatalf("message %s was claimed again", stolen.Message.ID)
		}
		lost, err := NewQueue(s.DB).Extend(t.Context(), []corebot.Lease{d.Lease}, s.wall().Add(30*time.Second))
		if err != nil || len(lost) > 0 {
			t.Fatalf("lost: %v %v", lost, err)
		}
		must(t, NewQueue(s.DB).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	})
}

func TestALeaseThatNobodyExtendsEndsAfterAStepForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStepped(t)
		publishTest(t, s.DB, "a", "1")
		s.claim(time.Second, stepClaim)
		s.step(8 * time.Hour)
		if d := s.wantWithin("1", 31*time.Second); d.Lost != 1 {
			t.Errorf("claimed with %d losses", d.Lost)
		}
	})
}

func TestAWaitThatASuspendedMachineSleptThroughIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStepped(t)
		publishTest(t, s.DB, "a", "1")
		must(t, NewQueue(s.DB).Settle(t.Context(), s.claim(time.Second, stepClaim),
			corebot.Outcome{Verb: corebot.RetryAt, At: s.wall().Add(time.Hour), Error: "x"}))
		time.AfterFunc(10*time.Second, func() { s.step(2 * time.Hour) })
		s.wantWithin("1", 10*time.Second+clockLook)
	})
}

func TestAClockThatIsSetBackBetweenTwoProcessesHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		limits := Options{Limits: corebot.Limits{Control: corebot.Rate{Every: time.Second}}}
		s := openStepped(t, dir, 24*time.Hour, limits)
		stop := runWriter(s.DB)
		publishTest(t, s.DB, "a", "1")
		must(t, NewQueue(s.DB).Settle(t.Context(), s.claim(time.Second, stepClaim),
			corebot.Outcome{Verb: corebot.RetryAt, At: s.wall().Add(5 * time.Second), Error: "x"}))
		stop()
		must(t, s.Close())

		s = openStepped(t, dir, 0, limits)
		runTest(t, s.DB)
		s.wantWithin("1", 6*time.Second)
	})
}

func TestASmallDifferenceOfTheClocksIsNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(nil)
		skew := time.Duration(0)
		c.skew = func() time.Duration { return skew }
		for range 100 {
			time.Sleep(time.Minute)
			skew += 30 * time.Millisecond // as NTP slews
			if d := c.look(); d != 0 {
				t.Fatalf("a step of %v", d)
			}
		}
		skew -= 3 * time.Second
		if d := c.look(); d != -3*time.Second {
			t.Errorf("a step of %v", d)
		}
	})
}

// oldReply is a reply in a mailbox that is an hour old: retention keeps it for ten days. It gives how many are left.
func oldReply(s *stepped, dir string) (left func() int) {
	must(s.t, NewMailbox(s.DB).Post(s.t.Context(), outboundTest("a", "1")))
	time.Sleep(time.Hour)
	return func() int { return count(s.t, dir, "mailbox") }
}

func TestAClockThatIsSetFarAheadIsDoubtedForADayBeforeAnythingIsDeletedByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		s := openStepped(t, dir, 0, Options{})
		stop := runWriter(s.DB)
		left := oldReply(s, dir)
		r := keeping(t, s.DB, RetentionOptions{Mailbox: 10 * day})
		s.step(365 * day)
		if err := r.Sweep(t.Context()); !errors.Is(err, errDoubt) || left() != 1 {
			t.Fatalf("%v; %d replies are left", err, left())
		}
		stop()
		must(t, s.Close())

		time.Sleep(365 * day) // what the clock said is the time now: a new process sees no gap
		s = openStepped(t, dir, 0, Options{})
		runTest(t, s.DB)
		r = keeping(t, s.DB, RetentionOptions{Mailbox: 10 * day})
		time.Sleep(doubt - time.Minute)
		if err := r.Sweep(t.Context()); !errors.Is(err, errDoubt) || left() != 1 {
			t.Fatalf("a minute before the end: %v; %d replies are left", err, left())
		}
		time.Sleep(2 * time.Minute)
		if err := r.Sweep(t.Context()); err != nil || left() != 0 {
			t.Errorf("after it: %v; %d replies are left", err, left())
		}
	})
}

func TestAClockThatIsSetRightAgainDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		s := openStepped(t, dir, 0, Options{})
		runTest(t, s.DB)
		left := oldReply(s, dir)
		r := keeping(t, s.DB, RetentionOptions{Mailbox: 10 * day})
		s.step(365 * day)
		if err := r.Sweep(t.Context()); !errors.Is(err, errDoubt) {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		s.step(-365 * day)
		publishTest(t, s.DB, "a", "1")
		time.Sleep(doubt) // the doubt has moved with the clock, and ends
		if err := r.Sweep(t.Context()); err != nil || left() != 1 {
			t.Errorf("%v; %d replies are left", err, left())
		}
		time.Sleep(9 * day)
		if err := r.Sweep(t.Context()); err != nil || left() != 0 {
			t.Errorf("in its time: %v; %d replies are left", err, left())
		}
	})
}

func TestAStepBetweenTwoProcessesIsDoubtedLikeALongRest(t *testing.T) {
	for name, c := range map[string]struct {
		gap  time.Duration
		want error
	}{"an hour": {time.Hour, nil}, "two days": {2 * day, errDoubt}} {
		synctest.Test(t, func(t *testing.T) {
			dir := seeded(t)
			s := openStepped(t, dir, 0, Options{})
			stop := runWriter(s.DB)
			left := oldReply(s, dir)
			stop()
			must(t, s.Close())
			time.Sleep(c.gap)
			s = openStepped(t, dir, 0, Options{})
			runTest(t, s.DB)
			err := keeping(t, s.DB, RetentionOptions{Mailbox: time.Minute}).Sweep(t.Context())
			if !errors.Is(err, c.want) || (left() == 0) != (c.want == nil) {
				t.Errorf("%s: %v; %d replies are left", name, err, left())
			}
		})
	}
}

// TestNothingIsDeletedWhileTheStoredTimesCannotFollow: the step is known, and could not be stored.
func TestNothingIsDeletedWhileTheStoredTimesCannotFollow(t *testing.T) {
	if err := undoubtedTx(&tx{stepped: farAhead}); !errors.Is(err, errDoubt) {
		t.Error(err)
	}
}

// TestAClockThatIsSetBackHoldsUpNoProgressNote: neither the note of the job itself nor those of its conversation.
func TestAClockThatIsSetBackHoldsUpNoProgressNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStepped(t)
		publishTest(t, s.DB, "a", "parent")
		long := corebot.ClaimOptions{Lease: 24 * time.Hour}
		d, ledger := s.claim(time.Second, long), NewLedger(s.DB)
		for i := range 2 {
			_, err := ledger.Wait(t.Context(), d, corebot.Step{
				Position: i, Kind: corebot.StepTool, State: corebot.StepWaiting,
				Call: &corebot.ToolCall{Tool: "agent.run"},
			}, corebot.Pending{
				Kind: corebot.WaitJob, State: corebot.WaitAwaited, Until: s.wall().Add(time.Hour),
				Job: &corebot.NewJob{Kind: corebot.JobRun, Background: true, Prompt: "look", Asks: d.Caller()},
			}, corebot.AuditEvent{Tool: "agent.run", Key: d.Message.Key})
			must(t, err)
		}
		children := []corebot.Delivery{s.claim(time.Second, long), s.claim(time.Second, long)}
		works := func(child corebot.Delivery, position int, want int64) {
			t.Helper()
			must(t, ledger.Record(t.Context(), child, corebot.Step{
				Position: position, Kind: corebot.StepModel, State: corebot.StepDone,
				Answer: &corebot.Answer{Calls: []corebot.ToolCall{{Tool: "fs.read", Args: []byte("{}")}}},
			}))
			var notes int64
			_, err := s.reader.one(t.Context(), sumOfNotes, []any{&notes})
			if must(t, err); notes != want {
				t.Errorf("there are %d notes, want %d", notes, want)
			}
		}
		works(children[0], 0, 0)
		time.Sleep(corebot.JobNoteEvery)
		works(children[0], 1, 1)
		works(children[1], 0, 1)
		s.step(-time.Hour)
		works(children[1], 1, 2) // the time of the other job's note is ahead
		works(children[0], 2, 2)
		time.Sleep(corebot.JobNoteEvery)
		works(children[0], 3, 3) // and so is that of its own
	})
}

var sumOfNotes = &query{`SELECT SUM(notes) FROM jobs`}
