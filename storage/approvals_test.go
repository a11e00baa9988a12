package storage

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// askTest publishes and claims a message, and has a call of its turn ask for an approval that expires in a minute.
func askTest(t testing.TB, db *DB, id string) (corebot.Delivery, corebot.Approval) {
	t.Helper()
	publishTest(t, db, "a", id)
	d := claimTest(t, db)
	a, err := askAgain(t, db, d)
	must(t, err)
	return d, a
}

func askAgain(t testing.TB, db *DB, d corebot.Delivery) (corebot.Approval, error) {
	t.Helper()
	call := corebot.ToolCall{ID: "c", Tool: "shell.exec", Args: []byte(`{"argv":["id"]}`)}
	b, err := corebot.NewBound(call, "chats/a/files", []corebot.NamedFile{{Path: "chats/a/files/x", Content: corebot.NoFile}})
	must(t, err)
	step := corebot.Step{Kind: corebot.StepTool, State: corebot.StepAwaiting, Call: &call, StartedAt: time.Now()}
	event := corebot.AuditEvent{Event: "approval.request", Tool: call.Tool, Key: d.Message.Key, Principal: d.Message.Sender, Outcome: corebot.OutcomeSuccess}
	asked, err := NewLedger(db).Ask(t.Context(), d, step, []corebot.Ask{{
		Approval: corebot.Approval{Bound: b, Rule: "approval-tainted", Taint: "a page", ExpiresAt: time.Now().Add(time.Minute)}, Event: event,
	}})
	return asked.Approval, err
}

func waitTest(t testing.TB, db *DB, d corebot.Delivery, a corebot.Approval) {
	t.Helper()
	must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: corebot.Outcome{Verb: corebot.Wait, At: a.ExpiresAt, Reason: corebot.AwaitingApproval}}))
}

// claimNow claims what is due at this moment.
func claimNow(t testing.TB, db *DB) (d corebot.Delivery, found bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	ds, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 1, corebot.Terms{Lease: time.Hour})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if len(ds) == 0 {
		return d, false
	}
	return ds[0], true
}

// afterwards runs a test in virtual time on a database that is closed within the bubble.
func afterwards(t *testing.T, test func(t *testing.T, db *DB)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, openTest(t, t.TempDir())) })
}

func TestAnApprovalIsStoredWithItsStepAndGivenAsItStands(t *testing.T) {
	afterwards(t, func(t *testing.T, db *DB) {
		d, a := askTest(t, db, "1")
		if a.ID != 1 || a.State != corebot.ApprovalAwaited || a.MessageID != "1" || a.Key != d.Message.Key || a.Principal != d.Message.Sender {
			t.Errorf("it is %+v", a)
		}
		again, err := askAgain(t, db, d)
		if err != nil || again.ID != a.ID || again.Bound.Drift(a.Bound) != "" {
			t.Errorf("asked again it is %+v, %v", again, err)
		}
		steps := lifeOf(t, db, d.Life).Steps
		if len(steps) != 1 || steps[0].State != corebot.StepAwaiting || steps[0].Call.Tool != "shell.exec" {
			t.Errorf("the journal is %+v", steps)
		}
		if got := notes(t, db); len(got) != 1 || got[0].Event != "approval.request" {
			t.Errorf("the audit is %+v", got)
		}
	})
}

func TestAnApprovalThatWasChangedInTheDatabaseIsNone(t *testing.T) {
	for _, change := range []string{"args = '{}'", "dir = ''", "files = ''", "files = 'x'", "tool = 'fs.read'"} {
		afterwards(t, func(t *testing.T, db *DB) {
			d, a := askTest(t, db, "1")
			must(t, NewApprovals(db).Resolve(t.Context(), a.ID, corebot.ApprovalApproved))
			must(t, db.write(t.Context(), "test", func(t *tx) error {
				_, err := t.exec(&query{"UPDATE approvals SET " + change})
				return err
			}))
			if a, err := askAgain(t, db, d); err == nil {
				t.Errorf("%s: it is %+v", change, a)
			}
		})
	}
}

func TestAWorkerThatLostItsLeaseAsksForNothing(t *testing.T) {
	afterwards(t, func(t *testing.T, db *DB) {
		publishTest(t, db, "a", "1")
		d := claimTest(t, db)
		d.Epoch--
		if _, err := askAgain(t, db, d); !errors.Is(err, corebot.ErrLeaseLost) {
			t.Errorf("it asked: %v", err)
		}
		if waiting, err := NewApprovals(db).Awaited(t.Context(), 10); err != nil || len(waiting) != 0 {
			t.Errorf("%+v waits, %v", waiting, err)
		}
	})
}

func TestAWordWakesTheLaneAtOnceAlsoOneThatComesBeforeItWaits(t *testing.T) {
	for name, early := range map[string]bool{"while it waits": false, "before it waits": true} {
		t.Run(name, func(t *testing.T) {
			afterwards(t, func(t *testing.T, db *DB) {
				d, a := askTest(t, db, "1")
				approve := func() { must(t, NewApprovals(db).Resolve(t.Context(), a.ID, corebot.ApprovalApproved)) }
				if early {
					approve()
				}
				waitTest(t, db, d, a)
				if !early {
					if _, found := claimNow(t, db); found {
						t.Fatal("it did not wait")
					}
					approve()
				}
				d, found := claimNow(t, db)
				if !found || d.Attempt != 1 || len(d.Journal) != 1 || d.Journal[0].State != corebot.StepAwaiting {
					t.Fatalf("claimed %v: %+v", found, d)
				}
				if a, err := askAgain(t, db, d); err != nil || a.State != corebot.ApprovalApproved || a.By != "operator" {
					t.Errorf("it is %+v, %v", a, err)
				}
			})
		})
	}
}

func TestAnApprovalExpiresWhenItsTimeIsOverAndNotBefore(t *testing.T) {
	afterwards(t, func(t *testing.T, db *DB) {
		d, a := askTest(t, db, "1")
		waitTest(t, db, d, a)
		time.Sleep(time.Minute - 2*time.Millisecond)
		if _, found := claimNow(t, db); found {
			t.Fatal("it was claimed too early")
		}
		time.Sleep(time.Millisecond)
		again := (*corebot.Resolved)(nil)
		if err := NewApprovals(db).Resolve(t.Context(), a.ID, corebot.ApprovalApproved); !errors.As(err, &again) || again.Approval.State != corebot.ApprovalExpired {
			t.Errorf("approved when its time was over: %v", err)
		}
		d, found := claimNow(t, db)
		if !found {
			t.Fatal("its lane does not wake")
		}
		if a, err := askAgain(t, db, d); err != nil || a.State != corebot.ApprovalExpired {
			t.Errorf("it is %+v, %v", a, err)
		}
		if got := notes(t, db); len(got) != 2 || got[1].Event != "approval.expire" {
			t.Errorf("the audit is %+v", got)
		}
	})
}

func TestAMessageThatEndsWithoutAnAnswerLeavesNoCallWaiting(t *testing.T) {
	for name, o := range map[string]corebot.Outcome{
		"dead": {Verb: corebot.Dead, Reason: "poison"}, "refused": {Verb: corebot.Done, End: corebot.EndRefused}, "stopped": {Verb: corebot.Done, End: corebot.EndStopped},
	} {
		t.Run(name, func(t *testing.T) {
			afterwards(t, func(t *testing.T, db *DB) {
				d, a := askTest(t, db, "1")
				must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: o}))
				got, err := NewApprovals(db).Approval(t.Context(), a.ID)
				if err != nil || got.State != corebot.ApprovalDenied || got.By != "corebot" {
					t.Errorf("it is %+v, %v", got, err)
				}
			})
		})
	}
}

func TestADeadLetterThatIsReplayedAsksAnew(t *testing.T) {
	afterwards(t, func(t *testing.T, db *DB) {
		d, a := askTest(t, db, "1")
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: corebot.Outcome{Verb: corebot.Dead, Reason: "poison"}}))
		must(t, NewDeadLetters(db).Replay(t.Context(), d.Life, false))
		d = claimTest(t, db)
		if b, err := askAgain(t, db, d); err != nil || b.ID == a.ID || b.State != corebot.ApprovalAwaited {
			t.Errorf("it is %+v, %v", b, err)
		}
	})
}

func TestACommandThatComesTwiceResolvesOnce(t *testing.T) {
	afterwards(t, func(t *testing.T, db *DB) {
		d, a := askTest(t, db, "1")
		waitTest(t, db, d, a)
		m := testMessage("a", "yes")
		m.Direction, m.Kind = corebot.Control, corebot.KindControl
		by := corebot.AuditEvent{Tool: "/approve", Key: m.Key, Principal: m.Sender, Entry: "command"}
		notice := func(error) corebot.Message {
			return corebot.Message{ID: "told", Direction: corebot.Outbound, Key: m.Key, Kind: corebot.KindNotice, Parts: corebot.TextPart("so be it")}
		}
		for n := range 2 {
			r, err := NewApprovals(db).Decide(t.Context(), m, a.ID, corebot.ApprovalApproved, by, notice)
			if err != nil || r.Duplicate != (n == 1) {
				t.Fatalf("time %d: %+v, %v", n, r, err)
			}
		}
		if got := notes(t, db); len(got) != 2 || got[1].Event != "approval.approve" || got[1].Principal.ID != "someone" {
			t.Errorf("the audit is %+v", got)
		}
		healthy(t, db)
	})
}

func TestApprovalsGoWithTheLivesOfTheirMessages(t *testing.T) {
	afterwards(t, func(t *testing.T, db *DB) {
		d, a := askTest(t, db, "1")
		must(t, NewApprovals(db).Resolve(t.Context(), a.ID, corebot.ApprovalDenied))
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}}))
		_, waits := askTest(t, db, "2")
		time.Sleep(2 * day)
		must(t, keeping(t, db, RetentionOptions{Messages: day}).Sweep(t.Context()))
		var rows, left int64
		if _, err := db.reader.one(t.Context(), &query{`SELECT COUNT(*), MAX(id) FROM approvals`}, []any{&rows, &left}); err != nil || rows != 1 || left != waits.ID {
			t.Errorf("%d are left, the newest %d: %v; want that of the message that waits", rows, left, err)
		}
	})
}

// askThree asks for three calls of one answer, the first of which is at a position.
func askThree(t *testing.T, db *DB, d corebot.Delivery, position int) (corebot.Asked, error) {
	t.Helper()
	var asks []corebot.Ask
	for i, tool := range []string{"a.one", "b.two", "c.three"} {
		b, err := corebot.NewBound(corebot.ToolCall{Tool: tool, Args: []byte("{}")}, "", nil)
		must(t, err)
		asks = append(asks, corebot.Ask{
			Approval: corebot.Approval{Bound: b, Position: position + 2*i, ExpiresAt: time.Now().Add(time.Minute), Beyond: true},
			Event:    corebot.AuditEvent{Event: "approval.request", Tool: tool, Key: d.Message.Key},
		})
	}
	step := corebot.Step{Position: position, Kind: corebot.StepTool, State: corebot.StepAwaiting, Call: &corebot.ToolCall{ID: "c", Tool: "a.one"}}
	return NewLedger(db).Ask(t.Context(), d, step, asks)
}

func TestTheCallsOfAnAnswerAreOneRequestAndAreResolvedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		by    int // which of the calls is named
		state corebot.ApprovalState
	}{"by the first": {0, corebot.ApprovalApproved}, "by the last": {2, corebot.ApprovalApproved}, "denied": {1, corebot.ApprovalDenied}} {
		t.Run(name, func(t *testing.T) {
			afterwards(t, func(t *testing.T, db *DB) {
				publishTest(t, db, "a", "1")
				d := claimTest(t, db)
				asked, err := askThree(t, db, d, 0)
				must(t, err)
				if len(asked.All) != 3 || asked.Calls != 3 || asked.Request != asked.All[0].ID || asked.Bound.Tool != "a.one" || !asked.Beyond {
					t.Fatalf("asked %+v", asked)
				}
				must(t, NewApprovals(db).Resolve(t.Context(), asked.All[c.by].ID, c.state))
				for _, call := range asked.All {
					if a, err := NewApprovals(db).Approval(t.Context(), call.ID); err != nil || a.State != c.state || a.By != "operator" {
						t.Errorf("%s is %+v, %v", call.Bound.Tool, a, err)
					}
				}
				again, err := askThree(t, db, d, 2) // the second call, when its turn comes
				if err != nil || again.Bound.Tool != "b.two" || again.State != c.state || again.Request != asked.Request {
					t.Errorf("the second call: %+v, %v", again, err)
				}
				events := map[string]int{}
				for _, e := range notes(t, db) {
					events[e.Event]++
				}
				if events["approval.request"] != 3 || events["approval.approve"]+events["approval.deny"] != 1 {
					t.Errorf("the audit has %v", events)
				}
			})
		})
	}
}

func TestAnAnswerIsAskedAboutOnce(t *testing.T) {
	afterwards(t, func(t *testing.T, db *DB) {
		publishTest(t, db, "a", "1")
		d := claimTest(t, db)
		_, err := askThree(t, db, d, 0)
		must(t, err)
		if _, err := askThree(t, db, d, 1); !errors.Is(err, corebot.ErrNotAsked) {
			t.Errorf("a call that was not asked about: %v", err)
		}
		if waiting, err := NewApprovals(db).Awaited(t.Context(), 10); err != nil || len(waiting) != 3 {
			t.Errorf("%d wait, %v", len(waiting), err)
		}
	})
}

func TestARequestExpiresWhole(t *testing.T) {
	afterwards(t, func(t *testing.T, db *DB) {
		publishTest(t, db, "a", "1")
		d := claimTest(t, db)
		asked, err := askThree(t, db, d, 0)
		must(t, err)
		waitTest(t, db, d, asked.Approval)
		time.Sleep(time.Minute)
		d, found := claimNow(t, db)
		if !found {
			t.Fatal("its lane does not wake")
		}
		if again, err := askThree(t, db, d, 0); err != nil || again.State != corebot.ApprovalExpired || again.All[2].State != corebot.ApprovalExpired {
			t.Errorf("it is %+v, %v", again, err)
		}
	})
}
