package storage

import (
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
	b, err := corebot.NewBound(call, "chats/a/files", []corebot.NamedFile{{
		Path:    "chats/a/files/x",
		Content: corebot.NoFile,
	}})
	must(t, err)
	step := corebot.Step{Kind: corebot.StepTool, State: corebot.StepAwaiting, Call: &call, StartedAt: time.Now()}
	event := corebot.AuditEvent{
		Event: "approval.request", Tool: call.Tool, Key: d.Message.Key,
		Principal: d.Message.Sender, Outcome: corebot.OutcomeSuccess,
	}
	asked, err := NewLedger(db).Ask(t.Context(), d, step, []corebot.NewApproval{{
		Approval: corebot.Approval{
			Bound: b, Rule: "approval-tainted", Taint: "a page",
			ExpiresAt: time.Now().Add(time.Minute),
		}, Event: event,
	}})
	return asked.Approval, err
}

// afterwards runs a test in virtual time on a database that is closed within the bubble.
func afterwards(t *testing.T, test func(t *testing.T, db *DB)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, openTest(t, t.TempDir())) })
}

func TestAnApprovalThatWasChangedInTheDatabaseIsNone(t *testing.T) {
	for _, change := range []string{"args = '{}'", "dir = ''", "files = ''", "files = 'x'", "tool = 'fs.read'"} {
		afterwards(t, func(t *testing.T, db *DB) {
			d, a := askTest(t, db, "1")
			must(t, NewApprovals(db).Resolve(t.Context(), a.ID, corebot.Decision{Approve: true}))
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

// A request that was changed in the database can be answered by nobody. Neither the next message nor the end of the
// turn may fail because of it.
func TestAChangedRequestHoldsUpNeitherItsChatNorTheEndOfItsTurn(t *testing.T) {
	afterwards(t, func(t *testing.T, db *DB) {
		d, a := askTest(t, db, "1")
		queue := NewQueue(db)
		must(t, queue.Settle(t.Context(), d, corebot.Outcome{
			Verb: corebot.Wait, At: a.ExpiresAt, Reason: corebot.AwaitingApproval,
		}))
		must(t, db.write(t.Context(), "test", func(t *tx) error {
			_, err := t.exec(&query{"UPDATE approvals SET args = '{}'"})
			return err
		}))
		publishTest(t, db, "a", "yes")
		again := claimTest(t, db) // before the request expires
		if again.Message.ID != "1" {
			t.Fatalf("claimed %s", again.Message.ID)
		}
		must(t, queue.Settle(t.Context(), again, corebot.Outcome{Verb: corebot.Dead, Reason: "attempts"}))
		if next := claimTest(t, db); next.Message.ID != "yes" {
			t.Errorf("claimed %s", next.Message.ID)
		}
	})
}

// The turn can end before anybody writes.
func TestATurnWithAChangedRequestEnds(t *testing.T) {
	db := openTest(t, t.TempDir())
	d, _ := askTest(t, db, "1")
	must(t, db.write(t.Context(), "test", func(t *tx) error {
		_, err := t.exec(&query{"UPDATE approvals SET args = '{}'"})
		return err
	}))
	must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Dead, Reason: "attempts"}))
	if n := count(t, db.path, "approvals WHERE state = 'void'"); n != 1 {
		t.Errorf("%d requests are void", n)
	}
}

func TestApprovalsGoWithTheLivesOfTheirMessages(t *testing.T) {
	afterwards(t, func(t *testing.T, db *DB) {
		d, a := askTest(t, db, "1")
		must(t, NewApprovals(db).Resolve(t.Context(), a.ID, corebot.Decision{}))
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: corebot.Outcome{
			Verb: corebot.Done,
			End:  corebot.EndAnswered,
		}}))
		_, waits := askTest(t, db, "2")
		time.Sleep(2 * day)
		must(t, keeping(t, db, RetentionOptions{Messages: day}).Sweep(t.Context()))
		var rows, left int64
		if _, err := db.reader.one(t.Context(), &query{`SELECT COUNT(*), MAX(id) FROM approvals`},
			[]any{&rows, &left}); err != nil || rows != 1 || left != waits.ID {
			t.Errorf("%d are left, the newest %d: %v; want that of the message that waits", rows, left, err)
		}
	})
}
