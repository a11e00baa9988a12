package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/migrations"
)

// Figures of docs/performance.md: the first page of 100,000 chats, each with a lane and an entry of its history.
//
//	go test ./storage -run '^$' -bench ChatsListed -benchtime 10x
func BenchmarkChatsListed(b *testing.B) {
	db := openTest(b, b.TempDir())
	manyChats(b, db, 100_000)
	for _, channel := range []string{"", "test", "other"} {
		b.Run("channel="+channel, func(b *testing.B) {
			timed(b, func() {
				got, _, err := NewChats(db).Recent(b.Context(), channel, "", 50)
				if err != nil || len(got) != 50 {
					b.Fatal(len(got), err)
				}
			})
		})
	}
}

// manyChats makes chats, one of a thousand in the channel "other".
func manyChats(tb testing.TB, db *DB, n int) {
	tb.Helper()
	for _, q := range []string{
		`INSERT INTO chats (id, agent, channel, account, chat, thread, created_at, used_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
			SELECT i, 'main', iif(i % 1000, 'test', 'other'), '', 'c' || i, '', i, (i * 7919) % ?1 + 1000001 FROM n`,
		`INSERT INTO lanes (direction, agent, channel, account, chat, thread, pool, claimed_at)
			SELECT 1, agent, channel, account, chat, thread, 'in', (id * 7919) % ?1 + 1000000 FROM chats`,
		`INSERT INTO history (chat_id, session, seq, ordinal, speaker, text, message_id, at)
			SELECT id, 1, 1, 0, 'user', 'x', 'm', (id * 7919) % ?1 + 1000001 FROM chats`,
	} {
		sideQuery(tb, db.path, q, n)
	}
}

// BenchmarkTurnsEnd shows the price of the time of use: turns of 1,000 chats among 20,000 end, each used once a second.
func BenchmarkTurnsEnd(b *testing.B) {
	db := openTest(b, b.TempDir())
	manyChats(b, db, 20_000)
	entries, err := encodeHistory([]corebot.HistoryEntry{
		{Speaker: corebot.SpeakerUser, Parts: corebot.TextPart("a question of some words")},
		{Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart("an answer of some more words")},
	})
	if err != nil {
		b.Fatal(err)
	}
	i, before := 0, time.Duration(0)
	err = db.write(b.Context(), "bench", func(t *tx) error {
		before = processorTime(b)
		for b.Loop() {
			i++
			t.now = t.now.Add(1e6)
			d := corebot.Delivery{Seq: int64(i), Message: corebot.Message{
				ID: fmt.Sprint(i), Key: testKey(fmt.Sprint("c", 1+i%1000)),
			}}
			if err := appendHistoryTx(t, d, entries, corebot.Result{}); err != nil {
				return err
			}
		}
		b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(i), "cpu-ns/op")
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// A page of many chats reads the rows that it gives, however many chats there are and of whatever channel.
func TestAPageOfChatsReadsWhatItGives(t *testing.T) {
	db := openTest(t, t.TempDir())
	manyChats(t, db, 5_000)
	for line := range strings.Lines(plan(t, db.path, chatsRecent)) {
		line = strings.TrimSpace(line)
		known := line == "SCAN channels" || line == "SCAN page" || line == "SCAN CONSTANT ROW"
		if strings.HasPrefix(line, "SCAN") && !known {
			t.Errorf("the plan has %q", line)
		}
	}
	if got := plan(t, db.path, chatsRecent); !strings.Contains(got,
		"SEARCH u USING COVERING INDEX chats_used (channel=? AND used_at<?)") {
		t.Errorf("the plan is\n%s", got)
	}
	for channel, want := range map[string][]string{"": {"c2321", "c4642", "c1963"}, "other": {"c1000", "c2000"}} {
		var all []string
		for after, pages := "", 0; len(all) < 5_000 && (after != "" || pages == 0); pages++ {
			page, next, err := NewChats(db).Recent(t.Context(), channel, after, 1_000)
			must(t, err)
			for _, c := range page {
				all = append(all, c.Key.Chat)
			}
			after = next
		}
		if !slices.Equal(all[:len(want)], want) {
			t.Errorf("channel %q begins with %v", channel, all[:4])
		}
		if slices.Sort(all); len(slices.Compact(all)) != map[string]int{"": 5_000, "other": 5}[channel] {
			t.Errorf("channel %q has %d chats", channel, len(all))
		}
	}
}

// The upgrade gives each chat the time that lists showed before.
func TestAnUpgradeKnowsWhenChatsWereUsed(t *testing.T) {
	db := openTest(t, t.TempDir())
	manyChats(t, db, 3)
	for _, q := range []string{
		`UPDATE chats SET used_at = 0`, `UPDATE chats SET created_at = 9000000 WHERE id = 1`,
		`UPDATE lanes SET claimed_at = 8000000 WHERE chat = 'c2'`,
		`INSERT INTO history (chat_id, session, seq, ordinal, speaker, text, message_id, at)
			VALUES (3, 2, 1, 0, 'user', 'x', 'm', 7000000), (3, 1, 9, 0, 'user', 'x', 'm', 7500000)`,
	} {
		sideQuery(t, db.path, q)
	}
	text, err := migrations.FS.ReadFile("0120_chats_used.sql")
	must(t, err)
	_, fill, _ := strings.Cut(string(text), "DEFAULT 0;")
	fill, _, _ = strings.Cut(fill, "CREATE INDEX")
	sideQuery(t, db.path, fill)
	if got := sideQuery(t, db.path, `SELECT used_at FROM chats ORDER BY id`); !slices.Equal(got,
		[]string{"9000000", "8000000", "7000000"}) {
		t.Errorf("the chats were used at %v", got)
	}
}

// The index is written once a minute. A page of several chats has their exact times all the same.
func TestTheTimeOfUseIsNotedOnceAMinute(t *testing.T) {
	db := openTest(t, t.TempDir())
	noted := func() string { return sideQuery(t, db.path, `SELECT used_at FROM chats WHERE chat = 'a'`)[0] }
	exchangeTest(t, db, testKey("a"), "m0", "ann", false)
	exchangeTest(t, db, testKey("b"), "m0", "ann", false)
	first := time.Now().Add(-30 * time.Second).UnixMilli()
	sideQuery(t, db.path, `UPDATE chats SET created_at = 0, used_at = ?`, first)
	exchangeTest(t, db, testKey("a"), "m1", "ann", false)
	if noted() != fmt.Sprint(first) {
		t.Errorf("within the minute %s is noted in place of %d", noted(), first)
	}
	page, _, err := NewChats(db).Recent(t.Context(), "", "", 10)
	must(t, err)
	if len(page) != 2 || page[0].Key.Chat != "a" || time.Since(page[0].UsedAt) > 20*time.Second {
		t.Errorf("listed are %+v", page)
	}
	for _, long := range []time.Duration{-2 * time.Minute, time.Hour} { // a clock that was ahead
		was := time.Now().Add(long).UnixMilli()
		sideQuery(t, db.path, `UPDATE chats SET used_at = ?`, was)
		exchangeTest(t, db, testKey("a"), fmt.Sprint("m", was), "ann", false)
		if noted() == fmt.Sprint(was) {
			t.Errorf("after %v the time of use is not noted", long)
		}
	}
}
