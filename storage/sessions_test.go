package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// exchangeTest has a sender say something in a chat and get an answer.
func exchangeTest(t *testing.T, db *DB, k corebot.Key, id, sender string, outside bool) corebot.Delivery {
	t.Helper()
	m := testMessage(k.Chat, id)
	m.Key, m.Sender = k, corebot.Principal{Channel: k.Channel, Account: k.Account, ID: sender}
	r, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
	must(t, errors.Join(err, r[0].Err))
	d, at := claimTest(t, db), time.Now()
	must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		History: []corebot.HistoryEntry{
			{
				Speaker: corebot.SpeakerUser, Sender: m.Sender, Name: sender, Parts: corebot.TextPart("ask " + id),
				At: at,
			},
			{
				Speaker: corebot.SpeakerTool, CallID: "c", Parts: corebot.TextPart("found " + id), Outside: outside,
				At: at,
			},
			{Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart("say " + id), Outside: outside, At: at},
		},
	}))
	return d
}

// inPlay is what the next turn of a chat finds: the summary's text, and the entries that stand for themselves.
func inPlay(t *testing.T, db *DB, k corebot.Key) (all []corebot.HistoryEntry, texts []string) {
	t.Helper()
	d := corebot.Delivery{Message: corebot.Message{Key: k}}
	r, entries, err := NewHistory(db).Recall(t.Context(), d, 0)
	must(t, err)
	for e, err := range entries {
		must(t, err)
		all = append(all, e)
		texts = append(texts, e.Text())
	}
	if r.Summary.Text != "" {
		texts = append(texts, "SUMMARY "+r.Summary.Text)
	}
	slices.Reverse(all)
	slices.Reverse(texts)
	return all, texts
}

func wantTexts(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("in play is %q, want %q", got, want)
	}
}

// turnOf is what the exchange of an id leaves.
func turnOf(ids ...string) (all []string) {
	for _, id := range ids {
		all = append(all, "ask "+id, "found "+id, "say "+id)
	}
	return all
}

func summaryTest(t *testing.T, db *DB, k corebot.Key, through int64, text string) {
	t.Helper()
	sideQuery(t, db.path, `INSERT INTO summaries (chat_id, session, through, text, model, at, sender, others, outside)
		SELECT id, session, ?1, ?2, 'm', 7, 'ann', 0, 1 FROM chats WHERE chat = ?3`, through, text, k.Chat)
}

func TestAForkHasTheSessionWithItsSendersAndItsMarksAndNothingElse(t *testing.T) {
	db := openTest(t, t.TempDir())
	from, to := testKey("old"), testKey("new")
	for i := range 4 {
		exchangeTest(t, db, from, fmt.Sprint("m", i), []string{"ann", "bob"}[i%2], i == 1)
	}
	summaryTest(t, db, from, 1, "of m0")
	must(t, NewGrants(db).Grant(t.Context(), corebot.Grant{
		Principal: corebot.Principal{Channel: "test", ID: "ann"}, Chat: from, Role: corebot.RoleAdmin,
	}))
	must(t, NewChats(db).SetQueueMode(t.Context(), from, corebot.ModeSteer))
	must(t, NewChats(db).Register(t.Context(), from, true, "the old one"))
	must(t, NewChats(db).SetMemoryNotes(t.Context(), from, []corebot.MemoryNote{{Ends: 1, Sum: "x"}}, nil, ""))
	must(t, NewFacts(db).Learn(t.Context(), corebot.Fact{
		Key: from, Scope: corebot.FactsOfChat, Subject: "ann", Relation: "is", Object: "here", MessageID: "m0",
		Sender: corebot.Principal{Channel: "test", ID: "ann"},
	}))

	done, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: from, To: to, Life: 99})
	must(t, err)
	if done != (corebot.Forked{Key: to, Entries: 9}) {
		t.Errorf("forked was %+v", done)
	}
	was, _ := inPlay(t, db, from)
	is, texts := inPlay(t, db, to)
	wantTexts(t, texts, append([]string{"SUMMARY of m0"}, turnOf("m1", "m2", "m3")...)...)
	for i := range was {
		if a, b := was[i], is[i]; a.Sender != b.Sender || a.Name != b.Name || a.Outside != b.Outside ||
			a.MessageID != b.MessageID || !a.At.Equal(b.At) || a.Seq != b.Seq {
			t.Errorf("entry %d was %+v and is %+v", i, a, b)
		}
	}
	if !slices.ContainsFunc(is, func(e corebot.HistoryEntry) bool { return e.Outside }) {
		t.Error("no entry of the fork is marked as untrusted")
	}
	summary, err := NewHistory(db).Summary(t.Context(), to)
	must(t, err)
	if !summary.Outside || summary.Sender.ID != "ann" {
		t.Errorf("the summary comes from %+v", summary.Sources)
	}
	chat, err := NewChats(db).Chat(t.Context(), to)
	must(t, err)
	if chat.Registered || chat.QueueMode != "" || chat.DisplayName != "" || chat.Session != 1 {
		t.Errorf("the new chat is %+v", chat)
	}
	for _, q := range []string{
		`SELECT COUNT(*) FROM grants WHERE scope LIKE '%new%'`,
		`SELECT COUNT(*) FROM approval_rules WHERE chat = 'new'`,
		`SELECT COUNT(*) FROM memory_sources m JOIN chats c ON c.id = m.chat_id WHERE c.chat = 'new'`,
		`SELECT COUNT(*) FROM facts f JOIN chats c ON c.id = f.chat_id WHERE c.chat = 'new'`,
		`SELECT COUNT(*) FROM lanes WHERE chat = 'new'`,
	} {
		if n := sideQuery(t, db.path, q); n[0] != "0" {
			t.Errorf("%s is %s", q, n[0])
		}
	}
	// The same command again is the same fork, and what is said in it stays there.
	exchangeTest(t, db, to, "n1", "ann", false)
	again, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: from, To: to, Life: 99})
	if err != nil || again != done {
		t.Errorf("again it is %+v: %v", again, err)
	}
	_, texts = inPlay(t, db, to)
	wantTexts(t, texts[1:], turnOf("m1", "m2", "m3", "n1")...)
	_, texts = inPlay(t, db, from)
	wantTexts(t, texts[1:], turnOf("m1", "m2", "m3")...)
	wantWhole(t, db)
}

func TestAForkAtAMessageKnowsNothingOfWhatCameLater(t *testing.T) {
	db := openTest(t, t.TempDir())
	from := testKey("old")
	for i := range 4 {
		exchangeTest(t, db, from, fmt.Sprint("m", i), "ann", false)
	}
	summaryTest(t, db, from, 3, "of m0 to m2")
	for at, want := range map[string][]string{
		"m1": turnOf("m0", "m1"), // the summary says more
		"m2": {"SUMMARY of m0 to m2"},
		"m3": append([]string{"SUMMARY of m0 to m2"}, turnOf("m3")...),
	} {
		to := testKey("at-" + at)
		_, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: from, To: to, At: at})
		must(t, err)
		_, texts := inPlay(t, db, to)
		wantTexts(t, texts, want...)
	}
	_, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: from, To: testKey("x"), At: "m9"})
	if !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("at an unknown message it is %v", err)
	}
}

func TestAForkTakesNoNameThatIsTakenAndNoOtherAgent(t *testing.T) {
	db := openTest(t, t.TempDir())
	from := testKey("old")
	exchangeTest(t, db, from, "m0", "ann", false)
	exchangeTest(t, db, testKey("busy"), "m0", "bob", false)
	publishTest(t, db, "waiting", "w")                                     // a lane, and no chat yet
	must(t, NewMailbox(db).Post(t.Context(), outboundTest("posted", "p"))) // a lane out of it
	helper, thread, elsewhere := from, from, from
	helper.Agent, helper.Chat = "helper", "new"
	elsewhere.Account, elsewhere.Chat = "other", "new"
	thread.Thread = "7"
	for _, f := range []corebot.Fork{
		{From: from, To: from, Life: 5},
		{From: from, To: testKey("busy"), Life: 5},
		{From: from, To: testKey("busy")},
		{From: from, To: testKey("waiting")},
		{From: from, To: testKey("posted")},
		{From: from, To: helper},
		{From: from, To: elsewhere},
		{From: from, To: testKey("")},
		{From: from, To: testKey("a\nb")},
		{From: from, To: testKey(strings.Repeat("x", corebot.MaxKeyField+1))},
	} {
		if _, err := NewSessions(db).Fork(t.Context(), f); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("a fork into %s: %v", f.To, err)
		}
	}
	_, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: testKey("none"), To: testKey("new")})
	if !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("a fork of nothing: %v", err)
	}
	if n := sideQuery(t, db.path, `SELECT COUNT(*) FROM forks`); n[0] != "0" {
		t.Errorf("there are %s forks", n[0])
	}
}

func TestForksOfOneChatAreBoundedAndSoIsWhatOneCopies(t *testing.T) {
	db := openTest(t, t.TempDir())
	from := testKey("old")
	exchangeTest(t, db, from, "m0", "ann", false)
	for i := range corebot.MaxForks {
		to := testKey(fmt.Sprint("f", i))
		_, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: from, To: to})
		must(t, err)
		from = to // a fork of the fork counts with it
	}
	if _, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: from, To: testKey("more")}); !errors.Is(err,
		corebot.ErrInvalid) {
		t.Errorf("one more: %v", err)
	}
	sideQuery(t, db.path, `INSERT INTO history (chat_id, session, seq, ordinal, speaker, text, message_id, at)
		WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 1400)
		SELECT c.id, 1, n.i, o.o, 'user', 'x', 'm', 1 FROM n, chats c, (SELECT 0 AS o UNION SELECT 1) o
		WHERE c.chat = 'f0'`)
	sideQuery(t, db.path, `DELETE FROM forks WHERE origin <> ''`)
	done, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: testKey("f0"), To: testKey("large")})
	if err != nil || done.Entries != forkEntries || done.Older != 2*1391+3-forkEntries {
		t.Errorf("a large one: %+v %v", done, err)
	}
	sideQuery(t, db.path, `UPDATE history SET text = ? WHERE seq >= 1390`, strings.Repeat("x", 1<<20))
	done, err = NewSessions(db).Fork(t.Context(), corebot.Fork{From: testKey("f0"), To: testKey("wide")})
	if err != nil || done.Entries != 8 {
		t.Errorf("a wide one: %+v %v", done, err)
	}
}

func TestWhatIsRewoundIsKeptAndNoLongerInPlay(t *testing.T) {
	db := openTest(t, t.TempDir())
	k := testKey("a")
	var last corebot.Delivery
	for i := range 4 {
		last = exchangeTest(t, db, k, fmt.Sprint("m", i), "ann", false)
	}
	s := NewSessions(db)
	done, err := s.Rewind(t.Context(), k, 2, 77)
	if err != nil || done != (corebot.Rewound{Exchanges: 2, Entries: 6}) {
		t.Errorf("rewound were %+v: %v", done, err)
	}
	again, err := s.Rewind(t.Context(), k, 2, 77)
	if err != nil || again != done {
		t.Errorf("the same command again: %+v, %v", again, err)
	}
	_, texts := inPlay(t, db, k)
	wantTexts(t, texts, turnOf("m0", "m1")...)
	recent, err := NewHistory(db).Recent(t.Context(), k, 100)
	must(t, err)
	if len(recent) != 6 {
		t.Errorf("%d entries are shown", len(recent))
	}
	if n := sideQuery(t, db.path, `SELECT COUNT(*) FROM history`); n[0] != "12" {
		t.Errorf("%s entries are kept", n[0])
	}
	if other, found, err := NewLedger(db).Another(t.Context(), k, last.Message.Sender); err != nil || found {
		t.Errorf("another is %v %v", other, err)
	}
	exchangeTest(t, db, k, "m4", "ann", false)
	_, texts = inPlay(t, db, k)
	wantTexts(t, texts, turnOf("m0", "m1", "m4")...)
	// A fork has none of it.
	_, err = s.Fork(t.Context(), corebot.Fork{From: k, To: testKey("b")})
	must(t, err)
	_, texts = inPlay(t, db, testKey("b"))
	wantTexts(t, texts, turnOf("m0", "m1", "m4")...)
	if _, err := s.Fork(t.Context(), corebot.Fork{From: k, To: testKey("c"), At: "m3"}); !errors.Is(err,
		corebot.ErrNotFound) {
		t.Errorf("a fork at a rewound message: %v", err)
	}
	trail := wholeTrail(t, db)
	if trail.Events == 0 {
		t.Error("the audit has nothing of it")
	}
	wantWhole(t, db)
}

// A rewind counts the facts that its messages have left. It counts none of other messages or chats, and none of other
// senders with the same id of a message. Nor does it count facts that are superseded, or that an earlier rewind has
// counted.
func TestARewindCountsTheFactsThatItsMessagesHaveLeft(t *testing.T) {
	db := openTest(t, t.TempDir())
	k, other := testKey("a"), testKey("b")
	for i := range 4 {
		exchangeTest(t, db, k, fmt.Sprint("m", i), "ann", false)
		exchangeTest(t, db, other, fmt.Sprint("m", i), "ann", false)
	}
	learn := func(k corebot.Key, id, sender, city string) {
		t.Helper()
		must(t, NewFacts(db).Learn(t.Context(), corebot.Fact{
			Key: k, Scope: corebot.FactsOfChat, Subject: "who " + id, Relation: "lives in", Object: city, MessageID: id,
			Sender: corebot.Principal{Channel: "test", ID: sender}, Replaces: true,
		}))
	}
	for _, id := range []string{"m0", "m1", "m3"} {
		learn(k, id, "ann", "Lima")
	}
	learn(k, "m3", "ann", "Rome") // takes the place of Lima
	learn(k, "m3", "bob", "Oslo")
	learn(other, "m3", "ann", "Bern")
	learn(k, "", "ann", "Kyiv")
	s := NewSessions(db)
	for i, c := range []struct{ n, life, want int64 }{
		{1, 0, 1}, {1, 0, 0}, {1, 7, 1}, {1, 7, 1}, {5, 8, 1}, {1, 9, 0},
	} {
		done, err := s.Rewind(t.Context(), k, int(c.n), c.life)
		if err != nil || done.Facts != c.want {
			t.Errorf("rewind %d: %+v %v", i, done, err)
		}
	}
	if n := sideQuery(t, db.path, `SELECT COUNT(*) FROM facts`); n[0] != "7" {
		t.Errorf("%s facts are kept", n[0])
	}
}

func TestASummaryWithRewoundWordsGoesAndTheRestIsShownAgain(t *testing.T) {
	db := openTest(t, t.TempDir())
	k := testKey("a")
	for i := range 4 {
		exchangeTest(t, db, k, fmt.Sprint("m", i), "ann", false)
	}
	summaryTest(t, db, k, 2, "of m0 and m1")
	_, err := NewSessions(db).Rewind(t.Context(), k, 2, 0)
	must(t, err)
	_, texts := inPlay(t, db, k)
	wantTexts(t, texts, "SUMMARY of m0 and m1") // it has none of their words
	_, err = NewSessions(db).Rewind(t.Context(), k, 1, 0)
	must(t, err)
	_, texts = inPlay(t, db, k)
	wantTexts(t, texts, turnOf("m0")...)
	done, err := NewSessions(db).Rewind(t.Context(), k, 9, 0)
	if err != nil || done.Exchanges != 1 {
		t.Errorf("more than there are: %+v, %v", done, err)
	}
	if done, err := NewSessions(db).Rewind(t.Context(), k, 1, 0); err != nil || done.Exchanges != 0 {
		t.Errorf("nothing is left, and %+v: %v", done, err)
	}
}

func TestTheOperatorRewindsNoChatAtWork(t *testing.T) {
	db := openTest(t, t.TempDir())
	k := testKey("a")
	exchangeTest(t, db, k, "m0", "ann", false)
	publishTest(t, db, "a", "w")
	claimTest(t, db)
	if _, err := NewSessions(db).Rewind(t.Context(), k, 1, 0); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("while a turn runs it is %v", err)
	}
	for _, n := range []int{-1, 0, corebot.MaxRewound + 1} {
		if _, err := NewSessions(db).Rewind(t.Context(), k, n, 5); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%d exchanges: %v", n, err)
		}
	}
	if _, err := NewSessions(db).Rewind(t.Context(), testKey("none"), 1, 5); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("in no chat: %v", err)
	}
}

// A deletion works in pieces. The entries that it has not reached yet are in no fork, and no model is shown them.
func TestAChatThatIsBeingDeletedGivesNothingToAFork(t *testing.T) {
	db := openTest(t, t.TempDir())
	k := testKey("gone")
	for i := range 3 {
		exchangeTest(t, db, k, fmt.Sprint("m", i), "ann", false)
	}
	_, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: k, To: testKey("copy")})
	must(t, err)
	f := NewForgetting(db)
	inject(db, func(sql string, _ bool) error {
		if strings.HasPrefix(sql, "DELETE FROM approval_rules") {
			return errors.New("cut off")
		}
		return nil
	})
	if _, err := f.Chat(t.Context(), k, nil); err == nil {
		t.Fatal("the deletion was not cut off")
	}
	inject(db, nil)
	if _, texts := inPlay(t, db, k); len(texts) > 0 {
		t.Errorf("a turn would find %q", texts)
	}
	if _, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: k, To: testKey("late")}); !errors.Is(err,
		corebot.ErrInvalid) {
		t.Errorf("a fork meanwhile: %v", err)
	}
	_, err = f.Chat(t.Context(), k, nil)
	must(t, err)
	if got := sideQuery(t, db.path, `SELECT origin FROM forks`); len(got) != 1 || got[0] != "" {
		t.Errorf("the forks came from %q", got)
	}
	_, texts := inPlay(t, db, testKey("copy"))
	wantTexts(t, texts, turnOf("m0", "m1", "m2")...)
}

// A chat is used when a turn begins there, and when something is said there, as by a task of another chat.
func TestChatsAreListedAsTheyWereUsed(t *testing.T) {
	db := openTest(t, t.TempDir())
	chats := NewChats(db)
	names := func(after string, limit int) (all []string, next string) {
		t.Helper()
		found, next, err := chats.Recent(t.Context(), "test", after, limit)
		must(t, err)
		for _, c := range found {
			all = append(all, c.Key.Chat)
			if c.UsedAt.Before(c.CreatedAt) || c.CreatedAt.IsZero() {
				t.Errorf("%s was used at %s, and made at %s", c.Key, c.UsedAt, c.CreatedAt)
			}
		}
		return all, next
	}
	const hour = 3_600_000
	for i, name := range []string{"a", "b", "c", "d"} { // the order of their making
		must(t, chats.Register(t.Context(), testKey(name), true, ""))
		sideQuery(t, db.path, `UPDATE chats SET created_at = ?1, used_at = ?1 WHERE chat = ?2`, (i+1)*hour, name)
	}
	elsewhere := testKey("e")
	elsewhere.Channel = "other"
	must(t, chats.Register(t.Context(), elsewhere, true, ""))
	exchangeTest(t, db, testKey("b"), "m1", "ann", false) // now
	sideQuery(t, db.path, `UPDATE history SET at = 0`)    // so a turn began, and said nothing
	exchangeTest(t, db, testKey("a"), "m0", "ann", false)
	sideQuery(t, db.path, `UPDATE history SET at = ? WHERE at > 0`, 9*hour)
	sideQuery(t, db.path, `UPDATE lanes SET claimed_at = 0 WHERE chat = 'a'`)
	sideQuery(t, db.path, `UPDATE chats SET used_at = ? WHERE chat = 'a'`, 9*hour)
	all, _ := names("", 10)
	if want := []string{"b", "a", "d", "c"}; !slices.Equal(all, want) {
		t.Errorf("listed are %v, want %v", all, want)
	}
	first, next := names("", 2)
	exchangeTest(t, db, testKey("c"), "m2", "ann", false) // moves to the front meanwhile
	rest, _ := names(next, 2)
	if want := []string{"b", "a", "d"}; !slices.Equal(append(first, rest...), want) {
		t.Errorf("page by page listed are %v and %v, want %v", first, rest, want)
	}
	if all, _ = names("", 10); all[0] != "c" {
		t.Errorf("a new walk begins with %v", all)
	}
	_, err := NewSessions(db).Rewind(t.Context(), testKey("c"), 1, 0)
	must(t, err)
	_, err = NewSessions(db).Fork(t.Context(), corebot.Fork{From: testKey("a"), To: testKey("f")})
	must(t, err)
	sideQuery(t, db.path, `DELETE FROM history`) // as retention does
	_, err = NewForgetting(db).Chat(t.Context(), testKey("b"), nil)
	must(t, err)
	if all, _ = names("", 10); !slices.Equal(all, []string{"f", "c", "a", "d"}) {
		t.Errorf("after a rewind, a fork, retention and a deletion listed are %v", all)
	}
	everywhere, _, err := chats.Recent(t.Context(), "", "", 2)
	must(t, err)
	if len(everywhere) != 2 || everywhere[0].Key.Chat != "f" {
		t.Errorf("in all channels listed are %v", everywhere)
	}
	for list, cursor := range map[string]string{"first seen": cursor("chats", 1), "none": "x"} {
		if _, _, err := chats.Recent(t.Context(), "", cursor, 2); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("behind a cursor of %s it is %v", list, err)
		}
	}
}
