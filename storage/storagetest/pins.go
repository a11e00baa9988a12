package storagetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/mcp"
)

// Pins are how the tools of MCP servers looked when they were pinned and when they were approved. They guarantee:
//
//   - The first listing of a server pins its tools as they are, and approves none of them.
//   - A tool that changes stays pinned as it was, however often it is seen.
//   - A tool that comes after the first listing waits for an approval, also where that listing was empty.
//   - An approval takes the fingerprint that was read and no other, for all of its tools or for none.
//   - An approved tool is vouched for while it is as it was approved, also when it has been another meanwhile.
//   - A declaration that a tool only reads holds for what was read, until an approval without it.
//   - A peek gives what a sight would give, and notes nothing.
//   - The tools of one agent are no other agent's, under the same names too.
//   - A server that renames its tools without end fills nothing.
//   - What was pinned and approved survives a restart, and each approval leaves one audit event.
type Pins interface {
	mcp.Pins
	Approve(ctx context.Context, server string, fingerprints map[string]string, readOnly ...string) (changed int,
		err error)
	List(ctx context.Context, server string) ([]corebot.ToolPin, error)
}

func pinSpecs() []spec {
	return []spec{
		{"The first listing of a server pins its tools as they are, and approves none of them.", firstListingPins},
		{"A tool that changes stays pinned as it was, however often it is seen.", changedToolStaysPinned},
		{
			"A tool that comes after the first listing waits for an approval, also where that listing was empty.",
			laterToolWaits,
		},
		{
			"An approval takes the fingerprint that was read and no other, for all of its tools or for none.",
			approvalTakesWhatWasRead,
		},
		{
			"An approved tool is vouched for while it is as it was approved, also when it has been another meanwhile.",
			approvedToolIsVouchedFor,
		},
		{
			"A declaration that a tool only reads holds for what was read, until an approval without it.",
			declarationIsOfWhatWasRead,
		},
		{"A peek gives what a sight would give, and notes nothing.", peekNotesNothing},
		{"The tools of one agent are no other agent's, under the same names too.", pinsAreTheAgents},
		{"A server that renames its tools without end fills nothing.", pinsAreBounded},
		{"What was pinned and approved survives a restart, and each approval leaves one audit event.", pinsSurvive},
	}
}

// prints are tools by their names, with how they look.
type prints = map[string]string

// sight has the first agent see the tools of a server.
func (s *suite) sight(server string, seen prints) map[string]corebot.ToolPin {
	s.t.Helper()
	known, err := s.Pins(corebot.DefaultAgent).Sight(s.ctx(), server, seen)
	s.must(err)
	return known
}

func (s *suite) approve(server string, read prints, want int) {
	s.t.Helper()
	if n, err := s.Pins(corebot.DefaultAgent).Approve(s.ctx(), server, read); err != nil || n != want {
		s.t.Fatalf("approved %d of %v, %v; want %d", n, read, err, want)
	}
}

// wantPin compares a tool: pinned, approved, seen.
func (s *suite) wantPin(p corebot.ToolPin, pinned, approved, seen string) {
	s.t.Helper()
	if p.Pinned != pinned || p.Approved != approved || p.Seen != seen {
		s.t.Fatalf("the tool is %+v; want %q, %q, %q", p, pinned, approved, seen)
	}
}

func firstListingPins(s *suite) {
	known := s.sight("files", prints{"read": "r1", "write": "w1"})
	s.wantPin(known["read"], "r1", "", "r1")
	s.wantPin(known["write"], "w1", "", "w1")
	p := s.sight("files", prints{"read": "r1"})["read"]
	if p.Server != "files" || p.Tool != "read" || p.ChangedAt.IsZero() || p.Vouched(false) || !p.Vouched(true) {
		s.t.Errorf("seen again it is %+v", p)
	}
	s.wantPin(s.sight("other", prints{"read": "x"})["read"], "x", "", "x")
}

func changedToolStaysPinned(s *suite) {
	s.sight("files", prints{"read": "r1", "write": "w1"})
	time.Sleep(time.Minute)
	changed := time.Now()
	for range 2 {
		known := s.sight("files", prints{"read": "r2", "write": "w1"})
		s.wantPin(known["read"], "r1", "", "r2")
		s.wantPin(known["write"], "w1", "", "w1")
		if p := known["read"]; p.Vouched(true) || !p.ChangedAt.Equal(changed) {
			s.t.Errorf("the changed tool is %+v", p)
		}
		time.Sleep(time.Minute)
	}
	if p := s.sight("files", prints{"read": "r1"})["read"]; !p.Vouched(true) {
		s.t.Errorf("as it was, again: %+v", p)
	}
}

func laterToolWaits(s *suite) {
	s.sight("files", prints{"read": "r"})
	s.wantPin(s.sight("files", prints{"read": "r", "renamed": "r"})["renamed"], "", "", "r")
	s.sight("empty", prints{})
	s.wantPin(s.sight("empty", prints{"read": "r"})["read"], "", "", "r")
	s.approve("files", prints{"renamed": "r"}, 1)
	s.wantPin(s.sight("files", prints{"renamed": "r"})["renamed"], "r", "r", "r")
}

func approvalTakesWhatWasRead(s *suite) {
	s.sight("files", prints{"a": "a1", "b": "b1"})
	for _, c := range []struct {
		server string
		read   prints
		want   error
	}{
		{"files", prints{"write": "w"}, corebot.ErrNotFound},
		{"other", prints{"a": "a1"}, corebot.ErrNotFound},
		{"", prints{"a": "a1"}, corebot.ErrNotFound},
		{"files", prints{"a": "a2"}, corebot.ErrInvalid},
		{"files", prints{"a": ""}, corebot.ErrInvalid},
		{"files", prints{"a": "a1", "b": "b2"}, corebot.ErrInvalid},
	} {
		if n, err := s.Pins(corebot.DefaultAgent).Approve(s.ctx(), c.server, c.read); !errors.Is(err, c.want) ||
			n != 0 {
			s.t.Errorf("%s %v: approved %d, %v", c.server, c.read, n, err)
		}
	}
	for _, p := range s.sight("files", prints{"a": "a1", "b": "b1"}) {
		s.wantPin(p, p.Seen, "", p.Seen)
	}
}

func approvedToolIsVouchedFor(s *suite) {
	s.sight("files", prints{"read": "r1"})
	s.sight("files", prints{"read": "r2"})
	s.approve("files", prints{"read": "r2"}, 1)
	s.approve("files", prints{"read": "r2"}, 0)
	for _, c := range []struct {
		seen    string
		vouched bool
	}{{"r2", true}, {"r3", false}, {"r1", false}, {"r2", true}} {
		if p := s.sight("files", prints{"read": c.seen})["read"]; p.Vouched(false) != c.vouched ||
			p.Vouched(true) != c.vouched {
			s.t.Errorf("seen as %s it is %+v", c.seen, p)
		}
	}
}

func peekNotesNothing(s *suite) {
	pins := s.Pins(corebot.DefaultAgent)
	s.sight("files", prints{"read": "r1"})
	before, err := pins.List(s.ctx(), "")
	s.must(err)
	for server, now := range map[string]prints{"files": {"read": "r2", "write": "w1"}, "new": {"read": "x"}} {
		peeked, err := pins.Peek(s.ctx(), server, now)
		s.must(err)
		after, err := pins.List(s.ctx(), "")
		s.must(err)
		s.equal("what is known", after, before)
		seen := s.sight(server, now)
		if len(seen) != len(peeked) {
			s.t.Errorf("peeked at %+v, seen as %+v", peeked, seen)
		}
		for tool, p := range seen {
			s.wantPin(peeked[tool], p.Pinned, p.Approved, p.Seen)
		}
		before, err = pins.List(s.ctx(), "")
		s.must(err)
	}
}

func pinsAreTheAgents(s *suite) {
	agents := []string{"main", "helper"}
	for _, agent := range agents {
		known, err := s.Pins(agent).Sight(s.ctx(), "files", prints{"read": "of " + agent})
		s.must(err)
		s.wantPin(known["read"], "of "+agent, "", "of "+agent)
	}
	if _, err := s.Pins("main").Approve(s.ctx(), "files", prints{"read": "of helper"}); err == nil {
		s.t.Error("the fingerprint of another agent's tool was taken")
	}
	if n, err := s.Pins("helper").Approve(s.ctx(), "files", prints{"read": "of helper"}); n != 1 || err != nil {
		s.t.Errorf("approved %d, %v", n, err)
	}
	for i, agent := range agents {
		all, err := s.Pins(agent).List(s.ctx(), "")
		s.must(err)
		if len(all) != 1 {
			s.t.Fatalf("%s knows %+v", agent, all)
		}
		s.wantPin(all[0], "of "+agent, []string{"", "of helper"}[i], "of "+agent)
	}
}

func pinsAreBounded(s *suite) {
	const most, each = 3_000, 1_500
	for round := range 3 {
		seen := prints{}
		for i := range each {
			seen[fmt.Sprintf("t%d-%d", round, i)] = "x"
		}
		s.sight("files", seen)
	}
	s.sight("other", prints{"a": "x"})
	pins := s.Pins(corebot.DefaultAgent)
	if all, err := pins.List(s.ctx(), "files"); err != nil || len(all) > most {
		s.t.Errorf("%d are remembered, %v", len(all), err)
	}
	if all, err := pins.List(s.ctx(), "other"); err != nil || len(all) != 1 {
		s.t.Errorf("of another server there are %+v, %v", all, err)
	}
}

func pinsSurvive(s *suite) {
	s.sight("files", prints{"read": "r1", "write": "w1"})
	s.sight("files", prints{"read": "r2"})
	s.approve("files", prints{"write": "w1"}, 1)
	s.reopen()
	known := s.sight("files", prints{"late": "l1"})
	s.wantPin(known["read"], "r1", "", "r2")
	s.wantPin(known["write"], "w1", "w1", "w1")
	s.wantPin(known["late"], "", "", "l1")
	s.wantNotes(`mcp.approve|operator|:::|{"agent":"main","fingerprint":"w1","server":"files","tool":"write"}`)
}

func declarationIsOfWhatWasRead(s *suite) {
	reads := func() string { return fmt.Sprint(s.sight("mail", prints{"list": "v1", "send": "v1"})["list"].Reads()) }
	s.sight("mail", prints{"list": "v1", "send": "v1"})
	for n, readOnly := range [][]string{{"list"}, {"list"}, nil} {
		changed, err := s.Pins(corebot.DefaultAgent).Approve(s.ctx(), "mail", prints{"list": "v1"}, readOnly...)
		s.must(err)
		s.equal(fmt.Sprintf("approved, time %d", n), changed, []int{1, 0, 1}[n])
		s.equal(fmt.Sprintf("declared, time %d", n), reads(), fmt.Sprint(readOnly != nil))
	}
	_, err := s.Pins(corebot.DefaultAgent).Approve(s.ctx(), "mail", prints{"list": "v1"}, "list", "send")
	s.must(err)
	if known := s.sight("mail", prints{"list": "v2", "send": "v1"}); known["list"].Reads() || known["send"].Reads() {
		s.t.Errorf("declared are %+v", known)
	}
	s.equal("as it was declared", reads(), "true")
}
