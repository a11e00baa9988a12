package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/storage"
)

// TestFactsAreListedShownAndForgotten: by the real commands, on a home on which no Corebot runs.
func TestFactsAreListedShownAndForgotten(t *testing.T) {
	long.Only(t, "TestStories")
	home := t.TempDir()
	chat := func(name string) corebot.Key {
		return corebot.Key{Agent: "main", Channel: "cli", Account: "local", Chat: name}
	}
	const many = 1_100 // more than a page
	learn := func(ctx context.Context, db *storage.DB) error {
		ann := corebot.AtTerminal(7)
		for i := range many {
			if err := storage.NewFacts(db).Learn(ctx, corebot.Fact{
				Key: chat("busy"), Scope: corebot.FactsOfChat, Subject: "ann", Relation: "counts",
				Object: fmt.Sprint("to ", i), Sender: ann, MessageID: "m1", At: time.Now(),
			}); err != nil {
				return err
			}
		}
		for _, town := range []string{"Lima", "Malmö\x1b[31m"} {
			if err := storage.NewFacts(db).Learn(ctx, corebot.Fact{
				Key: chat("open"), Scope: corebot.FactsOfChat, Subject: "ann", Relation: "lives in", Object: town,
				Sender: ann, MessageID: "m2", Taint: "a page", At: time.Now(), Replaces: true,
			}); err != nil {
				return err
			}
		}
		return storage.NewFacts(db).Learn(ctx, corebot.Fact{
			Key: chat("open"), Scope: corebot.FactsOfChannel, Subject: "the office", Relation: "is in", Object: "Rome",
			At: time.Now(),
		})
	}
	err := app.WithStore(t.Context(), home, func(db *storage.DB) error { return learn(t.Context(), db) })
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := newMemory(&shell{home: home})
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(append([]string{"facts"}, args...))
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	want := func(wants string, args ...string) string {
		t.Helper()
		out, err := run(args...)
		if err != nil || !strings.Contains(out, wants) {
			t.Errorf("%v: %q, %v, want %q", args, out, err, wants)
		}
		return out
	}
	rows := func(out string) int { return strings.Count(out, "\n") }

	if n := rows(want("Lima", "list", "--json", "--superseded", "--limit", "2000")); n != many+3 {
		t.Errorf("%d facts in all", n)
	}
	if n := rows(want("Malmö", "list", "--json", "--limit", "2000", "--agent", "main")); n != many+2 {
		t.Errorf("%d facts hold", n)
	}
	if out := want("no facts", "list", "--agent", "other"); rows(out) != 1 {
		t.Errorf("the other agent has %q", out)
	}
	if out := want("Rome", "list", "main:cli:local:open"); strings.Contains(out, "counts") ||
		strings.Contains(out, "Lima") || strings.Contains(out, "\x1b") || !strings.Contains(out, "untrusted") {
		t.Errorf("the chat has %q", out)
	}
	if out := want("Rome", "list", "--channel", "cli/local"); rows(out) != 2 {
		t.Errorf("the channel has %q", out)
	}
	if out := want("to 1099", "list", "main:cli:local:busy", "--json", "--limit", "3"); rows(out) != 3 {
		t.Errorf("a limited list is %q", out)
	}
	var row struct {
		ID           int64
		ChatID       string
		SenderID     string
		SupersededBy int64
	}
	out := strings.Split(want("Lima", "list", "main:cli:local:open", "--superseded", "--json"), "\n")
	if err := json.Unmarshal([]byte(out[2]), &row); err != nil || row.SupersededBy == 0 ||
		row.ChatID != "main:cli:local:open" || row.SenderID != "cli:local:7" {
		t.Fatalf("the row is %q: %v", out[2], err)
	}
	want(fmt.Sprintf("superseded by %d", row.SupersededBy), "show", fmt.Sprint(row.ID))
	want("facts forgotten: 2", "forget", fmt.Sprint(row.ID), fmt.Sprint(row.SupersededBy))
	for _, gone := range [][]string{{"show", fmt.Sprint(row.ID)}, {"forget", fmt.Sprint(row.ID)}} {
		if out, err := run(gone...); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("%v: %q, %v", gone, out, err)
		}
	}
	for _, bad := range [][]string{
		{"show", "x"}, {"forget"}, {"forget", "0"}, {"list", "main:cli:local:open", "--agent", "a"},
	} {
		if out, err := run(bad...); err == nil {
			t.Errorf("%v: %q", bad, out)
		}
	}
}
