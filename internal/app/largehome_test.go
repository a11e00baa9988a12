package app_test

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/long"
)

const hostileText = `<script>document.title='broken'</script><img src=x onerror="document.title='broken'">`

// largeHome is a home with 10,000 chats, 100,000 rows of the audit trail and 20,000 days of usage. 1,200 chats have two
// messages that wait. One has 5,000 entries: results of tools that are markup, and a last message of 1 MB.
func largeHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	c := config.Defaults()
	c.Home, c.LLM.Offline, c.Observability.Enabled, c.Console.Addr = home, true, false, "127.0.0.1:0"
	a, err := app.New(t.Context(), c, app.Options{Serve: true, Log: zerolog.Nop()}) // which makes the database
	if err == nil {
		err = a.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(home, "data", "corebot.db"))
	if err != nil {
		t.Fatal(err)
	}
	now, later := time.Now().UnixMilli(), time.Now().Add(24*time.Hour).UnixMilli()
	for _, fill := range []struct {
		n    int
		rows string
		args []any
	}{
		{10_000, `INSERT INTO chats (id, agent, channel, account, chat, thread, created_at)
			SELECT i, 'main', 'webhook', '', 'chat' || i, '', ? FROM n`, []any{now}},
		{
			1200, `INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq, depth,
				wake_at, waiting)
			SELECT i, 1, 'main', 'webhook', '', 'chat' || i, '', 'inbound', 3, 2, ?, 'backoff' FROM n`,
			[]any{later},
		},
		{2400, `INSERT INTO message_life (id, lane_id, message_id, kind, checksum, published_at)
			SELECT i, (i + 1) / 2, 'm' || i, 'prompt', x'00', ? FROM n`, []any{now}},
		{2400, `INSERT INTO message_queue (life_id, lane_id, seq, body)
			SELECT i, (i + 1) / 2, 2 - i % 2, x'00' FROM n`, nil},
		{100_000, `INSERT INTO audit_events (at, event, tool, agent, channel, account, chat, thread, sender, role,
				entry, outcome, rule, args, duration_ms, step_id)
			SELECT ?, 'tool.call', 'fs.read', 'main', 'webhook', '', 'chat' || (i % 10000), '', 'ann', 'normal',
				'webhook', 'success', 'r', '{"path":"a"}', 1, '' FROM n`, []any{now}},
		{5000, `INSERT INTO history (chat_id, session, seq, ordinal, speaker, text, message_id, at)
			SELECT 1, 1, i, 0, CASE i % 3 WHEN 0 THEN 'user' WHEN 1 THEN 'tool' ELSE 'assistant'
				END, i || ' ' || ?, 'h' || i, ? + i FROM n`, []any{hostileText, now - 10_000}},
		{
			1, `INSERT INTO history (chat_id, session, seq, ordinal, speaker, text, message_id, at)
			SELECT 1, 1, 6000, 0, 'assistant', ?, 'large', ? FROM n`,
			[]any{strings.Repeat(hostileText+"\n", 1<<20/90), now},
		},
		{20_000, `INSERT INTO usage_days (day, agent, key, channel, account, sender, model, turns, input, output,
				cache_read, cache_write, cost, unpriced, estimated)
			SELECT ?, 'main', 'main:webhook::chat' || (i % 10000), 'webhook', '', 's' || i, 'm' || (i % 7), 1, 1, 1,
				0, 0, i, 0, 0 FROM n`, []any{time.Now().Format(time.DateOnly)}},
	} {
		args := append([]any{fill.n}, fill.args...)
		if _, err = db.ExecContext(t.Context(), `WITH RECURSIVE n(i) AS
			(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) `+fill.rows, args...); err != nil {
			t.Fatalf("%s: %v", fill.rows, err)
		}
	}
	if _, err := db.ExecContext(t.Context(), `UPDATE store SET last_life = 2400`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return home
}

// No page and no list grows with the home: each has a bound in bytes and in rows, and says that there is more.
func TestPagesOfALargeHomeAreSmall(t *testing.T) {
	long.Only(t, "TestAPageOfTheLongestFactsIsSmall")
	const most = 45_000 // beside 80 kB of scripts and styles, which go packed and are kept
	a := daemon(t, largeHome(t))
	b, reader := loggedIn(t, a), newAPI(t, a, "reader", "read")
	for _, path := range append([]string{
		"/chats?channel=webhook", "/chats/main:webhook::chat1", "/chats/main:webhook::chat1?view=full",
		"/audit?tool=none", "/audit?tool=fs.read", "/memory?find=nothing", "/chats?find=chat99",
		"/cost?from=2020-01-01", "/why?id=m1",
	}, pagePaths...) {
		began := time.Now()
		status, text := b.get(path)
		t.Logf("%-45s %8v %8d bytes", path, time.Since(began).Round(time.Millisecond), len(text))
		if status != http.StatusOK || len(text) > most || strings.Contains(text, hostileText) {
			t.Errorf("%s is %d, with %d bytes", path, status, len(text))
		}
	}
	for _, path := range []string{
		"/api/status", "/api/agents/main/status", "/api/chats", "/api/chats/main:webhook::chat1/history",
		"/api/agents/main/history?sessionId=main:webhook::chat1", "/api/audit", "/api/audit?tool=none", "/api/usage",
		"/api/usage/sums?by=chat", "/api/usage/sums?by=day", "/api/memory?text=nothing", "/api/messages/m1",
		"/api/waits", "/api/deadletters", "/api/audit/records",
		"/api/agents/main/history?sessionId=main:webhook::chat1&view=full",
	} {
		began := time.Now()
		status, text := reader.ask("GET", path, "")
		t.Logf("%-45s %8v %8d bytes", path, time.Since(began).Round(time.Millisecond), len(text))
		if status != http.StatusOK {
			t.Errorf("%s is %d, %.200s", path, status, text)
		}
	}
	var now struct {
		Waiting int
		Chats   []any
	}
	reader.get("/api/agents/main/status", &now)
	if now.Waiting != 2400 || len(now.Chats) != 100 {
		t.Errorf("%d messages wait, and %d chats are shown", now.Waiting, len(now.Chats))
	}
	var sums struct{ Rows []struct{ Turns int } }
	reader.get("/api/usage/sums", &sums)
	if len(sums.Rows) != 1 || sums.Rows[0].Turns != 20_000 {
		t.Errorf("the sums of all days are %+v", sums)
	}
	if _, text := b.get("/"); !strings.Contains(text, "chats have messages. These are 25") {
		t.Error("the page Now does not say that there are more")
	}
}
