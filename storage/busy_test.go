package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

// busyLanes adds lanes of an agent with two messages each, the first lanes with a turn that runs.
func busyLanes(t *testing.T, dir, agent string, from, n, running int) {
	t.Helper()
	grow(t, dir, n, `INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq, depth,
			wake_at, leased)
		SELECT ?1 + i, 1, ?2, 'test', '', 'chat' || i, '', 'inbound', 3, 2, 1000000 - i, i <= ?3 FROM n`,
		from, agent, running)
	for seq := 1; seq <= 2; seq++ {
		grow(t, dir, n, `INSERT INTO message_life (id, lane_id, message_id, kind, checksum, published_at)
			SELECT 2 * (?1 + i) + ?2, ?1 + i, 'm' || ?2, 'prompt', x'00', 1 FROM n`, from, seq)
		grow(t, dir, n, `INSERT INTO message_queue (life_id, lane_id, seq, body)
			SELECT 2 * (?1 + i) + ?2, ?1 + i, ?2, x'00' FROM n`, from, seq)
	}
}

func TestBusyLanesAreCountedBeyondThoseThatAreShown(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	busyLanes(t, dir, "main", 1, 1200, 3)
	busyLanes(t, dir, "other", 5000, 20, 1)
	l := NewLives(db)
	for agent, want := range map[string][3]int64{"main": {1200, 3, 2400}, "other": {20, 1, 40}, "": {1220, 4, 2440}} {
		b, err := l.Heads(t.Context(), agent, 10, false)
		if must(t, err); [3]int64{b.Lanes, b.Running, b.Messages} != want || len(b.Fronts) != 10 {
			t.Errorf("%q has %d lanes, %d running, %d messages, %d of them", agent, b.Lanes, b.Running, b.Messages,
				len(b.Fronts))
		}
		for i, f := range b.Fronts {
			runs := f.Life.State == "running"
			if f.Messages != 2 || f.Life.MessageID != "m1" || agent != "" && f.Life.Key.Agent != agent ||
				runs != (i < int(want[1])) {
				t.Errorf("front %d of %q is %+v", i, agent, f)
			}
		}
	}
	if b, err := l.Heads(t.Context(), "nobody", 10, true); err != nil || b.Lanes != 0 || len(b.Fronts) != 0 {
		t.Errorf("nobody has %+v: %v", b, err)
	}
	// The messages are found from the lanes that are shown: those behind them are not read.
	got := plan(t, dir+"/"+FileName, livesAtHeads)
	for line := range strings.Lines(got) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "SCAN") && line != "SCAN b" &&
			line != "SCAN (subquery-1)" && !strings.HasPrefix(line, "SCAN lanes USING INDEX lanes_wake") &&
			!strings.HasPrefix(line, "SCAN (subquery") {
			t.Errorf("%s\n%s", line, got)
		}
	}
}

func TestUseIsAddedUpByDayChatAndModel(t *testing.T) {
	dir := t.TempDir()
	books := NewBooks(openTest(t, dir))
	for i, day := range []string{"2026-11-24", "2026-11-24", "2026-11-23", "2026-11-22", "2026-11-22"} {
		sideQuery(t, dir, `INSERT INTO usage_days (day, agent, key, channel, account, sender, model, turns, input,
			output, cache_read, cache_write, cost, unpriced, estimated)
			VALUES (?, 'main', ?, 'test', '', '', ?, 1, ?, 0, 0, 0, ?, 0, 0)`, day, fmt.Sprint("chat ", i%2),
			fmt.Sprint("model ", i%3), i, i)
	}
	for by, want := range map[string]string{
		"day":   "2026-11-24 2 1, 2026-11-23 1 2, 2026-11-22 2 7",
		"chat":  "chat 0 3 6, chat 1 2 4",
		"model": "model 1 2 5, model 0 2 3, model 2 1 2",
	} {
		found, more, err := books.Sums(t.Context(), by, "2026-11-01", "2026-11-30", 10)
		must(t, err)
		got := ""
		for _, r := range found {
			got += fmt.Sprintf("%s %d %d, ", r.Name, r.Turns, int64(r.Cost))
		}
		if got = strings.TrimSuffix(got, ", "); got != want || more {
			t.Errorf("by %s it is %s, and more: %v", by, got, more)
		}
		if first, more, err := books.Sums(t.Context(), by, "", "9", 1); err != nil || len(first) != 1 || !more {
			t.Errorf("the first by %s is %+v: %v", by, first, err)
		}
	}
	if found, _, err := books.Sums(t.Context(), "day", "2026-11-23", "2026-11-23", 10); err != nil || len(found) != 1 ||
		found[0].UsageTotals != (corebot.UsageTotals{Turns: 1, InputTokens: 2, Cost: 2}) {
		t.Errorf("of one day it is %+v: %v", found, err)
	}
	for _, limit := range []int{1, 2, 10} {
		all, moreOfAll, err := books.SumsByAll(t.Context(), "2026-11-01", "2026-11-30", limit)
		must(t, err)
		anyMore := false
		for _, by := range []string{"day", "chat", "model"} {
			found, more, err := books.Sums(t.Context(), by, "2026-11-01", "2026-11-30", limit)
			must(t, err)
			if anyMore = anyMore || more; !slices.Equal(all[by], found) {
				t.Errorf("%d by %s are %+v in one reading, alone %+v", limit, by, all[by], found)
			}
		}
		if moreOfAll != anyMore {
			t.Errorf("of %d there are more in one reading: %v, alone: %v", limit, moreOfAll, anyMore)
		}
	}
	if _, _, err := books.Sums(t.Context(), "sender", "", "9", 1); err == nil {
		t.Error("a name that is none is added up")
	}
}

// The page of the costs adds usage up by day, chat and model. It reads each row once for that, and no row three times.
func TestUsageIsReadOnceForAllSums(t *testing.T) {
	const rows = 2_000
	dir := t.TempDir()
	db := openTest(t, dir)
	sideQuery(t, dir, `INSERT INTO usage_days (day, agent, key, channel, account, sender, model, turns, input,
		output, cache_read, cache_write, cost, unpriced, estimated)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT '2026-11-24', 'main', 'chat ' || i, 'test', '', '', 'm', 1, 1, 1, 0, 0, i, 0, 0 FROM n`, rows)
	before := readerSteps(db)
	sums, more, err := NewBooks(db).SumsByAll(t.Context(), "", "9", 10)
	must(t, err)
	if steps := readerSteps(db) - before; steps > 20*rows || steps < rows {
		t.Errorf("the sums of %d rows take %d steps", rows, steps)
	}
	if !more || len(sums["chat"]) != 10 || sums["chat"][0].Cost != rows || sums["model"][0].Turns != rows {
		t.Errorf("the sums are %+v, and more: %v", sums, more)
	}
}
