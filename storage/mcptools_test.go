package storage

import (
	"errors"
	"fmt"
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

func TestAToolIsApprovedAsItWasFirstSeenUntilAnOperatorSaysOtherwise(t *testing.T) {
	db := openTest(t, t.TempDir())
	m := NewMCPTools(db)
	if p := sight(t, m, "files", false, map[string]string{"read": "r1", "write": "w1"})["read"]; p.Changed() || p.Approved != "r1" {
		t.Fatalf("at first sight: %+v", p)
	}
	for range 2 { // seeing a change again does not approve it
		known := sight(t, m, "files", false, map[string]string{"read": "r2", "write": "w1"})
		if p := known["read"]; !p.Changed() || p.Approved != "r1" || p.Seen != "r2" || known["write"].Changed() {
			t.Fatalf("after a change: %+v", known)
		}
	}
	if n, err := m.Approve(t.Context(), "files", "read"); err != nil || n != 1 {
		t.Fatalf("approved %d, %v", n, err)
	}
	if p := sight(t, m, "files", false, map[string]string{"read": "r2"})["read"]; p.Changed() {
		t.Errorf("after the approval: %+v", p)
	}
	if n, err := m.Approve(t.Context(), "files", ""); err != nil || n != 0 {
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
	if n, err := m.Approve(t.Context(), "files", ""); err != nil || n != 1 {
		t.Errorf("approved %d, %v", n, err)
	}
}

func TestWhatWasNeverSeenCannotBeApproved(t *testing.T) {
	m := NewMCPTools(openTest(t, t.TempDir()))
	sight(t, m, "files", false, map[string]string{"read": "r"})
	for _, c := range [][2]string{{"files", "write"}, {"other", ""}, {"", "read"}} {
		if n, err := m.Approve(t.Context(), c[0], c[1]); !errors.Is(err, corebot.ErrNotFound) || n != 0 {
			t.Errorf("%q: %d, %v", c, n, err)
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
