package corebot_test

import (
	"encoding/json"
	"testing"

	"github.com/corebot/corebot"
)

func TestASummaryKnowsWhoseWordsItIsMadeOf(t *testing.T) {
	alice, bob := corebot.Principal{Channel: "x", ID: "alice"}, corebot.Principal{Channel: "x", ID: "bob"}
	said := func(p corebot.Principal) corebot.HistoryEntry {
		return corebot.HistoryEntry{Speaker: corebot.SpeakerUser, Sender: p}
	}
	unnamed := corebot.Principal{Channel: "x"}
	answer, posted := corebot.HistoryEntry{Speaker: corebot.SpeakerAssistant}, corebot.HistoryEntry{
		Speaker: corebot.SpeakerAssistant, MessageID: corebot.OwnIDs + "sent/1/1/0",
	}
	read := corebot.HistoryEntry{Speaker: corebot.SpeakerTool, Outside: true}
	for name, c := range map[string]struct {
		of      []corebot.HistoryEntry
		only    bool // alice has spoken and nobody else
		outside bool
	}{
		"own words":        {[]corebot.HistoryEntry{said(alice), answer, said(alice)}, true, false},
		"others behind":    {[]corebot.HistoryEntry{said(alice), said(bob), said(alice)}, false, false},
		"others before":    {[]corebot.HistoryEntry{said(bob), said(alice)}, false, false},
		"unnamed":          {[]corebot.HistoryEntry{said(unnamed)}, false, false},
		"unnamed behind":   {[]corebot.HistoryEntry{said(alice), said(unnamed)}, false, false},
		"a result":         {[]corebot.HistoryEntry{said(alice), read, answer}, true, true},
		"sent from a chat": {[]corebot.HistoryEntry{said(alice), posted, said(alice)}, true, true},
		"nobody":           {[]corebot.HistoryEntry{posted}, false, true},
	} {
		var s corebot.Sources
		for _, e := range c.of {
			s.Add(e)
		}
		if s.OnlyOf(alice) != c.only || s.Outside != c.outside || s.OnlyOf(unnamed) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func FuzzAToolCallSurvivesTheJournalWhateverItsArguments(f *testing.F) {
	for _, args := range []string{``, `{}`, `{"a":1}`, `{"a":`, `null`, `"x"`, `not json`, "{\"a\":\"\u2028<>&\"}"} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, args string) {
		call := corebot.ToolCall{ID: "c", Tool: "fs.read", Args: json.RawMessage(args)}
		data, err := json.Marshal(corebot.Answer{Calls: []corebot.ToolCall{call}})
		if err != nil {
			t.Fatalf("marshal %q: %v", args, err)
		}
		var back corebot.Answer
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatalf("unmarshal %s: %v", data, err)
		}
		got := back.Calls[0].Args
		if json.Valid(call.Args) != json.Valid(got) {
			t.Fatalf("%q came back as %q", args, got)
		}
		if !json.Valid(call.Args) && string(got) != string([]rune(args)) {
			t.Fatalf("%q came back as %q", args, got)
		}
	})
}
