package storage

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/migrations"
)

// TestAVoidApprovalIsOfNoCallAnyMore: the request that came instead has one of the two calls alone.
func TestAVoidApprovalIsOfNoCallAnyMore(t *testing.T) {
	afterwards(t, func(t *testing.T, db *DB) {
		publishTest(t, db, "a", "1")
		d := claimTest(t, db)
		ask := func(round int, positions ...int) (corebot.ApprovalRequest, error) {
			call := corebot.ToolCall{ID: "c", Tool: "fs.write", Args: []byte(`{}`)}
			b, err := corebot.NewBound(call, "", nil)
			must(t, err)
			asks := make([]corebot.NewApproval, len(positions))
			for i, at := range positions {
				asks[i].Approval = corebot.Approval{
					Position: at, Answer: 1, Round: round, Bound: b, Rule: "r",
					Because: "it has changed", ExpiresAt: time.Now().Add(time.Hour),
				}
				asks[i].Event = corebot.AuditEvent{Event: "approval.request", Key: d.Message.Key}
			}
			step := corebot.Step{
				Position: positions[0], Kind: corebot.StepTool, State: corebot.StepAwaiting,
				Call: &call,
			}
			return NewLedger(db).Ask(t.Context(), d, step, asks)
		}
		first, err := ask(0, 1, 2)
		must(t, err)
		must(t, NewApprovals(db).Resolve(t.Context(), first.Request, corebot.Decision{Approve: true}))
		if a, err := ask(0, 2); err != nil || a.State != corebot.ApprovalApproved {
			t.Fatalf("the second call is %+v, %v", a, err)
		}
		anew, err := ask(1, 1)
		if err != nil || anew.State != corebot.ApprovalAwaited || anew.Instead != first.Request {
			t.Fatalf("the first call is %+v, %v", anew, err)
		}
		if a, err := ask(0, 2); !errors.Is(err, corebot.ErrNotAsked) {
			t.Errorf("the second call is %+v, %v", a.Approval, err)
		}
	})
}

func TestAnApprovalOfATurnThatEndsInTheSameClaimEndsWithIt(t *testing.T) {
	db := openTest(t, t.TempDir())
	publishTest(t, db, "a", "1")
	d := claimTest(t, db) // its journal is empty
	call := corebot.ToolCall{ID: "c", Tool: "fs.write", Args: []byte(`{}`)}
	b, err := corebot.NewBound(call, "", nil)
	must(t, err)
	step := corebot.Step{Kind: corebot.StepTool, State: corebot.StepAwaiting, Call: &call}
	asked, err := NewLedger(db).Ask(t.Context(), d, step, []corebot.NewApproval{{
		Approval: corebot.Approval{Bound: b, Rule: "r", ExpiresAt: time.Now().Add(time.Hour)},
		Event:    corebot.AuditEvent{Event: "approval.request", Key: d.Message.Key},
	}})
	must(t, err)
	must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	found, err := NewApprovals(db).Request(t.Context(), asked.Request)
	must(t, err)
	if len(found) != 1 || found[0].State != corebot.ApprovalDenied {
		t.Errorf("the approval of a turn that has ended is %+v", found)
	}
}

func TestOlderApprovalsLearnHowTheyEnded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	must(t, migrateTo(t.Context(), path, migrations.FS, 20))
	for _, s := range []string{
		`INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool)
			VALUES (1, 1, 'main', 'test', '', 'a', '', '')`,
		`INSERT INTO message_life (id, message_id, lane_id, kind, sender, checksum, published_at, run, "end") VALUES
			(1, 'ran', 1, 'text', 's', x'', 1, 1, 'answered'), (2, 'skipped', 1, 'text', 's', x'', 1, 1, 'answered'),
			(3, 'denied', 1, 'text', 's', x'', 1, 1, 'answered'), (4, 'open', 1, 'text', 's', x'', 1, 1, '')`,
		`INSERT INTO execution_steps (life_id, run, position, kind, state, request, result, started_at, ended_at) VALUES
			(1, 1, 2, 'tool', 'done', '{"tool":"x"}', '{"outcome":"success"}', 1, 1),
			(2, 1, 2, 'merge', 'done', '{"tool":"x"}', '', 1, 1),
			(3, 1, 2, 'tool', 'done', '{"tool":"x"}', '{"outcome":"denied"}', 1, 1),
			(4, 1, 2, 'tool', 'awaiting', 'no JSON', '', 1, 1)`,
		`INSERT INTO approvals (id, life_id, run, position, tool, args, dir, files, digest, rule, taint, step_id,
			state, created_at, expires_at, request, answer)
			SELECT id, id, 1, 2, 'x', '{}', '', '', x'', 'r', '', 's', 'approved', 1, 1, id, 2 FROM message_life`,
		`UPDATE sqlite_sequence SET seq = 70 WHERE name = 'approvals'`,
	} {
		sideQuery(t, path, s)
	}
	must(t, migrateTo(t.Context(), path, migrations.FS, SchemaVersion()))
	got := sideQuery(t, path, `SELECT id, state, ran, reason FROM approvals ORDER BY id`)
	want := []string{
		"1|approved|1|", "2|void|0|its turn ended without the call",
		"3|void|0|its turn ended without the call", "4|approved|0|",
	}
	if !slices.Equal(got, want) {
		t.Errorf("they are %q", got)
	}
	if seq := sideQuery(t, path, `SELECT seq FROM sqlite_sequence WHERE name = 'approvals'`); !slices.Equal(seq,
		[]string{"70"}) {
		t.Errorf("the next number follows %q: a number would mean another call", seq)
	}
}
