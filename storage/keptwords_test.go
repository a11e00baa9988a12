package storage

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// endedWith leaves words in all that ends: the journal of a refused turn, a denied approval, a wait, and a job.
func endedWith(t *testing.T, db *DB, chat, word string, at time.Time) {
	t.Helper()
	m := testMessage(chat, fmt.Sprint("m-", at.UnixMilli()))
	m.Parts = corebot.TextPart(word)
	_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
	must(t, err)
	d := claimTest(t, db)
	must(t, NewLedger(db).Record(t.Context(), d, corebot.Step{
		Kind: corebot.StepModel, State: corebot.StepDone, Answer: &corebot.Answer{Text: word},
	}))
	must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndRefused}))
	bound := corebot.Bound{Tool: "fs.write", Args: json.RawMessage(`{"text":"` + word + `"}`), Dir: word}
	digest := bound.Digest()
	for _, q := range []struct {
		text string
		args []any
	}{
		{
			`INSERT INTO approvals (life_id, run, position, request, tool, args, dir, files, digest, rule, taint,
			step_id, state, reason, created_at, expires_at, resolved_at, resolved_by)
			VALUES (?, 1, 0, ?, 'fs.write', ?, ?, '', ?, 'x', ?, 's', 'denied', ?, 1, 2, 3, 'ann')`,
			[]any{d.Life, d.Life, string(bound.Args), word, digest[:], word, word},
		},
		{`INSERT INTO waits (life_id, run, position, kind, purpose, state, sender, chat, word, reason, created_at,
			due_at) VALUES (?, 1, 1, 'word', ?, 'over', 's', 'c', ?, ?, 1, 1)`, []any{d.Life, word, word, word}},
		{
			`INSERT INTO jobs (id, kind, background, state, parent_id, life_id, results, sender, prompt, depth, tokens,
			calls, reason, noted_at, created_at) VALUES (?, 'run', 1, 'done', ?, ?, 'r', 's', ?, 1, 1, 1, ?, 1, 1)`,
			[]any{d.Life, d.Life, d.Life, word, word},
		},
		{`UPDATE message_life SET ended_at = ? WHERE id = ?`, []any{at.UnixMilli(), d.Life}},
	} {
		sideQuery(t, db.path, q.text, q.args...)
	}
}

// Words that no entry of the history leads to go at the time of their chat, and the audit keeps what was decided.
func TestWhatHasEndedLosesItsWordsAtTheTimeOfItsChat(t *testing.T) {
	db, old := openTest(t, t.TempDir()), time.Now().Add(-2*day)
	for _, c := range []struct {
		chat, word string
		at         time.Time
	}{{"a", "wombat", old}, {"a", "numbat", time.Now()}, {"b", "quokka", old}, {"none", "dingo", time.Now()}} {
		endedWith(t, db, c.chat, c.word, c.at)
	}
	places := []string{"approvals", "execution_steps", "jobs", "waits"}
	for _, word := range []string{"wombat", "numbat", "quokka", "dingo"} {
		for _, table := range places {
			if !slices.Contains(tablesWith(t, db, word), table) {
				t.Fatalf("%s is not in %s", word, table)
			}
		}
	}
	keeper := &corebot.Keeper{Rules: []corebot.KeepRule{
		{Chat: "a", Keeping: corebot.Keeping{For: day}}, {Chat: "none", Keeping: corebot.Keeping{Nothing: true}},
	}}
	must(t, keeping(t, db, RetentionOptions{Keeper: keeper}).Sweep(t.Context()))
	for word, stays := range map[string]bool{"wombat": false, "numbat": true, "quokka": true, "dingo": false} {
		left := tablesWith(t, db, word)
		for _, table := range places {
			if slices.Contains(left, table) != stays {
				t.Errorf("%s: %q have it, want %v", word, left, stays)
			}
		}
	}
	all, _, err := NewApprovals(db).Page(t.Context(), true, "", 10)
	if err != nil || len(all) != 4 {
		t.Fatalf("%d approvals: %v", len(all), err)
	}
	for _, a := range all {
		if _, err := json.Marshal(a); err != nil || a.Bound.Tool != "fs.write" || a.By != "ann" ||
			a.State != corebot.ApprovalDenied || a.Rule != "x" {
			t.Errorf("the audit lost %+v: %v", a, err)
		}
	}
	wantWhole(t, db)
}

// A message that a life has caused can need its journal, and so can a life that took it in, or the one that caused it.
func TestALifeThatSomethingStillNeedsKeepsItsWords(t *testing.T) {
	for name, link := range map[string]string{
		"caused": `UPDATE message_life SET cause_id = ?1 WHERE id = ?2`,
		"merged": `UPDATE message_life SET merged_id = ?2 WHERE id = ?1`,
		"parent": `UPDATE message_life SET cause_id = ?2 WHERE id = ?1`,
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, t.TempDir())
			endedWith(t, db, "a", "wombat", time.Now())
			publishTest(t, db, "b", "m2")
			sideQuery(t, db.path, link, 1, 2)
			sweep := func() []string {
				nothing := &corebot.Keeper{Store: corebot.StoreNone}
				must(t, keeping(t, db, RetentionOptions{Keeper: nothing}).Sweep(t.Context()))
				return tablesWith(t, db, "wombat")
			}
			if left := sweep(); !slices.Contains(left, "execution_steps") || !slices.Contains(left, "waits") {
				t.Errorf("only %q have the words", left)
			}
			must(t, NewQueue(db).Settle(t.Context(), claimTest(t, db), corebot.Outcome{
				Verb: corebot.Done, End: corebot.EndRefused,
			}))
			if left := sweep(); slices.Contains(left, "execution_steps") || slices.Contains(left, "waits") {
				t.Errorf("%q still have the words", left)
			}
		})
	}
}

// A message, a call or a job that still waits keeps its words, whatever its chat keeps.
func TestWhatWaitsKeepsItsWords(t *testing.T) {
	db := openTest(t, t.TempDir())
	_, asked := askTest(t, db, "m1")
	keeper := &corebot.Keeper{Store: corebot.StoreNone}
	must(t, keeping(t, db, RetentionOptions{Keeper: keeper}).Sweep(t.Context()))
	now, err := NewApprovals(db).Approval(t.Context(), asked.ID)
	if err != nil || string(now.Bound.Args) != string(asked.Bound.Args) {
		t.Errorf("got %+v: %v", now, err)
	}
	if n := count(t, db.path, "execution_steps"); n == 0 {
		t.Error("the journal of a turn that waits is gone")
	}
}

// Of a chat with a time of its own both limits hold, and a journal goes with its entries.
func TestTheLimitOfEntriesHoldsInAChatWithATimeOfItsOwn(t *testing.T) {
	db, here := openTest(t, t.TempDir()), testKey("a")
	for i := range 6 {
		saidAt(t, db, here, fmt.Sprint("m", i), fmt.Sprintf("wombat%dend", i), time.Now().Add(-time.Hour))
		sideQuery(t, db.path, `UPDATE chats SET session = session + 1`) // a session in play keeps its newest entries
	}
	keeper := &corebot.Keeper{Rules: []corebot.KeepRule{{Chat: "a", Keeping: corebot.Keeping{For: day}}}}
	must(t, keeping(t, db, RetentionOptions{Keeper: keeper, HistoryEntries: 2}).Sweep(t.Context()))
	for i := range 6 {
		left := tablesWith(t, db, fmt.Sprintf("wombat%dend", i))
		if has := slices.Contains(left, "history"); has != (i >= 5) || has != slices.Contains(left, "execution_steps") {
			t.Errorf("of turn %d, %q have the words", i, left)
		}
	}
}
