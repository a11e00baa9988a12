package storage

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// published is the head of the trail as it would be published now.
func published(t *testing.T, db *DB) corebot.PublishedHead {
	t.Helper()
	h, err := NewAudit(db).Head(t.Context())
	must(t, err)
	h.At = time.Now()
	return h
}

// rewrite does what somebody does who can write the database: he changes the trail, and computes all hashes anew.
func rewrite(t *testing.T, db *DB, change string, args ...any) {
	t.Helper()
	must(t, db.write(t.Context(), "attack", func(tx *tx) error {
		if _, err := tx.exec(&query{change}, args...); err != nil {
			return err
		}
		var past link
		if _, err := tx.one(selectAuditPast, []any{&past.id, &past.hash}); err != nil {
			return err
		}
		var all []corebot.AuditEvent
		if err := tx.each(auditRecords, func(s scanner) error {
			e, err := scanEvent(s, new([]byte))
			all = append(all, e)
			return err
		}, past.id, 1000); err != nil {
			return err
		}
		for _, e := range all {
			e.Seal = corebot.SealArgs(e.Seal.Salt, e.Args)
			past = past.follow(&e)
			if _, err := tx.exec(&query{`UPDATE audit_events SET id = ?, hash = ?, args_sum = ? WHERE id = ?`}, past.id,
				past.hash, e.Seal.Sum, e.ID); err != nil {
				return err
			}
		}
		tx.audit = past
		_, err := tx.exec(&query{`UPDATE sqlite_sequence SET seq = ? WHERE name = 'audit_events'`}, past.id)
		return err
	}))
}

func TestATrailThatWasWrittenAnewIsFoundByItsPublishedHeadsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		change string
		first  int64 // the first head that does not hold
		why    string
	}{
		"an event is changed":       {`UPDATE audit_events SET args = '{"x":1}' WHERE id = 3`, 4, "another one"},
		"an event is taken out":     {`DELETE FROM audit_events WHERE id = 3`, 4, "another one"},
		"the end is cut off":        {`DELETE FROM audit_events WHERE id > 5`, 6, "the trail ends before it"},
		"all is gone":               {`DELETE FROM audit_events`, 2, "the trail ends before it"},
		"the database is another":   {`UPDATE store SET identity = 'another'`, 8, "another one"},
		"the beginning is cut off":  {`DELETE FROM audit_events WHERE id < 5`, 2, ""},
		"a restore is made up":      {`UPDATE audit_events SET event = 'db.restore' WHERE id = 3`, 4, "another one"},
		"an event has another time": {`UPDATE audit_events SET at = at - 1 WHERE id = 1`, 2, "another one"},
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, t.TempDir())
			var proof corebot.AuditProof
			for range 4 {
				writeEvents(t, db, "one", "two")
				proof.Heads = append(proof.Heads, published(t, db))
			}
			proof.Kept = time.Hour
			if c, err := NewAudit(db).Verify(t.Context(), proof); err != nil || c.Held != 4 || c.Older != 0 {
				t.Fatalf("as it was written it is %+v: %v", c, err)
			}
			must(t, NewAudit(db).Follows(t.Context(), proof.Heads[3]))
			rewrite(t, db, c.change)
			if _, err := NewAudit(db).Verify(t.Context(), corebot.AuditProof{}); err != nil {
				t.Errorf("by itself the new trail does not fit together: %v", err)
			}
			broken := (*corebot.BrokenChain)(nil)
			if _, err := NewAudit(db).Verify(t.Context(), proof); !errors.As(err, &broken) || broken.Event != c.first ||
				!strings.Contains(broken.Why, c.why) {
				t.Errorf("with heads it is %v", err)
			}
			if name == "the database is another" { // the publisher compares that
				return
			}
			if err := NewAudit(db).Follows(t.Context(), proof.Heads[3]); !errors.As(err, &broken) {
				t.Errorf("the next head would be signed: %v", err)
			}
		})
	}
}

// Retention cuts the trail, too. A cut is retention's only where all events in front of it are old enough.
func TestACutThatRetentionWouldNotHaveMadeIsFound(t *testing.T) {
	db := openTest(t, t.TempDir())
	writeEvents(t, db, "one", "two")
	old := published(t, db)
	writeEvents(t, db, "three", "four")
	newer := published(t, db)
	must(t, db.write(t.Context(), "attack", func(tx *tx) error {
		_, err := tx.exec(&query{`UPDATE audit_chain SET past = 3,
			hash = (SELECT hash FROM audit_events WHERE id = 3)`})
		if err == nil {
			_, err = tx.exec(&query{`DELETE FROM audit_events WHERE id <= 3`})
		}
		return err
	}))
	proof := corebot.AuditProof{Heads: []corebot.PublishedHead{old, newer}, Kept: time.Hour}
	broken := (*corebot.BrokenChain)(nil)
	if _, err := NewAudit(db).Verify(t.Context(), proof); !errors.As(err, &broken) || broken.Event != 2 ||
		!strings.Contains(broken.Why, "not there any more") {
		t.Errorf("a cut of young events is %v", err)
	}
	proof.Heads[0].EventAt = time.Now().Add(-2 * time.Hour)
	if c, err := NewAudit(db).Verify(t.Context(), proof); err != nil || c.Older != 1 || c.Held != 1 {
		t.Errorf("a cut of old events is %+v: %v", c, err)
	}
}

func TestARestoredBackupIsToldFromATrailThatWasCut(t *testing.T) {
	db := openTest(t, t.TempDir())
	writeEvents(t, db, "one", "two")
	kept := published(t, db)
	writeEvents(t, db, "three", "four")
	lost := published(t, db)
	lost.At = lost.At.Add(-time.Second)
	rewrite(t, db, `DELETE FROM audit_events WHERE id > 2`) // as in the backup
	must(t, db.write(t.Context(), "restore", func(tx *tx) error {
		return changeTx(tx, byOperator(), restoreEvent, homeItself, map[string]any{"auditHead": kept.String()})
	}))
	writeEvents(t, db, "after")
	after := published(t, db)
	after.At = after.At.Add(time.Second)
	proof := corebot.AuditProof{Heads: []corebot.PublishedHead{kept, lost, after}}
	broken := (*corebot.BrokenChain)(nil)
	if _, err := NewAudit(db).Verify(t.Context(), proof); !errors.As(err, &broken) || broken.Event != 4 ||
		!strings.Contains(corebot.HintOf(err), "--restored 3") {
		t.Fatalf("a restore that nobody has named is %v (%s)", err, corebot.HintOf(err))
	}
	for _, wrong := range [][]int64{{1}, {4}, {99}} {
		proof.Restored = wrong
		if _, err := NewAudit(db).Verify(t.Context(), proof); err == nil {
			t.Errorf("the event %v counts as a restore", wrong)
		}
	}
	proof.Restored = []int64{3}
	if c, err := NewAudit(db).Verify(t.Context(), proof); err != nil || c.Held != 2 || c.LeftBehind != 1 {
		t.Errorf("a restore that is known is %+v: %v", c, err)
	}
	must(t, NewAudit(db).Follows(t.Context(), lost)) // the next head is signed
	// A head that was published after the restore is not left behind by it.
	proof.Heads = append(proof.Heads, corebot.PublishedHead{
		AuditHead: corebot.AuditHead{Event: 4, Hash: lost.Hash}, At: after.At, Database: lost.Database,
	})
	if _, err := NewAudit(db).Verify(t.Context(), proof); !errors.As(err, &broken) {
		t.Errorf("a later head of the lost part is %v", err)
	}
}

func TestTheRecordsOfTheTrailFitTogether(t *testing.T) {
	db := openTest(t, t.TempDir())
	writeEvents(t, db, "one", "two", "three", "four", "five")
	var walk corebot.AuditWalk
	walk.Begin(0, nil, nil)
	for after := int64(0); ; {
		found, err := NewAudit(db).Records(t.Context(), after, 2)
		must(t, err)
		if len(found) == 0 {
			break
		}
		for _, r := range found {
			must(t, walk.Step(r))
			after = r.ID
		}
	}
	if got, want := walk.Chain.Head, published(t, db).AuditHead; got != want {
		t.Errorf("the records end at %v, the trail at %v", got, want)
	}
	if h, err := hex.DecodeString(walk.Chain.Head.Hash); err != nil || len(h) != 32 {
		t.Error("the head has no hash")
	}
}
