package storage

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/corebot/corebot"
)

func sight(t *testing.T, m *MCPTools, server string, trustNew bool, prints map[string]string) map[string]corebot.ToolPin {
	t.Helper()
	known, err := m.Sight(t.Context(), server, prints, trustNew)
	if err != nil {
		t.Fatal(err)
	}
	return known
}

func TestAToolIsPinnedAsItWasFirstSeenUntilAnOperatorSaysOtherwise(t *testing.T) {
	db := openTest(t, t.TempDir())
	m := NewMCPTools(db)
	if p := sight(t, m, "files", false, map[string]string{"read": "r1", "write": "w1"})["read"]; p.Changed() || p.Pinned != "r1" {
		t.Fatalf("at first sight: %+v", p)
	}
	for range 2 { // seeing a change again does not approve it
		known := sight(t, m, "files", false, map[string]string{"read": "r2", "write": "w1"})
		if p := known["read"]; !p.Changed() || p.Pinned != "r1" || p.Seen != "r2" || known["write"].Changed() {
			t.Fatalf("after a change: %+v", known)
		}
	}
	if n, err := m.Approve(t.Context(), "files", "read"); err != nil || n != 1 {
		t.Fatalf("approved %d, %v", n, err)
	}
	if p := sight(t, m, "files", false, map[string]string{"read": "r2"})["read"]; p.Changed() {
		t.Errorf("after the approval: %+v", p)
	}
	if n, err := m.Approve(t.Context(), "files", "read"); err != nil || n != 0 {
		t.Errorf("approved %d once more, %v", n, err)
	}
	events, err := NewAudit(db).List(t.Context(), AuditFilter{})
	if err != nil || len(events) != 1 || events[0].Event != "mcp.approve" || events[0].Args != `{"changed":1,"server":"files","tool":"read"}` {
		t.Errorf("%v; the audit has %+v", err, events)
	}
}

func TestANewToolOfAKnownServerWaitsWhereToolsArePinned(t *testing.T) {
	m := NewMCPTools(openTest(t, t.TempDir()))
	sight(t, m, "files", false, map[string]string{"read": "r"})
	if p := sight(t, m, "files", false, map[string]string{"read2": "r"})["read2"]; !p.Changed() {
		t.Errorf("a tool under another name: %+v", p)
	}
	if p := sight(t, m, "files", true, map[string]string{"read3": "r"})["read3"]; p.Changed() {
		t.Errorf("where tools are not pinned: %+v", p)
	}
	if p := sight(t, m, "other", false, map[string]string{"read": "r"})["read"]; p.Changed() {
		t.Errorf("of another server: %+v", p)
	}
	if n, err := m.Approve(t.Context(), "files", ""); err != nil || n != 3 {
		t.Errorf("approved %d, %v", n, err)
	}
	for tool, p := range sight(t, m, "files", false, map[string]string{"read2": "r"}) {
		if p.Changed() {
			t.Errorf("%s after the approval: %+v", tool, p)
		}
	}
}

func TestWhatWasNeverSeenCannotBeApproved(t *testing.T) {
	m := NewMCPTools(openTest(t, t.TempDir()))
	sight(t, m, "files", false, map[string]string{"read": "r"})
	for _, c := range [][2]string{{"files", "write"}, {"other", ""}} {
		if n, err := m.Approve(t.Context(), c[0], c[1]); !errors.Is(err, corebot.ErrNotFound) || n != 0 {
			t.Errorf("%q: %d, %v", c, n, err)
		}
	}
	if n, err := m.Approve(t.Context(), "", "read"); !errors.Is(err, corebot.ErrInvalid) || n != 0 {
		t.Errorf("a tool of no server: %d, %v", n, err)
	}
}

func TestOnlyAnOperatorApprovesATool(t *testing.T) {
	m := NewMCPTools(openTest(t, t.TempDir()))
	seen := func(read string) corebot.ToolPin {
		return sight(t, m, "files", true, map[string]string{"read": read})["read"]
	}
	if p := seen("r1"); p.Vouched(false) || !p.Vouched(true) {
		t.Fatalf("at first sight: %+v", p)
	}
	if p := seen("r1"); p.Vouched(false) || !p.Vouched(true) {
		t.Fatalf("seen again: %+v", p)
	}
	if p := seen("r2"); p.Vouched(true) {
		t.Fatalf("changed before anybody approved it: %+v", p)
	}
	seen("r1")
	approve := func(server, tool string, want int) {
		t.Helper()
		if n, err := m.Approve(t.Context(), server, tool); err != nil || n != want {
			t.Fatalf("approved %d of %q %q, %v; want %d", n, server, tool, err, want)
		}
	}
	approve("files", "read", 1)
	if p := seen("r1"); !p.Vouched(false) {
		t.Errorf("approved: %+v", p)
	}
	if p := seen("r2"); p.Vouched(false) || p.Vouched(true) {
		t.Errorf("changed: %+v", p)
	}
	if p := seen("r1"); !p.Vouched(false) {
		t.Errorf("as it was approved, again: %+v", p)
	}
	sight(t, m, "other", true, map[string]string{"a": "x", "b": "x"})
	approve("files", "", 0)
	approve("", "", 2)
	approve("", "", 0)
}

func TestWhoOnlyPeeksLearnsTheSameAndChangesNothing(t *testing.T) {
	db := openTest(t, t.TempDir())
	m := NewMCPTools(db)
	sight(t, m, "files", false, map[string]string{"read": "r1"})
	before, err := m.List(t.Context(), "")
	must(t, err)
	now := map[string]string{"read": "r2", "write": "w1"}
	peeked, err := m.Peek(t.Context(), "files", now, false)
	must(t, err)
	if after, err := m.List(t.Context(), ""); err != nil || !slices.Equal(before, after) {
		t.Errorf("%v: it was %+v and is %+v", err, before, after)
	}
	for tool, p := range sight(t, m, "files", false, now) {
		if q := peeked[tool]; q.Pinned != p.Pinned || q.Approved != p.Approved || q.Seen != p.Seen {
			t.Errorf("%s: peeked at %+v, seen as %+v", tool, q, p)
		}
	}
}

func TestAServerThatRenamesItsToolsWithoutEndFillsNothing(t *testing.T) {
	m := NewMCPTools(openTest(t, t.TempDir()))
	for round := range 6 {
		prints := map[string]string{}
		for i := range 500 {
			prints[fmt.Sprintf("t%d-%d", round, i)] = "x"
		}
		sight(t, m, "files", true, prints)
	}
	sight(t, m, "other", true, map[string]string{"a": "x"})
	all, err := m.List(t.Context(), "files")
	if err != nil || len(all) != maxMCPTools {
		t.Errorf("%d are remembered, %v", len(all), err)
	}
	if all, err = m.List(t.Context(), ""); err != nil || len(all) != maxMCPTools+1 {
		t.Errorf("%d of all servers, %v", len(all), err)
	}
}
