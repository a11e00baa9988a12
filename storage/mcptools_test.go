package storage

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/corebot/corebot"
)

func sight(t *testing.T, m *MCPTools, server string, prints map[string]string) map[string]corebot.ToolPin {
	t.Helper()
	known, err := m.Sight(t.Context(), server, prints)
	if err != nil {
		t.Fatal(err)
	}
	return known
}

func TestAToolIsPinnedAsItWasFirstSeenUntilAnOperatorSaysOtherwise(t *testing.T) {
	db := openTest(t, t.TempDir())
	m := NewMCPTools(db, "main")
	if p := sight(t, m, "files", map[string]string{"read": "r1", "write": "w1"})["read"]; p.Changed() || p.Pinned != "r1" {
		t.Fatalf("at first sight: %+v", p)
	}
	for range 2 { // seeing a change again does not approve it
		known := sight(t, m, "files", map[string]string{"read": "r2", "write": "w1"})
		if p := known["read"]; !p.Changed() || p.Pinned != "r1" || p.Seen != "r2" || known["write"].Changed() {
			t.Fatalf("after a change: %+v", known)
		}
	}
	if n, err := m.Approve(t.Context(), "files", map[string]string{"read": "r2"}); err != nil || n != 1 {
		t.Fatalf("approved %d, %v", n, err)
	}
	if p := sight(t, m, "files", map[string]string{"read": "r2"})["read"]; p.Changed() {
		t.Errorf("after the approval: %+v", p)
	}
	if n, err := m.Approve(t.Context(), "files", map[string]string{"read": "r2"}); err != nil || n != 0 {
		t.Errorf("approved %d once more, %v", n, err)
	}
	events, err := NewAudit(db).List(t.Context(), corebot.AuditFilter{})
	if err != nil || len(events) != 1 || events[0].Event != "mcp.approve" || events[0].Args != `{"agent":"main","fingerprint":"r2","server":"files","tool":"read"}` {
		t.Errorf("%v; the audit has %+v", err, events)
	}
}

func TestAToolThatComesAfterTheFirstListingOfItsServerWaitsForAnApproval(t *testing.T) {
	m := NewMCPTools(openTest(t, t.TempDir()), "main")
	sight(t, m, "files", map[string]string{"read": "r"})
	if p := sight(t, m, "files", map[string]string{"read": "r", "read2": "r"})["read2"]; !p.Changed() || p.Vouched(true) {
		t.Errorf("a tool that came later: %+v", p)
	}
	sight(t, m, "empty", map[string]string{})
	if p := sight(t, m, "empty", map[string]string{"read": "r"})["read"]; p.Vouched(true) {
		t.Errorf("after an empty listing: %+v", p)
	}
	if p := sight(t, m, "other", map[string]string{"read": "r"})["read"]; p.Changed() {
		t.Errorf("of another server: %+v", p)
	}
	if n, err := m.Approve(t.Context(), "files", map[string]string{"read": "r", "read2": "r"}); err != nil || n != 2 {
		t.Errorf("approved %d, %v", n, err)
	}
	for tool, p := range sight(t, m, "files", map[string]string{"read2": "r"}) {
		if p.Changed() {
			t.Errorf("%s after the approval: %+v", tool, p)
		}
	}
}

func TestAnApprovalTakesWhatWasReadAndNothingElse(t *testing.T) {
	m := NewMCPTools(openTest(t, t.TempDir()), "main")
	sight(t, m, "files", map[string]string{"a": "a1", "b": "b1"})
	for _, c := range []struct {
		server string
		prints map[string]string
		want   error
	}{
		{"files", map[string]string{"write": "w"}, corebot.ErrNotFound},
		{"other", map[string]string{"a": "a1"}, corebot.ErrNotFound},
		{"", map[string]string{"a": "a1"}, corebot.ErrNotFound},
		{"files", map[string]string{"a": "a2"}, corebot.ErrInvalid},
		{"files", map[string]string{"a": ""}, corebot.ErrInvalid},
		{"files", map[string]string{"a": "a1", "b": "b2"}, corebot.ErrInvalid},
	} {
		if n, err := m.Approve(t.Context(), c.server, c.prints); !errors.Is(err, c.want) || n != 0 {
			t.Errorf("%s %v: approved %d, %v", c.server, c.prints, n, err)
		}
	}
	for tool, p := range sight(t, m, "files", map[string]string{"a": "a1", "b": "b1"}) {
		if p.Vouched(false) {
			t.Errorf("%s is approved: %+v", tool, p)
		}
	}
}

func TestOnlyAnOperatorApprovesATool(t *testing.T) {
	m := NewMCPTools(openTest(t, t.TempDir()), "main")
	seen := func(read string) corebot.ToolPin {
		return sight(t, m, "files", map[string]string{"read": read})["read"]
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
	approve := func(server string, want int, prints map[string]string) {
		t.Helper()
		if n, err := m.Approve(t.Context(), server, prints); err != nil || n != want {
			t.Fatalf("approved %d of %q %v, %v; want %d", n, server, prints, err, want)
		}
	}
	approve("files", 1, map[string]string{"read": "r1"})
	if p := seen("r1"); !p.Vouched(false) {
		t.Errorf("approved: %+v", p)
	}
	if p := seen("r2"); p.Vouched(false) || p.Vouched(true) {
		t.Errorf("changed: %+v", p)
	}
	if p := seen("r1"); !p.Vouched(false) {
		t.Errorf("as it was approved, again: %+v", p)
	}
	sight(t, m, "other", map[string]string{"a": "x", "b": "x"})
	approve("files", 0, map[string]string{"read": "r1"})
	approve("other", 2, map[string]string{"a": "x", "b": "x"})
	approve("other", 0, map[string]string{"a": "x", "b": "x"})
}

func TestWhoOnlyPeeksLearnsTheSameAndChangesNothing(t *testing.T) {
	db := openTest(t, t.TempDir())
	m := NewMCPTools(db, "main")
	sight(t, m, "files", map[string]string{"read": "r1"})
	before, err := m.List(t.Context(), "")
	must(t, err)
	now := map[string]string{"read": "r2", "write": "w1"}
	peeked, err := m.Peek(t.Context(), "files", now)
	must(t, err)
	if after, err := m.List(t.Context(), ""); err != nil || !slices.Equal(before, after) {
		t.Errorf("%v: it was %+v and is %+v", err, before, after)
	}
	for tool, p := range sight(t, m, "files", now) {
		if q := peeked[tool]; q.Pinned != p.Pinned || q.Approved != p.Approved || q.Seen != p.Seen {
			t.Errorf("%s: peeked at %+v, seen as %+v", tool, q, p)
		}
	}
}

func TestAServerThatRenamesItsToolsWithoutEndFillsNothing(t *testing.T) {
	m := NewMCPTools(openTest(t, t.TempDir()), "main")
	for round := range 6 {
		prints := map[string]string{}
		for i := range 500 {
			prints[fmt.Sprintf("t%d-%d", round, i)] = "x"
		}
		sight(t, m, "files", prints)
	}
	sight(t, m, "other", map[string]string{"a": "x"})
	all, err := m.List(t.Context(), "files")
	if err != nil || len(all) != maxMCPTools {
		t.Errorf("%d are remembered, %v", len(all), err)
	}
	if all, err = m.List(t.Context(), ""); err != nil || len(all) != maxMCPTools+1 {
		t.Errorf("%d of all servers, %v", len(all), err)
	}
}

func TestServersOfOneNameAreEachAgentsOwn(t *testing.T) {
	db := openTest(t, t.TempDir())
	first, other := NewMCPTools(db, "main"), NewMCPTools(db, "helper")
	for agent, m := range map[string]*MCPTools{"main": first, "helper": other} {
		if _, err := m.Sight(t.Context(), "files", map[string]string{"read": "of " + agent}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := first.Approve(t.Context(), "files", map[string]string{"read": "of helper"}); err == nil {
		t.Error("the fingerprint of another agent's tool was taken")
	}
	if n, err := other.Approve(t.Context(), "files", map[string]string{"read": "of helper"}); n != 1 || err != nil {
		t.Errorf("approved %d, %v", n, err)
	}
	for agent, m := range map[string]*MCPTools{"main": first, "helper": other} {
		list, err := m.List(t.Context(), "")
		if err != nil || len(list) != 1 || list[0].Seen != "of "+agent || list[0].Approved != "" != (agent == "helper") {
			t.Errorf("%s knows %+v, %v", agent, list, err)
		}
	}
}
