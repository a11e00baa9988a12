package storage

import (
	"context"
	"errors"
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
		if records := count(t, dir, "forgotten"); records != 300 { // in whose bytes no word is looked for below
			t.Errorf("there are %d records of what was forgotten", records)
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

// A turn runs, and shows its answer in a draft while it grows. The deletion is refused until the turn has ended, and
// changes nothing until then. The end of the turn goes with the rest.
func TestBesideATurnThatShowsADraftNothingIsDeletedAndAfterItsEndAll(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	marked(t, db, "gone", "wombat", 3)
	k := testKey("gone")
	publishTest(t, db, "gone", "runs")
	d := claimTest(t, db)
	drafts := NewDrafts(db)
	draft := corebot.Draft{Key: k, Answers: "runs", Shown: "wombat7", Began: time.Now()}
	must(t, drafts.Put(t.Context(), draft))
	entries, trail := count(t, dir, "history"), wholeTrail(t, db).Events
	f := NewForgetting(db)
	_, err := f.Chat(t.Context(), k, func(context.Context, corebot.Key) error {
		t.Error("files are deleted beside the turn")
		return nil
	})
	if !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("beside a turn it is %v", err)
	}
	all, err := drafts.All(t.Context())
	must(t, err)
	if n := count(t, dir, "history"); n != entries || len(all) != 1 || wholeTrail(t, db).Events != trail {
		t.Errorf("%d entries of %d and %d drafts are left", n, entries, len(all))
	}
	must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		History: []corebot.HistoryEntry{{
			Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart("the wombat at the end"), At: time.Now(),
		}},
	}))
	_, err = f.Chat(t.Context(), k, nil)
	must(t, err)
	_, err = f.Overwrite(t.Context())
	must(t, err)
	if left := holds(t, dir, "wombat"); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	if all, err = drafts.All(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("the drafts are %v: %v", all, err)
	}
	wantWhole(t, db)
}

// A turn that began in the middle of a deletion would read facts, files and pages that are about to go, and would write
// them down again. So it begins behind the deletion. Other chats go on.
func TestInTheMiddleOfADeletionNoTurnOfTheChatBegins(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	marked(t, db, "gone", "wombat", 3)
	marked(t, db, "stays", "quokka", 3)
	claimed := make(chan corebot.Delivery, 2)
	claim := func() { // waits until a lane is ready
		d, err := NewQueue(db).Claim(t.Context(), corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute})
		if err == nil && len(d) == 1 {
			claimed <- d[0]
		} else {
			t.Errorf("claimed are %v: %v", d, err)
		}
	}
	f := NewForgetting(db)
	_, err := f.Chat(t.Context(), testKey("gone"), func(context.Context, corebot.Key) error {
		publishTest(t, db, "gone", "early")
		publishTest(t, db, "stays", "other")
		go claim()
		if d := <-claimed; d.Message.Key != testKey("stays") {
			t.Errorf("in the middle of the deletion begins %s", d.Message.Key)
		}
		return nil
	})
	must(t, err)
	go claim()
	if d := <-claimed; d.Message.ID != "early" {
		t.Errorf("afterwards begins %s", d.Message.ID)
	}
}

// A turn can begin between the first look at a chat and the beginning of its deletion.
func TestADeletionLooksForTurnsAgainInTheCommitThatBeginsIt(t *testing.T) {
	db := openTest(t, t.TempDir())
	marked(t, db, "gone", "wombat", 3)
	f, k := NewForgetting(db), testKey("gone")
	keys, resumed, err := f.meant(t.Context(), k)
	must(t, err)
	publishTest(t, db, "gone", "late")
	session := sideQuery(t, db.path, `SELECT session FROM chats`)
	if err := f.begin(t.Context(), k, keys, resumed); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("beside a message that came meanwhile it is %v", err)
	}
	if now := sideQuery(t, db.path, `SELECT session FROM chats`); now[0] != session[0] {
		t.Errorf("the session was %s and is %s", session[0], now[0])
	}
}

// The tool memory.recall asks by words, or by words and meaning. In both ways half of the places are the asker's own.
func TestARecallHasRoomForWhatTheAskerSaidInEachWay(t *testing.T) {
	db, k := openTest(t, t.TempDir()), testKey("a")
	person := func(id string) corebot.Principal { return corebot.Principal{Channel: "test", ID: id} }
	var all []corebot.Fact
	for i := range 120 {
		who := "mallory"
		if i < 2 {
			who = "ann"
		}
		all = append(all, corebot.Fact{
			Key: k, Scope: corebot.FactsOfChat, Subject: "the wombat", Relation: "is in", Object: fmt.Sprint("Oslo", i),
			Sender: person(who), MessageID: "m", At: time.Now(),
		})
	}
	usedTest(t, db, "a", "m")
	must(t, NewFacts(db).Learn(t.Context(), all...))
	byMeaning := NewVectors(db, VectorOptions{Embedder: marks{}, Model: "m"})
	must(t, byMeaning.CatchUp(t.Context()))
	for way, v := range map[string]*Vectors{"words": NewVectors(db, VectorOptions{}), "meaning": byMeaning} {
		for who, want := range map[string]int{"ann": 2, "mallory": 0, "": 0} {
			found, m, err := v.Recall(t.Context(), k, person(who), "where is the wombat", 12)
			must(t, err)
			own := 0
			for _, f := range found {
				if f.Sender == person("ann") {
					own++
				}
			}
			if own != want || len(found) != 12 || m.Meaning != (way == "meaning") {
				t.Errorf("by %s, for %q, are %d facts, %d of them ann's", way, who, len(found), own)
			}
		}
	}
}
