package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

const day = 24 * time.Hour

// keeping is the retention of a database, with what a test asks for.
func keeping(t testing.TB, db *DB, o RetentionOptions) *Retention {
	t.Helper()
	o.Log = zerolog.Nop()
	r, err := NewRetention(db, o)
	must(t, err)
	return r
}

// answer has a message of a chat claimed and answered by a turn with a tool call; the reply is sent.
func answer(t testing.TB, db *DB, chat, id string) {
	t.Helper()
	publishTest(t, db, chat, id)
	d := claimTest(t, db)
	if d.Message.ID != id {
		t.Fatalf("claimed %s, want %s", d.Message.ID, id)
	}
	ledger := NewLedger(db)
	for position := range 2 {
		must(t, ledger.Record(t.Context(), d, corebot.Step{Position: position, Kind: corebot.StepModel, State: corebot.StepDone, Answer: &corebot.Answer{}}))
	}
	reply := outboundTest(chat, d.RunID()+"/0")
	reply.InReplyTo = id
	must(t, ledger.Commit(t.Context(), d, corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}, Replies: []corebot.Message{reply},
	}))
	settleOut(t, db, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent})
}

// settleOut ends the one outbound message that waits.
func settleOut(t testing.TB, db *DB, o corebot.Outcome) {
	t.Helper()
	out, err := NewQueue(db).Claim(t.Context(), corebot.OutboundPool("test"), 1, corebot.Terms{Lease: time.Minute})
	must(t, err)
	must(t, NewQueue(db).Settle(t.Context(), out[0], o))
}

func stopTest(t testing.TB, db *DB, chat, id string) {
	t.Helper()
	m := testMessage(chat, id)
	m.Direction, m.Kind = corebot.Control, corebot.KindControl
	_, err := NewLedger(db).Stop(t.Context(), m, 0, corebot.AuditEvent{}, func(bool) corebot.Message { return outboundTest(chat, id+"/stop") })
	must(t, err)
	settleOut(t, db, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent})
}

// wantWhole fails the test if the store contradicts itself.
func wantWhole(t testing.TB, db *DB) {
	t.Helper()
	problems, err := db.Problems(t.Context())
	must(t, err)
	if len(problems) > 0 {
		t.Errorf("the store contradicts itself:\n%s", strings.Join(problems, "\n"))
	}
}

// ids are the messages that the store knows, in the order of publishing.
func ids(t testing.TB, dir string) []string {
	t.Helper()
	return sideQuery(t, dir, `SELECT message_id FROM message_life ORDER BY id`)
}

func TestAMessageIsForgottenWhenItsTimeIsOverAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		r := keeping(t, db, RetentionOptions{Messages: 30 * day, Dedupe: 7 * day})
		answer(t, db, "a", "1")
		time.Sleep(30*day - time.Second)
		must(t, r.Sweep(t.Context()))
		if again, err := offer(db, testMessage("a", "1")); err != nil || !again.Duplicate {
			t.Fatalf("a second before its time is over it is not known: %+v, %v", again, err)
		}
		if n := count(t, dir, "execution_steps"); n != 2 {
			t.Errorf("%d steps are left of 2", n)
		}
		time.Sleep(2 * time.Second)
		must(t, r.Sweep(t.Context()))
		for _, table := range []string{"message_life", "execution_steps", "lanes"} {
			if n := count(t, dir, table); n != 0 {
				t.Errorf("%d rows of %s are left", n, table)
			}
		}
		if again, err := offer(db, testMessage("a", "1")); err != nil || again.Duplicate {
			t.Errorf("it is not new when it comes again: %+v, %v", again, err)
		}
		wantWhole(t, db)
	})
}

func TestIdsThatWouldBeForgottenTooEarlyAreRefused(t *testing.T) {
	db := openTest(t, t.TempDir())
	for name, o := range map[string]RetentionOptions{
		"shorter than ids must be known": {Messages: 6 * day, Dedupe: 7 * day}, "messages": {Messages: -1}, "audit": {Audit: -1},
		"mailbox": {Mailbox: -1}, "history": {History: -1}, "entries": {HistoryEntries: -1}, "every": {Every: -1},
	} {
		if _, err := NewRetention(db, o); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	keeping(t, db, RetentionOptions{Messages: 7 * day, Dedupe: 7 * day})
	keeping(t, db, RetentionOptions{Dedupe: 7 * day}) // for ever is longer than anything
}

func TestWhatIsNotOverStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		r := keeping(t, db, RetentionOptions{Messages: day})
		dead := corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}

		publishTest(t, db, "dead", "dead with a notice")
		d := claimTest(t, db)
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: dead, Replies: []corebot.Message{outboundTest("dead", "notice of a dead one")}}))
		settleOut(t, db, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent})

		publishTest(t, db, "undelivered", "answered, the reply is dead")
		d = claimTest(t, db)
		done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: done, Replies: []corebot.Message{outboundTest("undelivered", "dead reply")}}))
		settleOut(t, db, dead)

		publishTest(t, db, "waiting", "waits in backoff")
		d = claimTest(t, db)
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
			Outcome: corebot.Outcome{Verb: corebot.RetryAt, At: time.Now().Add(1000 * day)}, Replies: []corebot.Message{outboundTest("waiting", "notice of a waiting one")},
		}))
		settleOut(t, db, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent})
		publishTest(t, db, "waiting", "waits behind it")
		answer(t, db, "over", "over")
		publishTest(t, db, "dead", "merged into the dead one")
		must(t, NewQueue(db).Settle(t.Context(), claimTest(t, db), done))
		sideQuery(t, dir, `UPDATE message_life SET merged_id = 1 WHERE message_id = 'merged into the dead one'`)

		time.Sleep(365 * day)
		answer(t, db, "young", "young")
		for range 3 { // what a first pass leaves alone, no later one takes
			must(t, r.Sweep(t.Context()))
		}
		want := []string{
			"dead with a notice", "notice of a dead one", "answered, the reply is dead", "dead reply", "waits in backoff", "notice of a waiting one",
			"waits behind it", "merged into the dead one", "young", "young/1/0",
		}
		if got := ids(t, dir); !slices.Equal(got, want) {
			t.Errorf("left are %q", got)
		}
		if letters, err := NewDeadLetters(db).List(t.Context(), corebot.DeadLetterFilter{}); err != nil || len(letters) != 2 {
			t.Errorf("of 2 dead letters are listed %+v, %v", letters, err)
		}
		wantWhole(t, db)
	})
}

func TestALaneGoesWhenNothingIsLeftOfItAndComesBackAsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		r := keeping(t, db, RetentionOptions{Messages: day})
		answer(t, db, "a", "1")
		stale := corebot.Lease{Lane: 1, Epoch: 1}
		stopTest(t, db, "a", "s")
		publishTest(t, db, "dead", "d")
		must(t, NewQueue(db).Settle(t.Context(), claimTest(t, db), corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
		time.Sleep(2 * day)
		stopTest(t, db, "young", "s")
		must(t, r.Sweep(t.Context()))
		lanes := sideQuery(t, dir, `SELECT direction, chat FROM lanes ORDER BY id`)
		if !slices.Equal(lanes, []string{"1|dead", "3|young", "2|young"}) {
			t.Errorf("lanes that are left: %q", lanes)
		}
		publishTest(t, db, "a", "2")
		d := claimTest(t, db)
		if d.Lane == stale.Lane {
			t.Errorf("the lane has its old id %d again", d.Lane)
		}
		if lost, err := NewQueue(db).Extend(t.Context(), []corebot.Lease{stale}, time.Now().Add(time.Hour)); err != nil || len(lost) != 1 {
			t.Errorf("the stale worker's lease is lost: %v, %v", lost, err)
		}
		wantWhole(t, db)
	})
}

func TestALaneWhoseChatHasHistoryStaysSoThatItsPlacesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		r := keeping(t, db, RetentionOptions{Messages: day})
		say := func(id string) {
			publishTest(t, db, "a", id)
			d := claimTest(t, db)
			must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
				Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}, History: []corebot.Entry{{Speaker: corebot.SpeakerUser, Text: id}},
			}))
		}
		say("1")
		time.Sleep(2 * day)
		must(t, r.Sweep(t.Context()))
		say("2")
		entries, err := NewHistory(db).Recent(t.Context(), testKey("a"), 10)
		if err != nil || len(entries) != 2 || entries[0].Text != "1" || entries[1].Text != "2" {
			t.Errorf("the history is %+v, %v", entries, err)
		}
	})
}

// A replayed message has had two places in its lane; both are gone with it.
func TestALaneCountsThePlacesOfReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		r := keeping(t, db, RetentionOptions{Messages: day})
		publishTest(t, db, "a", "1")
		d := claimTest(t, db)
		must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
		sideQuery(t, dir, `UPDATE message_life SET "end" = '', ended_at = 0, run = 2, body = NULL`)
		sideQuery(t, dir, `INSERT INTO message_queue (life_id, lane_id, seq, body) VALUES (1, 1, 2, x'7b7d')`)
		sideQuery(t, dir, `UPDATE lanes SET next_seq = 3, depth = 1, bytes = 2, wake_at = 0`)
		again := claimTest(t, db)
		must(t, NewQueue(db).Settle(t.Context(), again, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
		wantWhole(t, db)
		time.Sleep(2 * day)
		must(t, r.Sweep(t.Context()))
		if n := count(t, dir, "lanes"); n != 0 {
			t.Errorf("%d lanes are left", n)
		}
	})
}

// grow adds rows behind the store's back: there are many of them.
func grow(t testing.TB, dir string, n int, insert string, args ...any) {
	t.Helper()
	sideQuery(t, dir, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < `+fmt.Sprint(n)+`) `+insert, args...)
}

// many are lives of one lane that ended at a moment, one behind the other.
func many(t testing.TB, dir string, n int, ended time.Time) {
	t.Helper()
	sideQuery(t, dir, `INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq) VALUES (1, 1, 'main', 'test', '', 'a', '', 'inbound', ?)`, n+1)
	grow(t, dir, n, `INSERT INTO message_life (id, lane_id, message_id, kind, checksum, published_at, ended_at, "end")
		SELECT i, 1, printf('%09d', i), 'prompt', x'00', ?1, ?1, 'answered' FROM n`, ended.UnixMilli())
	sideQuery(t, dir, `UPDATE store SET last_life = ?`, n)
}

func TestOneOperationTakesSoManyRowsAndNoMore(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	old := time.Now().Add(-2 * day)
	many(t, dir, 3*sweepRows, old)
	grow(t, dir, 2*sweepRows+10, `INSERT INTO execution_steps (life_id, run, position, kind, state, started_at) SELECT 1 + i % 7, 1, i, 'model', 'done', 0 FROM n`)
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

func TestAuditEventsAndRepliesHaveTheirOwnTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		r := keeping(t, db, RetentionOptions{Audit: 90 * day, Mailbox: 7 * day})
		write := func(id string) {
			publishTest(t, db, "a", id)
			d := claimTest(t, db)
			step := corebot.Step{Kind: corebot.StepModel, State: corebot.StepDone, Answer: &corebot.Answer{}}
			must(t, NewLedger(db).Record(t.Context(), d, step, corebot.AuditEvent{Event: "tool.result", Tool: id}))
			must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
			must(t, NewMailbox(db).Post(t.Context(), outboundTest("a", id)))
		}
		left := func() string {
			return fmt.Sprint(sideQuery(t, dir, `SELECT tool FROM audit_events`), sideQuery(t, dir, `SELECT message_id FROM mailbox`), count(t, dir, "message_life"))
		}
		write("1")
		time.Sleep(6 * day)
		write("2")
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{0, "[1 2] [1 2] 2"}, {2 * day, "[1 2] [2] 2"}, {80 * day, "[1 2] [] 2"}, {4 * day, "[2] [] 2"}, {day * 7, "[] [] 2"}} {
			time.Sleep(step.after)
			must(t, r.Sweep(t.Context()))
			if got := left(); got != step.want {
				t.Errorf("left are %s, want %s", got, step.want)
			}
		}
	})
}

func TestDaysOfUsageGoWhenTheyHaveBeenOverForLongEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), seeded(t), Options{Accounting: corebot.Accounting{Zone: time.UTC}})
		must(t, err)
		runTest(t, db)
		time.Sleep(time.Until(time.Now().Truncate(day).Add(12 * time.Hour))) // noon
		for n := range 3 {
			if n > 0 {
				time.Sleep(day)
			}
			publishTest(t, db, "a", fmt.Sprint(n))
			must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), corebot.Result{Outcome: ended(), Spent: []corebot.Spent{spentBy("m", 1, 1)}}))
		}
		r := keeping(t, db, RetentionOptions{Usage: day})
		for _, c := range []struct {
			wait time.Duration
			want int
		}{{0, 2}, {12*time.Hour - time.Second, 2}, {time.Second, 1}, {day, 0}} { // the first day ended a day and a half ago
			time.Sleep(c.wait)
			must(t, r.Sweep(t.Context()))
			rows, err := NewBooks(db).Days(t.Context(), "0000", "9999", 10)
			must(t, err)
			if len(rows) != c.want {
				t.Errorf("at %v: %d days, want %d", time.Now(), len(rows), c.want)
			}
		}
	})
}

func TestASweptMailboxNeverUsesACursorAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		box := NewMailbox(db)
		r := keeping(t, db, RetentionOptions{Mailbox: day})
		must(t, box.Post(t.Context(), mail("one", "early")))
		before, err := box.After(t.Context(), mail("one", "").Key, 0, 10)
		must(t, err)
		time.Sleep(2 * day)
		must(t, r.Sweep(t.Context()))
		must(t, box.Post(t.Context(), mail("one", "late")))
		after, err := box.After(t.Context(), mail("one", "").Key, before[0].Cursor, 10)
		if err != nil || len(after) != 1 || after[0].ID != "late" {
			t.Errorf("a reader at the last cursor sees %+v: %v", after, err)
		}
	})
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
				if f.GetName() == "corebot_retention_rows_total" && m.GetCounter().GetValue() != 2 {
					t.Errorf("counted %v rows, want 2", m.GetCounter().GetValue())
				}
				if age := float64(time.Now().Unix()) - m.GetGauge().GetValue(); f.GetName() != "corebot_retention_rows_total" && age > 4000 {
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
	r := keeping(t, db, RetentionOptions{Messages: time.Millisecond, Audit: time.Millisecond, Mailbox: time.Millisecond})
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
