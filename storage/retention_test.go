package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
		must(t, ledger.Record(t.Context(), d, corebot.Step{
			Position: position, Kind: corebot.StepModel,
			State: corebot.StepDone, Answer: &corebot.Answer{},
		}))
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
	out, err := NewQueue(db).Claim(t.Context(), corebot.OutboundPool("test"), 1,
		corebot.ClaimOptions{Lease: time.Minute})
	must(t, err)
	must(t, NewQueue(db).Settle(t.Context(), out[0], o))
}

func stopTest(t testing.TB, db *DB, chat, id string) {
	t.Helper()
	m := testMessage(chat, id)
	m.Direction, m.Kind = corebot.Control, corebot.KindControl
	_, err := NewLedger(db).Stop(t.Context(), m, 0, corebot.AuditEvent{},
		func(bool) corebot.Message { return outboundTest(chat, id+"/stop") })
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

func TestRetentionFreesThePagesOfLargeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		r := keeping(t, db, RetentionOptions{Messages: time.Minute, History: time.Minute})
		long := strings.Repeat("x", 500_000)
		large := func(id string) {
			publishTest(t, db, "a", id)
			d := claimTest(t, db)
			must(t, NewLedger(db).Record(t.Context(), d, corebot.Step{
				Kind: corebot.StepModel, State: corebot.StepDone, StartedAt: time.Now(), EndedAt: time.Now(),
				Answer: &corebot.Answer{Text: long},
			}))
			must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
				Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
				History: []corebot.HistoryEntry{{
					Speaker: corebot.SpeakerUser, Parts: corebot.TextPart(long),
					At: time.Now(),
				}},
			}))
		}
		pages := func(pragma string) (n int64) {
			_, err := db.reader.one(t.Context(), &query{"PRAGMA " + pragma}, []any{&n})
			must(t, err)
			return n
		}
		large("1")
		all := pages("page_count")
		if free := pages("freelist_count"); free > all/10 {
			t.Fatalf("%d of %d pages are free before anything was swept", free, all)
		}
		time.Sleep(2 * time.Minute)
		must(t, r.Sweep(t.Context()))
		if free, size := pages("freelist_count"), pages("page_size"); free*size < 900_000 {
			t.Errorf("%d pages of %d bytes are free, want those of a journal and a history of 500,000 bytes each", free,
				size)
		}
		large("2")
		if now := pages("page_count"); now > all+all/10 {
			t.Errorf("the file has %d pages after the same again, and had %d: free pages are not used again", now, all)
		}
	})
}

func TestIdsThatWouldBeForgottenTooEarlyAreRefused(t *testing.T) {
	db := openTest(t, t.TempDir())
	for name, o := range map[string]RetentionOptions{
		"shorter than ids must be known": {Messages: 6 * day, Dedupe: 7 * day}, "messages": {Messages: -1},
		"audit":   {Audit: -1},
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
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
			Outcome: dead,
			Replies: []corebot.Message{outboundTest("dead", "notice of a dead one")},
		}))
		settleOut(t, db, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent})

		publishTest(t, db, "undelivered", "answered, the reply is dead")
		d = claimTest(t, db)
		done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
			Outcome: done,
			Replies: []corebot.Message{outboundTest("undelivered", "dead reply")},
		}))
		settleOut(t, db, dead)

		publishTest(t, db, "waiting", "waits in backoff")
		d = claimTest(t, db)
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
			Outcome: corebot.Outcome{Verb: corebot.RetryAt, At: time.Now().Add(1000 * day)},
			Replies: []corebot.Message{outboundTest("waiting", "notice of a waiting one")},
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
			"dead with a notice", "notice of a dead one", "answered, the reply is dead", "dead reply",
			"waits in backoff", "notice of a waiting one",
			"waits behind it", "merged into the dead one", "young", "young/1/0",
		}
		if got := ids(t, dir); !slices.Equal(got, want) {
			t.Errorf("left are %q", got)
		}
		if letters, err := NewDeadLetters(db).List(t.Context(), corebot.DeadLetterFilter{}); err != nil ||
			len(letters) != 2 {
			t.Errorf("of 2 dead letters are listed %+v, %v", letters, err)
		}
		wantWhole(t, db)
	})
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
			return fmt.Sprint(sideQuery(t, dir, `SELECT tool FROM audit_events`),
				sideQuery(t, dir, `SELECT message_id FROM mailbox`), count(t, dir, "message_life"))
		}
		write("1")
		time.Sleep(6 * day)
		write("2")
		for _, step := range []struct {
			after time.Duration
			want  string
		}{
			{0, "[1 2] [1 2] 2"},
			{2 * day, "[1 2] [2] 2"},
			{80 * day, "[1 2] [] 2"},
			{4 * day, "[2] [] 2"},
			{day * 7, "[] [] 2"},
		} {
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
			must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), corebot.Result{
				Outcome: ended(),
				Spent:   []corebot.ModelUsage{spentBy("m", 1, 1)},
			}))
		}
		r := keeping(t, db, RetentionOptions{Usage: day})
		for _, c := range []struct {
			wait time.Duration
			want int
			// the first day ended a day and a half ago
		}{{0, 2}, {12*time.Hour - time.Second, 2}, {time.Second, 1}, {day, 0}} {
			time.Sleep(c.wait)
			must(t, r.Sweep(t.Context()))
			rows, _, err := NewBooks(db).Page(t.Context(), "0000", "9999", "", 10)
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

// mail is a reply that a program fetches.
func mail(chat, id string) corebot.Message {
	return corebot.Message{
		ID: id, Direction: corebot.Outbound, Kind: corebot.KindReply, InReplyTo: "q-" + id,
		Parts: corebot.TextPart("text of " + id),
		Key:   corebot.Key{Agent: "main", Channel: "webhook", Chat: chat},
	}
}

func TestRetentionTakesOtherTimesFromTheNextPassOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		writeEvents(t, db, "one", "two")
		r := keeping(t, db, RetentionOptions{})
		time.Sleep(2 * day)
		must(t, r.Sweep(t.Context()))
		if c := wholeTrail(t, db); c.Events != 2 {
			t.Fatalf("kept for ever, the trail has %d events", c.Events)
		}
		early := RetentionOptions{Messages: time.Hour, Dedupe: day}
		if _, err := r.Prepare(early); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("ids that are forgotten too early: %v", err)
		}
		apply, err := r.Prepare(RetentionOptions{Audit: day})
		must(t, err)
		must(t, r.Sweep(t.Context()))
		if c := wholeTrail(t, db); c.Events != 2 {
			t.Fatalf("prepared and not applied, the trail has %d events", c.Events)
		}
		apply()
		must(t, r.Sweep(t.Context()))
		if c := wholeTrail(t, db); c.Events != 0 || c.Past != 2 {
			t.Errorf("kept for a day, the trail is %+v", c)
		}
	})
}
