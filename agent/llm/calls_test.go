package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

func TestCallsHaveIDsByWhichTheirResultsAreTold(t *testing.T) {
	r := llm.Request{Messages: []llm.Message{{
		Role:  llm.Assistant,
		Calls: []corebot.ToolCall{{ID: "old"}, {ID: "call_1_0"}},
	}}}
	ids := llm.NewCallIDs(r)
	for i, c := range []struct{ own, want string }{
		{"", "call_2_0"},
		{"a", "a"},
		{"a", "call_1_2"},
		{"old", "old"},
		{"old", "call_1_4"},
		{"call_1_0", "call_1_0"},
	} {
		if got := ids.Give(c.own); got != c.want {
			t.Errorf("call %d with the id %q got %q, want %q", i, c.own, got, c.want)
		}
	}
}

func FuzzArgumentsInAHistoryAreAnObject(f *testing.F) {
	for _, args := range []string{``, ` `, `{}`, ` {"a":1}`, `{"a":`, `null`, `[1]`, "\xff"} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, args string) {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(llm.ObjectArgs(json.RawMessage(args)), &object); err != nil || object == nil {
			t.Fatalf("%q became %q: %v", args, llm.ObjectArgs(json.RawMessage(args)), err)
		}
		if err := json.Unmarshal([]byte(args), &object); err == nil && object != nil &&
			string(llm.ObjectArgs(json.RawMessage(args))) != args {
			t.Fatalf("%q was changed", args)
		}
	})
}

func TestNoArgumentsAreAnEmptyObjectAndOthersStayAsTheyAre(t *testing.T) {
	for args, want := range map[string]string{"": "{}", " \n": "{}", "null": "null", "{oops": "{oops"} {
		if got := string(llm.WrittenArgs(args)); got != want {
			t.Errorf("%q became %q", args, got)
		}
	}
}
