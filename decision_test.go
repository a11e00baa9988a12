package corebot_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestADecisionIsReadAsPeopleWriteIt(t *testing.T) {
	for text, want := range map[string]corebot.Decision{
		"/approve 7":        {Approve: true},
		"/approve #7 once":  {Approve: true},
		"/Approve 7  ONCE ": {Approve: true},
		"/deny 7":           {},
		"/deny 7 stop":      {Stop: true},
	} {
		c, _, _ := corebot.ParseCommand(text)
		id, d, ok := corebot.ParseDecision(c)
		if id != 7 || d != want || !ok || d.Validate() != nil {
			t.Errorf("%q is %d, %+v, %v", text, id, d, ok)
		}
	}
	for _, text := range []string{
		"/approve", "/approve x", "/approve 7 stop", "/approve 7 8", "/approve 7 always always", "/deny 7 always",
		"/deny 7 once", "/deny 0", "/approve always", "/approve -7",
	} {
		c, _, _ := corebot.ParseCommand(text)
		if id, d, ok := corebot.ParseDecision(c); ok {
			t.Errorf("%q is %d, %+v", text, id, d)
		}
	}
	for _, d := range []corebot.Decision{
		{Approve: true, Stop: true},
		{For: corebot.ForAlways},
		{Approve: true, For: "ever"},
	} {
		if d.Validate() == nil {
			t.Errorf("%+v is a decision", d)
		}
	}
}

func TestWhatLooksLikeAnAnswer(t *testing.T) {
	for _, text := range []string{
		"yes", "Yes!", " y ", "yes please", "ok, go ahead", "Go ahead.", "do it", "approve 7", "approve #7", "yes 7",
		"always", "No.", "no thanks", "don’t", "nein danke", "👍", "✅️", "allow this session", "да", "deny it",
	} {
		if !corebot.LooksLikeAnswer(text) {
			t.Errorf("%q looks like none", text)
		}
	}
	for _, text := range []string{
		"", "?", "7", "yes, and then tell Bob that the meeting is at ten", "no idea what that call is", "please",
		"what does it do?", "are you there?", "yesterday", "no milk today", "stop the music",
	} {
		if corebot.LooksLikeAnswer(text) {
			t.Errorf("%q looks like one", text)
		}
	}
}

func TestTheWayOutNamesEachDeclarableToolOnce(t *testing.T) {
	call := func(declarable bool, tool string) corebot.Approval {
		return corebot.Approval{Declarable: declarable, Bound: corebot.Bound{Tool: tool}}
	}
	var many []corebot.Approval
	for i := range 6 {
		many = append(many, call(true, fmt.Sprintf("mcp__a__%d", i)))
	}
	for want, calls := range map[string][]corebot.Approval{
		"": {call(false, "mcp__a__send")},
		"If you know that mcp__a__get only reads, ": {
			call(true, "mcp__a__get"), call(false, "mcp__a__send"), call(true, "mcp__a__get"),
		},
		"If you know that mcp__a__get and mcp__a__list only read, ": {
			call(true, "mcp__a__get"), call(true, "mcp__a__list"),
		},
		"If you know that mcp__a__0, mcp__a__1, mcp__a__2, mcp__a__3 and 2 more tools of the request only read, ": many,
	} {
		got := corebot.WayOut(calls)
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("it is %q, want %q", got, want)
		}
		if got != "" && !strings.Contains(got, corebot.HowToDeclare) {
			t.Errorf("%q does not name the settings", got)
		}
	}
}
