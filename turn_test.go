package corebot_test

import (
	"encoding/json"
	"testing"

	"github.com/corebot/corebot"
)

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
