package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

const tenYears = 10 * 365 * day

// usedTest has a chat answered, with a question and an answer in its history.
func usedTest(t *testing.T, db *DB, chat, id string) {
	t.Helper()
	publishTest(t, db, chat, id)
	now := time.Now()
	must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		History: []corebot.HistoryEntry{
			{Speaker: corebot.SpeakerUser, Parts: corebot.TextPart("question"), At: now},
			{Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart("answer"), At: now},
		},
	}))
}

// ageTest makes everything older.
func ageTest(t *testing.T, dir string, by time.Duration) {
	t.Helper()
	for column, tables := range map[string]string{
		"published_at": "message_life", "ended_at": "message_life", "claimed_at": "message_life",
		"at":         "history summaries",
		"created_at": "chats mailbox",
	} {
		for table := range strings.FieldsSeq(tables) {
			sideQuery(t, dir, fmt.Sprintf(`UPDATE %s SET %s = %[2]s - ? WHERE %[2]s > 0`, table, column),
				by.Milliseconds())
		}
	}
}

// rowsOf counts the rows of tables.
func rowsOf(t *testing.T, dir string, tables ...string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, table := range tables {
		n[table] = count(t, dir, table)
	}
	return n
}

// A caller who names a new chat with every request leaves nothing behind for ever.
func TestWhatNobodyUsesAnyMoreIsForgotten(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	const chats = 50
	for i := range chats {
		usedTest(t, db, fmt.Sprint(i), "m")
		must(t, NewMailbox(db).Post(t.Context(), outboundTest(fmt.Sprint(i), "r")))
	}
	sideQuery(t, dir,
		`INSERT INTO summaries (chat_id, session, through, text, model, at) SELECT id, 1, 1, 'x', '', ? FROM chats`,
		time.Now().UnixMilli())
	index, err := NewSearchIndex(db, SearchIndexOptions{})
	must(t, err)
	must(t, index.CatchUp(t.Context()))
	ageTest(t, dir, tenYears)
	tables := []string{"lanes", "chats", "history", "message_life", "mailbox", "summaries", "history_terms"}
	if n := rowsOf(t, dir, tables...); n["lanes"] != chats || n["chats"] != chats || n["history"] != 2*chats ||
		n["history_terms"] == 0 {
		t.Fatalf("there are %v", n)
	}
	must(t, keeping(t, db, RetentionOptions{
		Messages: time.Hour, History: time.Hour,
		Mailbox: time.Hour,
	}).Sweep(t.Context()))
	for table, n := range rowsOf(t, dir, tables...) {
		if n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
	wantWhole(t, db)
	usedTest(t, db, "1", "m") // it begins anew, and its old id is new
	if n := rowsOf(t, dir, "lanes", "chats", "history"); n["chats"] != 1 || n["history"] != 2 {
		t.Errorf("after another turn there are %v", n)
	}
}

// A chat stays while something refers to it, or somebody has set something in it.
func TestAChatStaysWhileItMatters(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	chats, key := NewChats(db), testKey
	stays := map[string]func(){
		"registered": func() { must(t, chats.Register(t.Context(), key("registered"), true, "")) },
		"named":      func() { must(t, chats.Register(t.Context(), key("named"), false, "a name")) },
		"mode":       func() { must(t, chats.SetQueueMode(t.Context(), key("mode"), corebot.ModeSteer)) },
		"access":     func() { must(t, chats.SetAccess(t.Context(), key("access"), corebot.DenyChat)) },
		"model":      func() { must(t, chats.SetModel(t.Context(), key("model"), "big")) },
		"skills": func() {
			must(t, db.write(t.Context(), "skill", func(t *tx) error {
				return chats.chooseSkillTx(t, corebot.ChooseSkill{Chat: key("skills"), Skill: "risky"})
			}))
		},
		"granted": func() {
			who := corebot.Principal{Channel: "test", ID: "ann"}
			must(t, NewGrants(db).Grant(t.Context(), corebot.Grant{
				Principal: who, Chat: key("granted"),
				Role: corebot.RoleAdmin,
			}))
		},
		"files":   func() {},
		"waiting": func() { publishTest(t, db, "waiting", "w") },
		"dead":    func() { deadTest(t, db, "dead", "d") },
		"summary": func() {},
		"mail":    func() { must(t, NewMailbox(db).Post(t.Context(), outboundTest("mail", "r"))) },
		"forgotten": func() {
			note := []corebot.MemoryNote{{Ends: 1, Sum: "x"}}
			must(t, chats.SetMemoryNotes(t.Context(), key("forgotten"), note, nil, ""))
		},
	}
	for chat := range stays {
		usedTest(t, db, chat, "m")
	}
	ageTest(t, dir, tenYears)
	for chat, change := range stays {
		change()
		if chat == "summary" {
			sideQuery(t, dir, `INSERT INTO summaries (chat_id, session, through, text, model, at)
				SELECT id, 1, 1, 'x', '', 0 FROM chats WHERE chat = 'summary'`)
		}
	}
	hasFiles := func(k corebot.Key) bool { return k == key("files") }
	r := keeping(t, db, RetentionOptions{
		Messages: time.Hour, Mailbox: time.Hour, History: time.Hour,
		HasFiles: hasFiles,
	})
	sideQuery(t, dir, `DELETE FROM history WHERE chat_id = (SELECT id FROM chats WHERE chat = 'summary')`)
	must(t, r.Sweep(t.Context()))
	left := sideQuery(t, dir, `SELECT chat FROM chats ORDER BY chat`)
	want := []string{
		"access", "dead", "files", "granted", "mail", "mode", "model", "named", "registered", "skills",
		"summary", "waiting",
	}
	if !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
	if n := count(t, dir, "memory_sources"); n != 0 {
		t.Errorf("the sources of %d memories are left, and no files", n)
	}
	if n := count(t, dir, "history"); n != 0 {
		t.Errorf("%d entries are left: whatever keeps a chat does not keep what was said in it", n)
	}
	must(t, chats.Register(t.Context(), key("registered"), false, ""))
	must(t, r.Sweep(t.Context()))
	if now := sideQuery(t, dir, `SELECT chat FROM chats ORDER BY chat`); slices.Contains(now, "registered") {
		t.Errorf("left are %q", now)
	}
	wantWhole(t, db)
}

// deadTest has a message of a chat end in the dead letters, whatever waits elsewhere.
func deadTest(t *testing.T, db *DB, chat, id string) {
	t.Helper()
	publishTest(t, db, chat, id)
	for {
		d := claimTest(t, db)
		if d.Message.Key == testKey(chat) {
			must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
			return
		}
	}
}

// A pass over many chats looks at a part of them, and all are looked at within a day.
func TestAPassLooksAtAPartOfALargeTable(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	const chats = 30_000
	grow(t, dir, chats,
		`INSERT INTO chats (agent, channel, account, chat, thread, created_at) SELECT 'main', 'test', '', 'c' || i, '',
			0 FROM n`)
	r := keeping(t, db, RetentionOptions{Messages: day, Every: time.Hour})
	seen := map[int64]bool{}
	var o rotation
	for pass := range 25 {
		looked := 0
		must(t, o.pass(t.Context(), r, newestChat, func(after int64) (rows int, last int64, err error) {
			err = db.reader.each(t.Context(), chatPage, func(s scanner) error {
				var (
					session int64
					k       corebot.Key
				)
				rows++
				err := s.Scan(&last, &session, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread)
				seen[last] = true
				return err
			}, after, sweepRows)
			looked += rows
			return rows, last, err
		}))
		if most := chats/24 + 2*sweepRows; looked > most {
			t.Errorf("pass %d has looked at %d chats, want %d at most", pass, looked, most)
		}
	}
	if len(seen) != chats {
		t.Errorf("after a day %d of %d chats were looked at", len(seen), chats)
	}
}

// The sessions of a chat that was forgotten, and that comes back, are counted from 1 again. An approval for an earlier
// session of the same number must not hold.
func TestAnApprovalForASessionEndsWithAChatThatIsForgotten(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	usedTest(t, db, "1", "m")
	k := outboundTest("1", "r").Key
	who := corebot.Caller{Key: k, Principal: corebot.Principal{Channel: k.Channel, Account: k.Account, ID: "ann"}}
	chats := NewChats(db)
	must(t, chats.Reset(t.Context(), k)) // in session 2
	for _, session := range []int{0, 2} {
		sideQuery(t, dir, `INSERT INTO approval_rules (agent, channel, account, chat, thread, principal, session,
			beyond, binding, request, created_at, created_by)
			VALUES (?, ?, ?, ?, ?, ?, ?, 0, '{"kind":"tool","tool":"x"}', 1, 1, 'operator')`,
			append(keyArgs(k), who.Principal.String(), session)...)
	}
	standing := func(when string, want int) {
		t.Helper()
		if rules, err := NewApprovals(db).Standing(t.Context(), who); err != nil || len(rules) != want {
			t.Errorf("%s there are %d rules, want %d: %v", when, len(rules), want, err)
		}
	}
	standing("in the session", 2)
	must(t, chats.Reset(t.Context(), k))
	standing("in the next session", 1)
	ageTest(t, dir, tenYears)
	must(t, keeping(t, db, RetentionOptions{Messages: time.Hour, History: time.Hour}).Sweep(t.Context()))
	if n := count(t, dir, "chats"); n != 0 {
		t.Fatalf("%d chats are not forgotten", n)
	}
	usedTest(t, db, "1", "m")
	must(t, chats.Reset(t.Context(), k))
	standing("in session 2 of the chat that came back", 1)
}
