package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/migrations"
)

// writeEvents writes events, each in a transaction of its own.
func writeEvents(t testing.TB, db *DB, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		must(t, db.write(t.Context(), "audit", func(tx *tx) error {
			return auditTx(tx, []corebot.AuditEvent{{
				Event: "tool.result", Tool: tool, Key: testMessage("a", "1").Key,
				Args: "{}", Duration: time.Second,
			}})
		}))
	}
}

// noting asks whether a head that was noted is on the chain.
func noting(h corebot.AuditHead) corebot.AuditProof {
	return corebot.AuditProof{Heads: []corebot.PublishedHead{{AuditHead: h}}}
}

func wholeTrail(t testing.TB, db *DB) corebot.AuditChain {
	t.Helper()
	c, err := NewAudit(db).Verify(t.Context(), corebot.AuditProof{})
	must(t, err)
	return c
}

// inParts verifies the trail by two events at a time. between is called after each part.
func inParts(t testing.TB, db *DB, between func()) (walk corebot.AuditWalk, err error) {
	t.Helper()
	for done := false; !done && err == nil; between() {
		done, err = NewAudit(db).VerifyPart(t.Context(), &walk, 2)
	}
	return walk, err
}

func TestATrailIsVerifiedInPartsWhileItGrowsAndRetentionCutsItsBeginning(t *testing.T) {
	dir := seeded(t)
	db := openTest(t, dir)
	if walk, err := inParts(t, db, func() {}); err != nil || walk.Chain.Events != 0 {
		t.Errorf("an empty trail: %+v %v", walk.Chain, err)
	}
	writeEvents(t, db, "one", "two", "three", "four", "five")
	more := []string{"six", "seven"}
	walk, err := inParts(t, db, func() {
		if len(more) > 0 {
			writeEvents(t, db, more[0])
			more = more[1:]
		}
	})
	if whole := wholeTrail(t, db); err != nil || walk.Chain != whole || whole.Events != 7 {
		t.Errorf("the walk is %+v %v, and the trail %+v", walk.Chain, err, whole)
	}
	cut := false
	walk, err = inParts(t, db, func() {
		if !cut {
			cut = true
			sideQuery(t, dir, `UPDATE audit_chain SET past = 4, hash = (SELECT hash FROM audit_events WHERE id = 4)`)
			sideQuery(t, dir, `DELETE FROM audit_events WHERE id <= 4`)
		}
	})
	if whole := wholeTrail(t, db); err != nil || walk.Chain != whole || whole.Past != 4 || whole.Events != 3 {
		t.Errorf("behind a cut the walk is %+v %v, and the trail %+v", walk.Chain, err, whole)
	}
}

func TestEventsFollowOneAnotherAcrossTransactionsFailuresAndProcesses(t *testing.T) {
	dir := seeded(t)
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	if c := wholeTrail(t, db); c != (corebot.AuditChain{}) {
		t.Errorf("a new trail is %+v", c)
	}
	stop := runWriter(db)
	writeEvents(t, db, "one", "two")
	refused := errors.New("refused")
	err = db.write(t.Context(), "audit", func(tx *tx) error {
		return errors.Join(auditTx(tx, []corebot.AuditEvent{{Tool: "never"}}), refused)
	})
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	writeEvents(t, db, "three")
	before := wholeTrail(t, db)
	if before.Events != 3 || before.Head.Event != 3 || len(before.Head.Hash) != 64 {
		t.Errorf("the trail is %+v", before)
	}
	stop()
	must(t, db.Close())
	db = openTest(t, dir)
	writeEvents(t, db, "four")
	if c := wholeTrail(t, db); c.Events != 4 || c.Head.Event != 4 || c.Head.Hash == before.Head.Hash {
		t.Errorf("the trail is %+v", c)
	}
	for _, noted := range []corebot.AuditHead{before.Head, wholeTrail(t, db).Head} {
		if _, err := NewAudit(db).Verify(t.Context(), noting(noted)); err != nil {
			t.Errorf("the head %v: %v", noted, err)
		}
	}
}

// Each change of a stored trail is found, and the event is named.
func TestAChangedTrailIsBroken(t *testing.T) {
	columns := []string{
		"at", "event", "tool", "agent", "channel", "account", "chat", "thread", "sender", "role", "entry", "outcome",
		"rule", "args", "duration_ms", "step_id",
	}
	changes := map[string]struct {
		sql    string
		broken int64
		why    string
	}{
		"an event is gone": {
			`DELETE FROM audit_events WHERE id = 3`, 3,
			"events 3 to 3 are missing",
		},
		"the first is gone": {
			`DELETE FROM audit_events WHERE id = 1`, 1,
			"events 1 to 1 are missing",
		},
		"the last two are gone": {
			`DELETE FROM audit_events WHERE id > 3`, 4,
			"events 4 to 5 are missing at its end",
		},
		"all are gone": {`DELETE FROM audit_events`, 1, "events 1 to 5 are missing at its end"},
		"a hash is changed": {
			`UPDATE audit_events SET hash = zeroblob(32) WHERE id = 3`, 3,
			"not what was written",
		},
		"two have changed places": {
			`UPDATE audit_events SET tool = CASE id WHEN 2 THEN 'three' ELSE 'two' END, args = '{}' WHERE id IN (2, 3)`,
			2, "not what was written",
		},
		"an event was put in at the end": {
			`INSERT INTO audit_events SELECT 6, at, event, tool, agent, channel, account, chat, thread, sender, role,
				entry, outcome, rule, args, duration_ms, step_id, hash, args_salt, args_sum FROM audit_events
				WHERE id = 5`, 6,
			"not what was written",
		},
		"all have other numbers": {
			`UPDATE audit_events SET id = id + 10; UPDATE audit_chain SET past = 10`, 11, "not what was written",
		},
		"a letter has changed its column": {
			`UPDATE audit_events SET tool = tool || substr(agent, 1, 1), agent = substr(agent, 2) WHERE id = 3`, 3,
			"not what was written",
		},
		"the arguments have another salt": {
			`UPDATE audit_events SET args_salt = zeroblob(16) WHERE id = 3`, 3, "not what was written",
		},
		"other arguments stand beside no salt": {
			`UPDATE audit_events SET args = '{"x":1}', args_salt = x'' WHERE id = 3`, 3, "not what was written",
		},
		"an event has the seal of none of its kind": {
			`UPDATE audit_events SET args_sum = x'', args_salt = x'' WHERE id = 3`, 3, "not what was written",
		},
		"the beginning is said to be later": {`UPDATE audit_chain SET past = 2`, 3, "not what was written"},
		"the beginning is not there":        {`DELETE FROM audit_chain`, 0, "where it begins is not known"},
		"the beginning is behind what was it": {
			`UPDATE audit_chain SET past = 9`, 9,
			"the head that was noted is not there any more",
		},
	}
	for _, c := range long.Every(4, columns) {
		changes["another "+c] = struct {
			sql    string
			broken int64
			why    string
		}{fmt.Sprintf(
			`UPDATE audit_events SET %[1]s = CASE typeof(%[1]s) WHEN 'text' THEN %[1]s || 'x' ELSE %[1]s + 1 END
				WHERE id = 3`, c), 3, "not what was written"}
	}
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			dir := seeded(t)
			db := openTest(t, dir)
			writeEvents(t, db, "one", "two", "three", "four", "five")
			sideQuery(t, dir, c.sql)
			broken := (*corebot.BrokenChain)(nil)
			noted := corebot.AuditHead{Event: 9, Hash: strings.Repeat("0", 64)}
			if _, err := NewAudit(db).Verify(t.Context(), noting(noted)); !errors.As(err, &broken) ||
				broken.Event != c.broken || !strings.Contains(broken.Why, c.why) {
				t.Errorf("got %v, want event %d: %s", err, c.broken, c.why)
			}
			if c.why == "the head that was noted is not there any more" { // the trail itself fits together
				return
			}
			if _, err := inParts(t, db, func() {}); !errors.As(err, &broken) || broken.Event != c.broken ||
				!strings.Contains(broken.Why, c.why) {
				t.Errorf("in parts: got %v, want event %d: %s", err, c.broken, c.why)
			}
		})
	}
}

// An attacker who can compute hashes can make a trail that fits together. A head that was noted before shows the
// change.
func TestATrailThatWasWrittenAnewDoesNotHaveTheHeadThatWasNoted(t *testing.T) {
	dir := seeded(t)
	db := openTest(t, dir)
	writeEvents(t, db, "one", "two")
	noted := wholeTrail(t, db).Head
	sideQuery(t, dir, `DELETE FROM audit_events`)
	at := link{}
	for _, tool := range []string{"one", "forged", "three"} {
		e := corebot.AuditEvent{At: time.UnixMilli(1), Tool: tool}
		at = at.follow(&e)
		sideQuery(t, dir, `INSERT INTO audit_events (id, hash, at, event, tool, agent, channel, account, chat, thread,
			sender, role, entry, outcome, rule, args, duration_ms, step_id)
			VALUES (?, ?, 1, '', ?, '', '', '', '', '', '', '', '', '', '', '', 0, '')`, at.id, at.hash, tool)
	}
	wholeTrail(t, db)
	broken := (*corebot.BrokenChain)(nil)
	if _, err := NewAudit(db).Verify(t.Context(), noting(noted)); !errors.As(err, &broken) || broken.Event != 2 ||
		!strings.Contains(broken.Why, "another one") {
		t.Errorf("the forged trail: %v", err)
	}
	later := corebot.AuditHead{Event: 7, Hash: noted.Hash}
	if _, err := NewAudit(db).Verify(t.Context(), noting(later)); !errors.As(err, &broken) || broken.Event != 7 ||
		!strings.Contains(broken.Why, "ends before it") {
		t.Errorf("a head that is further on: %v", err)
	}
}

// Verify misses events that were deleted at the end, even after other events have followed, in this process or another.
func TestAnEndThatWasCutOffIsMissedForEver(t *testing.T) {
	for name, restart := range map[string]bool{"in the same process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			dir := seeded(t)
			db, err := Open(t.Context(), dir, Options{})
			must(t, err)
			stop := runWriter(db)
			writeEvents(t, db, "one", "two", "three")
			sideQuery(t, dir, `DELETE FROM audit_events WHERE id > 1`)
			if restart {
				stop()
				must(t, db.Close())
				db = openTest(t, dir)
			} else {
				t.Cleanup(func() {
					stop()
					must(t, db.Close())
				})
			}
			writeEvents(t, db, "four")
			broken := (*corebot.BrokenChain)(nil)
			if _, err := NewAudit(db).Verify(t.Context(), corebot.AuditProof{}); !errors.As(err, &broken) ||
				broken.Event != 2 ||
				!strings.Contains(broken.Why, "events 2 to 3 are missing") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRetentionCutsTheTrailAtItsOldEndAndItGoesOnFromThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		db, err := Open(t.Context(), dir, Options{})
		must(t, err)
		stop := runWriter(db)
		r := keeping(t, db, RetentionOptions{Audit: 3 * day})
		for range 2*sweepRows + 10 {
			writeEvents(t, db, "old")
		}
		noted := wholeTrail(t, db).Head
		time.Sleep(2 * day)
		writeEvents(t, db, "young")
		time.Sleep(2 * day)
		must(t, r.Sweep(t.Context()))
		c := wholeTrail(t, db)
		if c.Past != 2*sweepRows+10 || c.Events != 1 || c.Head.Event != c.Past+1 {
			t.Errorf("after a cut the trail is %+v", c)
		}
		// the event is gone, its hash is where the trail goes on from
		if _, err := NewAudit(db).Verify(t.Context(), noting(noted)); err != nil {
			t.Errorf("the head before the cut: %v", err)
		}
		time.Sleep(2 * day)
		must(t, r.Sweep(t.Context()))
		if c := wholeTrail(t, db); c.Events != 0 || c.Head.Event != 2*sweepRows+11 {
			t.Errorf("when all is gone the trail is %+v", c)
		}
		stop()
		must(t, db.Close())
		db = openTest(t, dir)
		writeEvents(t, db, "next")
		if c := wholeTrail(t, db); c.Events != 1 || c.Head.Event != 2*sweepRows+12 {
			t.Errorf("it goes on as %+v", c)
		}
	})
}

// A log that is kept elsewhere has the heads, each once.
func TestEachPassLogsTheHeadIfItHasGoneOn(t *testing.T) {
	db := openTest(t, t.TempDir())
	var log strings.Builder
	r, err := NewRetention(db, RetentionOptions{Log: zerolog.New(&log)})
	must(t, err)
	for _, events := range []int{0, 2, 0, 1} {
		log.Reset()
		writeEvents(t, db, slices.Repeat([]string{"x"}, events)...)
		must(t, r.Sweep(t.Context()))
		if told := strings.Contains(log.String(), `"head":"`+wholeTrail(t, db).Head.String()+
			`"`); told != (events > 0) {
			t.Errorf("after %d events the log is %s", events, &log)
		}
	}
}

// A young event between old ones keeps what is behind it; one of the future does not.
func TestRetentionStopsAtTheFirstYoungEvent(t *testing.T) {
	for name, c := range map[string]struct {
		ages []time.Duration
		left []string
	}{
		"a young one in between":   {[]time.Duration{2 * day, time.Hour, 2 * day}, []string{"2", "3"}},
		"a clock that was ahead":   {[]time.Duration{2 * day, -1000 * day, 2 * day, time.Hour}, []string{"4"}},
		"a clock that is ahead":    {[]time.Duration{2 * day, -1000 * day}, []string{"2"}},
		"nothing that is old":      {[]time.Duration{time.Hour}, []string{"1"}},
		"nothing that is not old ": {[]time.Duration{2 * day, 3 * day}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := seeded(t)
			db := openTest(t, dir)
			for i, age := range c.ages {
				writeEvents(t, db, "x")
				sideQuery(t, dir, `UPDATE audit_events SET at = ? WHERE id = ?`, time.Now().Add(-age).UnixMilli(), i+1)
			}
			must(t, keeping(t, db, RetentionOptions{Audit: day}).Sweep(t.Context()))
			if left := sideQuery(t, dir, `SELECT id FROM audit_events ORDER BY id`); !slices.Equal(left, c.left) {
				t.Errorf("left are %q, want %q", left, c.left)
			}
		})
	}
}

func TestEventsOfAnOlderSchemaAreBeforeTheChain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	must(t, migrateTo(t.Context(), path, migrations.FS, 9))
	for _, at := range []int64{1, time.Now().UnixMilli()} {
		sideQuery(t, path, `INSERT INTO audit_events (at, event, tool, agent, channel, account, chat, thread, sender,
			role, entry, outcome, rule, args, duration_ms, step_id)
			VALUES (?, '', 'old', '', '', '', '', '', '', '', '', '', '', '', 0, '')`, at)
	}
	db := openTest(t, dir)
	writeEvents(t, db, "new")
	if c := wholeTrail(t, db); c.Past != 2 || c.Events != 1 || c.Head.Event != 3 {
		t.Errorf("the trail is %+v", c)
	}
	must(t, keeping(t, db, RetentionOptions{Audit: day}).Sweep(t.Context()))
	if c := wholeTrail(t, db); c.Past != 2 || c.Events != 1 || len(sideQuery(t, dir,
		`SELECT id FROM audit_events`)) != 2 {
		t.Errorf("without the old event it is %+v", c)
	}
}

func BenchmarkVerifyAThousandEvents(b *testing.B) {
	db := openTest(b, b.TempDir())
	must(b, db.write(b.Context(), "audit", func(tx *tx) error {
		return auditTx(tx, slices.Repeat([]corebot.AuditEvent{{
			Event: "tool.result", Tool: "fs.read",
			Key: testMessage("a", "1").Key, Args: strings.Repeat("x", 200),
		}}, 1000))
	}))
	for b.Loop() {
		wholeTrail(b, db)
	}
}
