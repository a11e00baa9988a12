package storage

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// toldTest is a fact that somebody told in a message of a chat.
func toldTest(k corebot.Key, who, message, relation, object string) corebot.Fact {
	p := corebot.Principal{Channel: "test", ID: who}
	return corebot.Fact{
		Key: k, Scope: corebot.FactsOfChat, Subject: who + " (" + p.Label() + ")", Relation: relation, Object: object,
		Sender: p, MessageID: message,
	}
}

// foundTest has a model find facts in messages of a chat, and gives the objects of those that the chat has then.
func foundTest(t *testing.T, db *DB, k corebot.Key, facts ...corebot.Fact) (objects []string) {
	t.Helper()
	m := testMessage(k.Chat, fmt.Sprint("finds", time.Now().UnixNano()))
	m.Key = k
	_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
	must(t, err)
	d := claimTest(t, db)
	step := corebot.Step{Kind: corebot.StepFacts, State: corebot.StepDone, Answer: &corebot.Answer{}}
	must(t, NewLedger(db).Learn(t.Context(), d, step, facts))
	must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
	}))
	return objectsTest(t, db, k)
}

func objectsTest(t *testing.T, db *DB, k corebot.Key) (objects []string) {
	t.Helper()
	all, err := NewFacts(db).Page(t.Context(), k, true, 100)
	must(t, err)
	for _, f := range all {
		objects = append(objects, f.Object)
	}
	slices.Sort(objects)
	return objects
}

// forgetTest has facts with one of some objects forgotten.
func forgetTest(t *testing.T, db *DB, k corebot.Key, objects ...string) {
	t.Helper()
	all, err := NewFacts(db).Page(t.Context(), k, true, 20_000)
	must(t, err)
	var ids []int64
	for _, f := range all {
		ids = append(ids, f.ID)
	}
	n, err := NewFacts(db).Forget(t.Context(), k, ids, func(f corebot.Fact) bool {
		return slices.Contains(objects, f.Object)
	})
	must(t, err)
	if n != len(objects) {
		t.Fatalf("%d facts were forgotten", n)
	}
}

func TestAForkKnowsWhatWasForgottenBeforeIt(t *testing.T) {
	dir := t.TempDir()
	k, fork, again := testKey("a"), testKey("f"), testKey("g")
	malmo := toldTest(k, "ann", "m0", "lives in", "Malmö")
	in := func(k corebot.Key, f corebot.Fact) corebot.Fact {
		f.Key = k
		return f
	}
	earlier(t, dir, func(db *DB) {
		exchangeTest(t, db, k, "m0", "ann", false)
		exchangeTest(t, db, k, "m1", "ann", false)
		foundTest(t, db, k, malmo)
		forgetTest(t, db, k, "Malmö")
	})
	db := openTest(t, dir)
	for _, f := range []corebot.Fork{{From: k, To: fork, At: "m1"}, {From: fork, To: again, At: "m1"}} {
		_, err := NewSessions(db).Fork(t.Context(), f)
		must(t, err)
	}
	other := toldTest(k, "ann", "m1", "has", "a cat")
	for _, k := range []corebot.Key{k, fork, again} {
		reworded := in(k, toldTest(k, "Ann", "m0", "home", "in Malmö now"))
		reworded.Sender = malmo.Sender
		if got := foundTest(t, db, k, in(k, malmo), reworded, in(k, other)); !slices.Equal(got, []string{"a cat"}) {
			t.Errorf("%s knows %q", k, got)
		}
	}
	forgetTest(t, db, fork, "a cat")
	if got := foundTest(t, db, fork, in(fork, other)); len(got) > 0 {
		t.Errorf("the fork knows %q", got)
	}
	if got := foundTest(t, db, k, in(k, toldTest(k, "ann", "m2", "has", "a dog"))); !slices.Equal(got,
		[]string{"a cat", "a dog"}) {
		t.Errorf("what its fork has forgotten, the chat knows: %q", got)
	}
	wantWhole(t, db)
}

// A link gives the records to the sender under his name in the other chat. They go with the words of the link.
func TestALinkedChatKnowsWhatWasForgottenWhileItIsLinked(t *testing.T) {
	db, from, to := openTest(t, t.TempDir()), testKey("a"), testKey("b")
	to.Channel = "other"
	for _, id := range []string{"m0", "m1"} {
		exchangeTest(t, db, from, id, "ann", false)
	}
	exchangeTest(t, db, to, "n0", "ann", false)
	malmo := toldTest(from, "ann", "m0", "lives in", "Malmö")
	lund := toldTest(from, "ann", "before the session", "works in", "Lund")
	foundTest(t, db, from, malmo, lund, toldTest(from, "ann", "m1", "has", "a cat"))
	forgetTest(t, db, from, "Malmö", "Lund")
	_, err := NewLinks(db).Put(t.Context(), from, to)
	must(t, err)
	there := func(f corebot.Fact) corebot.Fact {
		f.Key = to
		return f
	}
	if got := foundTest(t, db, to, there(malmo), there(lund)); len(got) > 0 {
		t.Errorf("the other chat knows %q", got)
	}
	foundTest(t, db, to, there(toldTest(from, "ann", "m1", "has", "a cat")))
	forgetTest(t, db, to, "a cat")
	if n := count(t, db.path, "forgotten"); n != 5 {
		t.Errorf("there are %d records", n)
	}
	_, err = NewLinks(db).Unlink(t.Context(), to)
	must(t, err)
	if n := sideQuery(t, db.path, `SELECT c.chat FROM forgotten f JOIN chats c ON c.id = f.chat_id`); !slices.Equal(n,
		[]string{"a", "a"}) {
		t.Errorf("after the link records are left in %v", n)
	}
	wantWhole(t, db)
}

// A record has none of the words, and no sum that could be tried out without the key of its home.
func TestARecordOfAForgottenFactTellsNobodyWhatItWas(t *testing.T) {
	var sums [][]byte
	f := toldTest(testKey("a"), "ann", "m0", "lives in", "Malmö")
	for range 2 {
		db := openTest(t, t.TempDir())
		usedTest(t, db, "a", "m0")
		foundTest(t, db, f.Key, f)
		forgetTest(t, db, f.Key, "Malmö")
		rows := sideQuery(t, db.path, `SELECT hex(says), hex((SELECT forget_key FROM store)) FROM forgotten`)
		if len(rows) != 1 {
			t.Fatalf("the records are %q", rows)
		}
		sum, key, _ := strings.Cut(rows[0], "|")
		if len(sum) != 64 || len(key) != 64 {
			t.Errorf("a sum is %q, by the key %q", sum, key)
		}
		sums = append(sums, []byte(sum), []byte(key))
	}
	if bytes.Equal(sums[0], sums[2]) || bytes.Equal(sums[1], sums[3]) {
		t.Error("two homes have the same sum, or the same key")
	}
}

// A stranger who has very much forgotten pushes out his own records, and nobody else's.
func TestRecordsOfForgottenFactsAreBoundedAndAStrangersGoFirst(t *testing.T) {
	db, k := openTest(t, t.TempDir()), testKey("a")
	usedTest(t, db, "a", "m0")
	for _, who := range []string{"ann", "mallory"} {
		foundTest(t, db, k, toldTest(k, who, "m-"+who, "lives in", who+"'s house"))
	}
	forgetTest(t, db, k, "ann's house")
	sideQuery(t, db.path, `INSERT INTO forgotten (chat_id, sender, says, message_id, at)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT id, 'mallory', CAST('x' || i AS BLOB), 'x' || i, ? FROM n, chats WHERE chat = 'a'`, corebot.MaxFacts+5,
		time.Now().Add(time.Hour).UnixMilli())
	forgetTest(t, db, k, "mallory's house")
	if n := count(t, db.path, "forgotten"); n != corebot.MaxFacts {
		t.Errorf("there are %d records", n)
	}
	if got := foundTest(t, db, k, toldTest(k, "ann", "m1", "lives in", "ann's house")); len(got) > 0 {
		t.Errorf("the chat knows %q", got)
	}
}

func TestWhatAChatHasForgottenGoesWithItsTime(t *testing.T) {
	db := openTest(t, t.TempDir())
	for _, chat := range []string{"a", "b"} {
		usedTest(t, db, chat, "m0")
		foundTest(t, db, testKey(chat), toldTest(testKey(chat), "ann", "m0", "lives in", "Malmö"))
		forgetTest(t, db, testKey(chat), "Malmö")
	}
	sideQuery(t, db.path, `UPDATE forgotten SET at = ?`, time.Now().Add(-2*day).UnixMilli())
	keeper := &corebot.Keeper{Rules: []corebot.KeepRule{{Chat: "a", Keeping: corebot.Keeping{For: day}}}}
	r, err := NewRetention(db, RetentionOptions{Keeper: keeper})
	must(t, err)
	must(t, r.Sweep(t.Context()))
	if got := sideQuery(t, db.path, `SELECT c.chat FROM forgotten f JOIN chats c ON c.id = f.chat_id`); !slices.Equal(
		got, []string{"b"}) {
		t.Errorf("records are left in %v", got)
	}
}

// A message is looked at once for each fact that is found in it.
func TestWhetherAFactWasForgottenIsFoundByIndexes(t *testing.T) {
	path := planned(t)
	for want, q := range map[string]*query{
		"PRIMARY KEY (chat_id=? AND sender=? AND says=?)":                        forgottenAt,
		"INDEX forgotten_messages (chat_id=? AND sender=? AND message_id=?":      forgottenAt,
		"INDEX forgotten_messages (chat_id=?)":                                   anyForgotten,
		"SEARCH forgotten USING PRIMARY KEY (chat_id=? AND sender=? AND says=?)": liftForgotten,
		"SEARCH forgotten USING INDEX forgotten_linked (linked=?)":               dropCarried,
		"SEARCH forgotten USING PRIMARY KEY (chat_id=?)":                         dropOldForgotten,
		"SEARCH forgotten USING PRIMARY KEY (chat_id=? AND sender=?":             dropLinkedForgotten,
	} {
		if got := plan(t, path, q); !strings.Contains(got, want) || strings.Contains(got, "SCAN forgotten") {
			t.Errorf("the plan lacks %q:\n%s", want, got)
		}
	}
}
