package storage

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/migrations"
)

// shown are the counters that the database keeps, as /metrics would show them.
func shown(t *testing.T, db *DB) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	must(t, db.tally.register(r))
	families, err := r.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() { // the agent is the first of all
				if l.GetName() != "agent" || l.GetValue() != corebot.DefaultAgent {
					labels = append(labels, l.GetValue())
				}
			}
			got[strings.TrimSuffix(strings.TrimPrefix(f.GetName(), "corebot_"), "_total")+" "+
				strings.Join(labels, " ")] = m.GetCounter().GetValue()
		}
	}
	return got
}

// risen are the counters that are not zero.
func risen(all map[string]float64) map[string]float64 {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(_ string, n float64) bool { return n == 0 })
	return all
}

// countedTurns has every counter rise.
func countedTurns(t *testing.T, db *DB) map[string]float64 {
	t.Helper()
	ledger, queue := NewLedger(db), NewQueue(db)
	publishTest(t, db, "a", "1")
	d := claimTest(t, db)
	call := corebot.Step{Position: 1, Kind: corebot.StepTool, State: corebot.StepDone}
	result := corebot.AuditEvent{
		Event: "tool.result", Tool: "fs.read", Label: "fs.read",
		Outcome: corebot.OutcomeSuccess, Key: testKey("a"),
	}
	must(t, ledger.Record(t.Context(), d, call, result))
	must(t, queue.Settle(t.Context(), d, corebot.Outcome{Verb: corebot.RetryAt, At: time.Now()}))
	d = claimTest(t, db)
	spent := []corebot.ModelUsage{{Model: "m", Usage: corebot.Usage{
		InputTokens: 100, OutputTokens: 10, CacheReadTokens: 30,
		CacheWriteTokens: 20,
	}}}
	done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
	must(t, ledger.Commit(t.Context(), d, corebot.Result{Outcome: done, Spent: spent}))
	publishTest(t, db, "a", "2")
	must(t, queue.Settle(t.Context(), claimTest(t, db), corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
	return map[string]float64{
		"turns retrying": 1, "turns answered": 1, "turns dead": 1, "tool_calls success": 1,
		"bus_dead_letters inbound permanent": 1,
		"usage_tokens input":                 100, "usage_tokens output": 10, "usage_tokens cache_read": 30,
		"usage_tokens cache_write": 20,
		"usage_tokens unpriced":    110,
	}
}

func wantCounted(t *testing.T, db *DB, when string, want map[string]float64) {
	t.Helper()
	if got := risen(shown(t, db)); !maps.Equal(got, want) {
		t.Errorf("%s the counters are %v, want %v", when, got, want)
	}
}

// A counter goes on where it was, whatever restarts, and whatever retention takes away.
func TestCountersGoOnAfterARestartAndAfterRetention(t *testing.T) {
	dir := seeded(t)
	var want map[string]float64
	earlier(t, dir, func(db *DB) {
		want = countedTurns(t, db)
		wantCounted(t, db, "at first", want)
	})
	earlier(t, dir, func(db *DB) {
		wantCounted(t, db, "after a restart", want)
		must(t, NewDeadLetters(db).Drop(t.Context(), 2))
		ageTest(t, dir, tenYears)
		must(t, keeping(t, db, RetentionOptions{
			Messages: time.Hour, Audit: time.Hour, Usage: 720 * time.Hour,
			History: time.Hour,
		}).Sweep(t.Context()))
		if n := count(t, dir, "message_life"); n != 0 {
			t.Errorf("%d lives are left", n)
		}
		wantCounted(t, db, "after retention", want)
	})
	earlier(t, dir, func(db *DB) {
		for name, n := range countedTurns(t, db) {
			want[name] += n
		}
		wantCounted(t, db, "after more turns", want)
	})
}

func TestEverySeriesIsThereFromTheStart(t *testing.T) {
	db := openTest(t, t.TempDir())
	db.KnowAgents(corebot.DefaultAgent)
	got := shown(t, db)
	for _, name := range []string{
		"turns answered", "turns stopped", "turns refused", "turns retrying", "turns waiting", "turns parked",
		"turns dead",
		"usage_tokens input", "usage_tokens output", "usage_tokens cache_read", "usage_tokens cache_write",
		"usage_tokens unpriced", "usage_cost ",
		"approvals approved", "approvals denied", "approvals expired", "approvals void", "tool_calls denied",
		"waits over", "waits expired", "waits ended", "tool_calls unknown",
		"bus_dead_letters inbound attempts", "bus_dead_letters inbound poison", "bus_dead_letters outbound ambiguous",
	} {
		if n, there := got[name]; !there || n != 0 {
			t.Errorf("%q is there: %v, with %v", name, there, n)
		}
	}
}

// A fact without a commit is not counted. A fact in a commit of unknown outcome is counted once if the commit happened.
// A filter takes the reasons that have counters, and no others.
func TestEveryReasonOfADeadLetterHasACounter(t *testing.T) {
	counted := map[string]bool{}
	for _, reasons := range deadReasons {
		for _, reason := range reasons {
			counted[reason] = true
		}
	}
	known := map[string]bool{}
	for _, reason := range corebot.DeadReasons() {
		known[reason] = true
	}
	if !maps.Equal(counted, known) {
		t.Errorf("the counters have the reasons %v, and filters take %v", counted, known)
	}
}

func TestCountersSayWhatWasCommitted(t *testing.T) {
	for name, fails := range map[string]func(sql string, after bool) bool{
		"a statement that fails": func(sql string, after bool) bool {
			return !after && strings.HasPrefix(sql, "UPDATE lanes SET leased = 0")
		},
		"the counters themselves":       func(sql string, after bool) bool { return !after && sql == putTally.sql },
		"a commit that did not happen":  func(sql string, after bool) bool { return !after && sql == commit.sql },
		"a commit that happened anyway": func(sql string, after bool) bool { return after && sql == commit.sql },
	} {
		t.Run(name, func(t *testing.T) {
			dir := seeded(t)
			db := openTest(t, dir)
			publishTest(t, db, "a", "1")
			d := claimTest(t, db)
			left := 1
			db.conn.trouble = func(sql string, after bool) error {
				if left > 0 && fails(sql, after) {
					left--
					return fakeDamage{}
				}
				return nil
			}
			err := NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered})
			ended := sideQuery(t, dir, `SELECT "end" FROM message_life WHERE message_id = '1'`)[0]
			want := map[string]float64{}
			if ended != "" {
				want["turns answered"] = 1
			}
			wantCounted(t, db, fmt.Sprintf("with %v and the end %q", err, ended), want)
			if left > 0 {
				t.Error("nothing failed")
			}
			stored := sideQuery(t, dir, `SELECT n FROM totals WHERE name = 'turns'`)
			if (len(stored) == 1) != (ended != "") {
				t.Errorf("stored are %q, and the end is %q", stored, ended)
			}
		})
	}
}

// MCP servers name their tools as they like.
func TestNamesOfToolsMakeNoSeries(t *testing.T) {
	db := openTest(t, t.TempDir())
	var events []corebot.AuditEvent
	for i := range 100 {
		events = append(events, corebot.AuditEvent{
			Event: "tool.result", Label: fmt.Sprint("mcp__server__", i), Outcome: corebot.OutcomeSuccess,
			Key: testKey("a"),
		})
	}
	must(t, db.write(t.Context(), "audit", func(t *tx) error { return auditTx(t, events) }))
	if all := shown(t, db); len(all) != 1 || all["tool_calls success"] != 100 {
		t.Errorf("the counters are %v", all)
	}
}

// Earlier versions counted each tool by its name.
func TestCallsThatWereCountedByToolGoOnAsOneCounter(t *testing.T) {
	dir := seeded(t)
	earlier(t, dir, func(db *DB) {
		must(t, db.write(t.Context(), "test", func(t *tx) error {
			for i := range 2 * maxSeries {
				_, err := t.exec(putTally, toolsTotal, corebot.DefaultAgent, fmt.Sprint("tool", i), "success", 1)
				if err != nil {
					return err
				}
			}
			return nil
		}))
	})
	earlier(t, dir, func(db *DB) {
		want := countedTurns(t, db)
		want["tool_calls success"] += 2 * maxSeries
		wantCounted(t, db, "after the old ones", want)
	})
}

func TestTheNumberOfSeriesIsBounded(t *testing.T) {
	db := openTest(t, t.TempDir())
	must(t, db.write(t.Context(), "test", func(t *tx) error {
		for i := range 3 * maxSeries {
			t.count(turnsTotal, corebot.DefaultAgent, fmt.Sprint("end", i), "", 1)
		}
		_, err := t.exec(touchStore)
		return err
	}))
	all := shown(t, db)
	if len(all) > maxSeries+1 || all["turns other"] < maxSeries {
		t.Errorf("there are %d series, and %v ends of others", len(all), all["turns other"])
	}
}

func TestCountersTellAgentsApartAndThoseFromBeforeNameNone(t *testing.T) {
	dir := seeded(t)
	var want map[string]float64
	earlier(t, dir, func(db *DB) {
		db.KnowAgents("helper")
		want = countedTurns(t, db)
		m := testMessage("a", "3")
		m.Key.Agent = "helper"
		_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
		must(t, err)
		must(t, NewQueue(db).Settle(t.Context(), claimTest(t, db), corebot.Outcome{
			Verb: corebot.Done, End: corebot.EndAnswered,
		}))
		want["turns helper answered"] = 1
		wantCounted(t, db, "with two agents", want)
		if n, there := shown(t, db)["usage_cost helper"]; !there || n != 0 {
			t.Errorf("the cost of the other agent is there: %v, with %v", there, n)
		}
	})
	old, now := int64(38), int64(39)
	path := filepath.Join(dir, FileName)
	must(t, migrateTo(t.Context(), path, migrations.FS, old))
	if got := sideQuery(t, dir, "SELECT n FROM totals WHERE name = 'turns' AND a = 'answered'"); len(got) != 1 ||
		got[0] != "2" {
		t.Errorf("before agents were told apart the turns are %q", got)
	}
	must(t, migrateTo(t.Context(), path, migrations.FS, now))
	earlier(t, dir, func(db *DB) {
		if n := shown(t, db)["turns  answered"]; n != 2 {
			t.Errorf("%v turns of no agent are counted", n)
		}
	})
}

func TestTheNumberOfAgentsIsBounded(t *testing.T) {
	db := openTest(t, t.TempDir())
	for i := range 2 * maxAgents {
		must(t, db.write(t.Context(), "test", func(t *tx) error {
			t.count(turnsTotal, fmt.Sprint("agent", i), "answered", "", 1)
			t.writes++
			return nil
		}))
	}
	all := shown(t, db)
	if n := all["turns other answered"]; n < maxAgents || len(all) > maxAgents+1 {
		t.Errorf("there are %d series, and %v turns of other agents", len(all), n)
	}
}
