package storage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// A forgotten fact is gone from its rows and indexes at once. Its bytes can stay in free pages until a vacuum.
func TestOfForgottenFactsAVacuumLeavesNoByte(t *testing.T) {
	dir, k, who := t.TempDir(), testKey("a"), corebot.Principal{Channel: "test", ID: "ann"}
	must(t, Seed(dir))
	earlier(t, dir, func(db *DB) {
		usedTest(t, db, "a", "m0")
		facts := NewFacts(db)
		for _, mark := range []string{"quokka", "wombat"} {
			for i := range 300 { // so many that whole pages become free
				must(t, facts.Learn(t.Context(), corebot.Fact{
					Key: k, Scope: corebot.FactsOfChat, Subject: fmt.Sprintf("%s%d", mark, i), Relation: "is",
					Object: strings.Repeat(mark+" ", 20), Sender: who, MessageID: "m0", At: time.Now(),
				}))
			}
		}
		must(t, NewVectors(db, VectorOptions{Embedder: marks{}, Model: "m"}).CatchUp(t.Context()))
		all, err := facts.Page(t.Context(), k, true, 1000)
		must(t, err)
		var ids []int64
		for _, fact := range all {
			if strings.HasPrefix(fact.Subject, "wombat") {
				ids = append(ids, fact.ID)
			}
		}
		vectors := count(t, dir, "vectors")
		n, err := facts.Forget(t.Context(), k, ids, func(corebot.Fact) bool { return true })
		must(t, err)
		if n != 300 || len(all) != 600 {
			t.Fatalf("%d of %d facts were forgotten", n, len(all))
		}
		if left := count(t, dir, "facts"); left != 300 {
			t.Errorf("%d facts are left", left)
		}
		if left := count(t, dir, "vectors"); left != vectors-300 {
			t.Errorf("of %d vectors %d are left", vectors, left)
		}
		if left := sideQuery(t, dir, `SELECT word FROM fact_words WHERE word LIKE '%wombat%'`); len(left) > 0 {
			t.Errorf("the index still has %v", left)
		}
		if found, err := facts.Recall(t.Context(), k, "wombat7", 10); err != nil || len(found) > 0 {
			t.Errorf("recalled is %+v: %v", found, err)
		}
	})
	if len(holds(t, dir, "wombat")) == 0 {
		t.Fatal("no free page has the words: the vacuum would prove nothing")
	}
	_, err := Vacuum(t.Context(), dir)
	must(t, err)
	for _, gone := range []string{"wombat", string(markVector("wombat"))} {
		if left := holds(t, dir, gone); len(left) > 0 {
			t.Errorf("%q is left: %v", gone, left)
		}
	}
	for _, stays := range []string{"quokka", string(markVector("quokka"))} {
		if len(holds(t, dir, stays)) == 0 {
			t.Errorf("%q is gone, too", stays)
		}
	}
}
