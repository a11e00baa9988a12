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

// saidAt has a chat say a text at a time: a turn with a journal, a summary, facts, a file, and the index.
func saidAt(t *testing.T, db *DB, k corebot.Key, id, text string, at time.Time) {
	t.Helper()
	m := testMessage(k.Chat, id)
	m.Key, m.Parts = k, corebot.TextPart(text)
	_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
	must(t, err)
	d := claimTest(t, db)
	answer := corebot.Answer{Text: text}
	must(t, NewLedger(db).Record(t.Context(), d, corebot.Step{
		Kind: corebot.StepModel, State: corebot.StepDone, Answer: &answer, StartedAt: at, EndedAt: at,
	}))
	must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		History: []corebot.HistoryEntry{
			{Speaker: corebot.SpeakerUser, Sender: m.Sender, Parts: corebot.TextPart(text), At: at},
			{Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart(text), At: at},
		},
	}))
	must(t, NewFacts(db).Learn(t.Context(), corebot.Fact{
		Key: k, Scope: corebot.FactsOfChat, Subject: "somebody", Relation: "says", Object: text, Sender: m.Sender,
		MessageID: id, At: at,
	}))
	sideQueries(t, db.path, func(ask asker) {
		ask(`UPDATE facts SET at = ? WHERE message_id = ?`, at.UnixMilli(), id)
		ask(`INSERT INTO attached_files (agent, channel, account, chat, thread, message_id, hash, name,
			media_type, size, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, '', 1, ?)`, k.Agent, k.Channel, k.Account, k.Chat,
			k.Thread, id, id, text, at.UnixMilli())
		ask(`INSERT OR REPLACE INTO summaries (chat_id, session, through, text, model, at, began_at)
			SELECT id, session, 1, ?, '', ?, ? FROM chats WHERE agent = ? AND channel = ? AND account = ? AND chat = ?
			AND thread = ?`, text, time.Now().UnixMilli(), at.UnixMilli(), k.Agent, k.Channel, k.Account, k.Chat,
			k.Thread)
	})
}

// tablesWith are the tables that have a text in one of their columns.
func tablesWith(t *testing.T, db *DB, text string) (tables []string) {
	t.Helper()
	sideQueries(t, db.path, func(ask asker) {
		for _, name := range ask(`SELECT name FROM sqlite_schema WHERE type = 'table'
			AND name NOT LIKE 'history_terms_%' ORDER BY name`) {
			var has []string
			for _, column := range ask(`SELECT name FROM pragma_table_info(?)`, name) {
				has = append(has, fmt.Sprintf(`instr(CAST(%q AS TEXT), ?1) > 0`, column))
			}
			query := fmt.Sprintf(`SELECT COUNT(*) FROM %q WHERE %s`, name, strings.Join(has, " OR "))
			if n := ask(query, text); n[0] != "0" {
				tables = append(tables, name)
			}
		}
	})
	return tables
}

// A chat with a time of its own loses whatever is older, also while it is in use: no table has a word of it. Younger
// messages stay, and a chat without a rule keeps all of its messages.
func TestAChatWithATimeOfItsOwnKeepsNothingOlder(t *testing.T) {
	db := openTest(t, t.TempDir())
	old, here, other := time.Now().Add(-2*day), testKey("a"), testKey("b")
	for i := range 3 { // the oldest entries of a chat that is in use stay without a rule
		saidAt(t, db, here, fmt.Sprint("m", i), fmt.Sprint("wombat", i), old)
		saidAt(t, db, other, fmt.Sprint("n", i), fmt.Sprint("quokka", i), old)
	}
	index, err := NewSearchIndex(db, SearchIndexOptions{})
	must(t, err)
	must(t, index.CatchUp(t.Context()))
	vectors := NewVectors(db, VectorOptions{Embedder: marks{}, Model: "m"})
	must(t, vectors.CatchUp(t.Context()))
	before := sideQuery(t, db.path, `SELECT COUNT(*) FROM vectors`)
	was := tablesWith(t, db, "wombat")
	for _, name := range []string{"history", "summaries", "facts", "fact_words", "attached_files", "execution_steps"} {
		if !slices.Contains(was, name) {
			t.Fatalf("only %q have what was said", was)
		}
	}
	saidAt(t, db, here, "young", "numbat", time.Now().Add(-time.Hour))
	saidAt(t, db, other, "young2", "dingo", time.Now())
	sideQuery(t, db.path, `UPDATE summaries SET began_at = ?, text = 'of wombat1 and numbat' WHERE text = 'numbat'`,
		old.UnixMilli())
	keeper := &corebot.Keeper{Rules: []corebot.KeepRule{{Chat: "a*", Keeping: corebot.Keeping{For: day}}}}
	must(t, keeping(t, db, RetentionOptions{Keeper: keeper}).Sweep(t.Context()))
	if left := tablesWith(t, db, "wombat"); len(left) > 0 {
		t.Errorf("%q still have what was said", left)
	}
	for _, word := range []string{"numbat", "quokka0", "dingo"} {
		if left := tablesWith(t, db, word); !slices.Contains(left, "history") || !slices.Contains(left, "facts") ||
			!slices.Contains(left, "attached_files") {
			t.Errorf("of %s only %q are left", word, left)
		}
	}
	found := sideQuery(t, db.path, `SELECT COUNT(*) FROM history_terms WHERE history_terms MATCH '"wombat1"'`)
	if found[0] != "0" {
		t.Errorf("the index still finds %s entries", found[0])
	}
	after := sideQuery(t, db.path, `SELECT COUNT(*) FROM vectors`)
	if before[0] == after[0] || after[0] == "0" {
		t.Errorf("there were %s vectors, and there are %s", before[0], after[0])
	}
	wantWhole(t, db)
}

// In a chat that keeps nothing a turn leaves no word behind its commit. Neither do a message that the chat only hears,
// nor one that another chat sends there.
func TestAChatThatKeepsNothingHasNoWordBehindTheTurn(t *testing.T) {
	dir := t.TempDir()
	must(t, Seed(dir))
	keeper := &corebot.Keeper{Store: corebot.StoreRegistered, Rules: []corebot.KeepRule{
		{Channel: "test", Chat: "loud", Keeping: corebot.Keeping{For: day}},
	}}
	db, err := Open(t.Context(), dir, Options{Keeper: keeper})
	must(t, err)
	runTest(t, db)
	known := testKey("known")
	must(t, NewChats(db).Register(t.Context(), known, true, ""))
	thread, asked := known, corebot.AskedFrom(testKey("quiet"), "main")
	thread.Thread = "7"
	child := corebot.Key{Agent: "main", Channel: corebot.JobChannel, Account: "test:", Chat: "quiet", Thread: "1:"}
	knowns := corebot.AskedFrom(thread, "main")
	for i, c := range []struct {
		key   corebot.Key
		keeps bool
	}{
		{testKey("quiet"), false},
		{known, true},
		{thread, true},
		{testKey("loud"), true},
		{child, false},
		{asked, false},
		{knowns, true},
	} {
		word := fmt.Sprintf("wombat%dend", i)
		m := testMessage(c.key.Chat, fmt.Sprint("m", i))
		m.Key, m.Parts = c.key, corebot.TextPart(word)
		_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
		must(t, err)
		d := claimTest(t, db)
		answer := corebot.Answer{Text: word}
		must(t, NewLedger(db).Record(t.Context(), d, corebot.Step{
			Kind: corebot.StepModel, State: corebot.StepDone, Answer: &answer,
		}))
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
			Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
			History: []corebot.HistoryEntry{{
				Speaker: corebot.SpeakerUser, Parts: corebot.TextPart(word), At: time.Now(),
			}},
		}))
		left := tablesWith(t, db, word)
		if keeps := slices.Contains(left, "history"); keeps != c.keeps || !keeps && len(left) > 0 {
			t.Errorf("%s: %q have the word, want kept %v", c.key, left, c.keeps)
		}
	}
	must(t, db.write(t.Context(), "test", func(t *tx) error {
		m := testMessage("quiet", "said")
		m.Parts = corebot.TextPart("wombat said")
		return sayTx(t, testKey("quiet"), m, "", false)
	}))
	heard := testMessage("quiet", "heard")
	heard.Kind, heard.Parts = corebot.KindHeard, corebot.TextPart("wombat heard")
	_, err = NewQueue(db).Publish(t.Context(), []corebot.Message{heard}, corebot.Limits{})
	must(t, err)
	if left := tablesWith(t, db, "wombat heard"); len(left) > 0 {
		t.Errorf("of what the chat hears, %q have it", left)
	}
	if left := tablesWith(t, db, "wombat said"); len(left) > 0 {
		t.Errorf("of what another chat says there, %q have it", left)
	}
	if _, err := NewLinks(db).Put(t.Context(), known, testKey("quiet")); err == nil ||
		!strings.Contains(err.Error(), "keeps nothing") {
		t.Errorf("linked: %v", err)
	}
	// A chat loses what it has once it is not to keep it any more.
	must(t, NewChats(db).Register(t.Context(), known, false, ""))
	must(t, keeping(t, db, RetentionOptions{Keeper: keeper}).Sweep(t.Context()))
	left := sideQuery(t, db.path, `SELECT DISTINCT c.chat FROM history h JOIN chats c ON c.id = h.chat_id`)
	if len(left) != 1 || left[0] != "loud" {
		t.Errorf("%q still keep something", left)
	}
}

// A summary of words that came by a link, and the facts of them, go with the first of these entries, since no /unlink
// could find them later. While a turn can be making such a summary, the entries stay.
func TestRetentionTakesTheSummaryOfLinkedWordsWithThem(t *testing.T) {
	db, _, to := linkedTest(t)
	sideQuery(t, db.path, `INSERT INTO summaries (chat_id, session, through, text, model, at)
		SELECT id, session, 3, 'of it all', '', 1 FROM chats WHERE chat = 'b'`)
	ann := corebot.Principal{Channel: "test", ID: "ann"}
	must(t, NewFacts(db).Learn(t.Context(), corebot.Fact{
		Key: to, Scope: corebot.FactsOfChat, Subject: "ann", Relation: "has", Object: "a cat", Sender: ann,
		MessageID: "m0",
	}))
	sideQuery(t, db.path, `UPDATE history SET at = 1 WHERE chat_id = 2`)
	chronicle(t, db.path, 2, 2, 600, time.Now()) // they are not among the recent ones any more
	counts := func() string {
		return fmt.Sprint(sideQuery(t, db.path, `SELECT (SELECT COUNT(*) FROM history WHERE linked <> 0),
			(SELECT COUNT(*) FROM summaries), (SELECT COUNT(*) FROM facts)`))
	}
	m := testMessage("b", "busy")
	m.Key = to
	_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
	must(t, err)
	must(t, keeping(t, db, RetentionOptions{History: day}).Sweep(t.Context()))
	if got := counts(); got != "[6|1|1]" {
		t.Errorf("beside a turn are left %s", got)
	}
	must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
	}))
	must(t, keeping(t, db, RetentionOptions{History: day}).Sweep(t.Context()))
	if got := counts(); got != "[0|0|0]" {
		t.Errorf("left are %s", got)
	}
	wantWhole(t, db)
}

// A copy would be the way around a rule.
func TestNoConversationIsCopiedToWhereItIsKeptForLonger(t *testing.T) {
	dir := t.TempDir()
	must(t, Seed(dir))
	rules := []corebot.KeepRule{
		{Chat: "priv*", Keeping: corebot.Keeping{Nothing: true}},
		{Chat: "support*", Keeping: corebot.Keeping{For: day}},
		{Chat: "weekly*", Keeping: corebot.Keeping{For: 7 * day}},
	}
	db, err := Open(t.Context(), dir, Options{Keeper: &corebot.Keeper{Rules: rules}})
	must(t, err)
	runTest(t, db)
	for _, chat := range []string{"a", "support1", "weekly1"} {
		saidAt(t, db, testKey(chat), "m "+chat, "wombat", time.Now())
	}
	for _, c := range []struct {
		from, to string
		refused  bool
	}{
		{"a", "priv1", true},
		{"support1", "out", true},
		{"support1", "weekly2", true},
		{"support1", "support2", false},
		{"weekly1", "support3", false},
		{"a", "support4", false},
		{"a", "b", false},
	} {
		_, forked := NewSessions(db).Fork(t.Context(), corebot.Fork{From: testKey(c.from), To: testKey(c.to)})
		_, linked := NewLinks(db).Put(t.Context(), testKey(c.from), testKey(c.to+"l"))
		for what, err := range map[string]error{"fork": forked, "link": linked} {
			if errors.Is(err, corebot.ErrInvalid) != c.refused || !c.refused && err != nil {
				t.Errorf("%s of %s to %s: %v", what, c.from, c.to, err)
			}
		}
		if n := sideQuery(t, db.path, `SELECT COUNT(*) FROM chats WHERE chat = '`+c.to+`'`); c.refused && n[0] != "0" {
			t.Errorf("a refused fork has made %s", c.to)
		}
	}
}

func TestARuleWithATimeInAChatThatKeepsNothingDeletesWhatIsThere(t *testing.T) {
	keeper := &corebot.Keeper{
		Store: corebot.StoreNone,
		Rules: []corebot.KeepRule{{Chat: "a", Unsaid: true, Keeping: corebot.Keeping{For: 30 * day}}},
	}
	if got := keeper.Of(testKey("a"), false); got != (corebot.Keeping{Nothing: true}) {
		t.Errorf("it keeps %+v", got)
	}
}
