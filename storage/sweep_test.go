package storage

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
)

// grow adds rows behind the store's back: there are many of them.
func grow(t testing.TB, dir string, n int, insert string, args ...any) {
	t.Helper()
	sideQuery(t, dir, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < `+fmt.Sprint(n)+`) `+
		insert, args...)
}

// many are lives of one lane that ended at a moment, one behind the other.
func many(t testing.TB, dir string, n int, ended time.Time) {
	t.Helper()
	sideQuery(t, dir,
		`INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq)
			VALUES (1, 1, 'main', 'test', '', 'a', '', 'inbound', ?)`, n+1)
	grow(t, dir, n, `INSERT INTO message_life (id, lane_id, message_id, kind, checksum, published_at, ended_at, "end")
		SELECT i, 1, printf('%09d', i), 'prompt', x'00', ?1, ?1, 'answered' FROM n`, ended.UnixMilli())
	sideQuery(t, dir, `UPDATE store SET last_life = ?`, n)
}

func TestOneOperationTakesSoManyRowsAndNoMore(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	old := time.Now().Add(-2 * day)
	many(t, dir, 3*sweepRows, old)
	grow(t, dir, 2*sweepRows+10,
		`INSERT INTO execution_steps (life_id, run, position, kind, state, started_at) SELECT 1 + i % 7, 1, i, 'model',
			'done', 0 FROM n`)
	r := keeping(t, db, RetentionOptions{Messages: day})
	var pages []int
	must(t, r.walk(t.Context(), lifeTable, time.Now().Add(-day), func(p page) error {
		pages = append(pages, p.rows)
		for more := true; more; {
			var written int
			var gone int64
			must(t, db.write(t.Context(), "test", func(tx *tx) (err error) {
				gone, more, err = dropLivesTx(tx, p.first, p.last, time.Now().Add(-day), sweepRows)
				written = tx.writes
				return err
			}))
			if written > 2*sweepRows+1 || gone > sweepRows { // lives, their steps, and one lane
				t.Errorf("%d rows were written and %d lives taken in one operation", written, gone)
			}
		}
		return nil
	}))
	if !slices.Equal(pages, []int{sweepRows, sweepRows, sweepRows}) {
		t.Errorf("the pages had %v rows", pages)
	}
	if lives, steps := count(t, dir, "message_life"), count(t, dir, "execution_steps"); lives != 0 || steps != 0 {
		t.Errorf("%d lives and %d steps are left", lives, steps)
	}
	wantWhole(t, db)
}

func TestAWalkEndsAtTheFirstYoungPageAndWrongClocksDoNotEndIt(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	now := time.Now()
	insert := func(n int, at time.Time) {
		grow(t, dir, n, `INSERT INTO mailbox (chat_id, message_id, in_reply_to, kind, content, created_at)
			SELECT 1, printf('%d-%d', ?, i), '', 'reply', 'x', ? FROM n`, at.UnixNano(), at.UnixMilli())
	}
	r := keeping(t, db, RetentionOptions{Mailbox: day})
	insert(2*sweepRows, now.Add(-2*day))
	insert(sweepRows, now.Add(1000*day)) // the clock was ahead for a while
	insert(sweepRows, now.Add(-2*day).Add(time.Hour))
	insert(2*sweepRows, now.Add(-time.Hour))
	insert(sweepRows, now.Add(-3*day)) // the clock was behind for a while
	must(t, r.Sweep(t.Context()))
	if n := count(t, dir, "mailbox"); n != 4*sweepRows {
		t.Errorf("%d rows are left, want the %d of the future, the young, and what lies behind them", n, 4*sweepRows)
	}
}

func TestAYoungRowBetweenOldOnesStays(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	old, young := time.Now().Add(-2*day), time.Now().Add(-time.Hour)
	for _, at := range []time.Time{old, young, old} {
		sideQuery(t, dir, `INSERT INTO mailbox (chat_id, message_id, in_reply_to, kind, content, created_at)
			VALUES (1, (SELECT COUNT(*) FROM mailbox), '', 'reply', 'x', ?)`, at.UnixMilli())
	}
	must(t, keeping(t, db, RetentionOptions{Mailbox: day}).Sweep(t.Context()))
	if left := sideQuery(t, dir, `SELECT cursor FROM mailbox`); !slices.Equal(left, []string{"2"}) {
		t.Errorf("left are %q", left)
	}
}

func TestRunSweepsAMinuteAfterTheStartAndThenEachHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		registry := prometheus.NewRegistry()
		r := keeping(t, db, RetentionOptions{Mailbox: day, Metrics: registry})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		post := func(id string) { must(t, NewMailbox(db).Post(t.Context(), outboundTest("a", id))) }
		post("1")
		time.Sleep(2 * day)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(50 * time.Second)
		if count(t, dir, "mailbox") != 1 {
			t.Error("it was swept while the process was starting")
		}
		time.Sleep(20 * time.Second)
		if count(t, dir, "mailbox") != 0 {
			t.Error("it was not swept after the start")
		}
		post("2")
		time.Sleep(day - time.Minute)
		if count(t, dir, "mailbox") != 1 {
			t.Error("it was swept before its time was over")
		}
		time.Sleep(2 * time.Hour)
		if count(t, dir, "mailbox") != 0 {
			t.Error("it was not swept within the hour")
		}
		cancel()
		must(t, <-ended)
		families, err := registry.Gather()
		must(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "corebot_retention_rows_total" {
					table, want := m.GetLabel()[0].GetValue(), 0.0
					if table == "mailbox" {
						want = 2
					}
					if got := m.GetCounter().GetValue(); got != want {
						t.Errorf("counted %v rows of %s, want %v", got, table, want)
					}
					continue
				}
				age := float64(time.Now().Unix()) - m.GetGauge().GetValue()
				if age > 4000 {
					t.Errorf("the last pass was %v s ago", age)
				}
			}
		}
		if len(families) != 2 {
			t.Errorf("%d metrics are shown", len(families))
		}
	})
}

// Sweeping beside traffic loses nothing and counts right.
func TestSweepingBesideTrafficLeavesTheStoreWhole(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	r := keeping(t, db, RetentionOptions{
		Messages: time.Millisecond, Audit: time.Millisecond,
		Mailbox: time.Millisecond,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var sweeping, traffic sync.WaitGroup
	sweeping.Go(func() {
		for ctx.Err() == nil {
			if err := r.Sweep(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	const chats, each = 4, 40
	for c := range chats {
		traffic.Go(func() {
			for i := range each {
				r, err := offer(db, testMessage(fmt.Sprint(c), fmt.Sprintf("%d-%d", c, i)))
				if err != nil || r.Duplicate {
					t.Errorf("publish: %+v, %v", r, err)
				}
			}
		})
	}
	served := map[string]int{}
	for range chats * each {
		d := claimTest(t, db)
		served[d.Message.ID]++
		must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	}
	traffic.Wait()
	cancel()
	sweeping.Wait()
	if len(served) != chats*each {
		t.Errorf("served %d messages of %d", len(served), chats*each)
	}
	wantWhole(t, db)
	time.Sleep(2 * time.Millisecond)
	for range 2 {
		must(t, r.Sweep(t.Context()))
	}
	if lives, lanes := count(t, dir, "message_life"), count(t, dir, "lanes"); lives != 0 || lanes != 0 {
		t.Errorf("%d lives and %d lanes are left", lives, lanes)
	}
}
