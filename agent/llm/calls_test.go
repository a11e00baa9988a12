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

// learner notes what a request cost by the estimate, and by the provider.
type learner struct {
	llm.Estimate
	estimated, reported int
	rests               bool
}

func (l *learner) Due() bool { return !l.rests }

func (l *learner) Learn(estimated, reported int) { l.estimated, l.reported = estimated, reported }

func (l *learner) Lesson() uint64 { return 0 }

func TestALearnerIsToldWhatTheProviderCounted(t *testing.T) {
	request := llm.Request{Messages: []llm.Message{{Text: "hello world"}}, Tools: []llm.Tool{{Name: "clock"}}}
	with := func(u corebot.Usage, r llm.Request) *learner {
		l := &learner{}
		llm.CompleteUsage(u, l, r, corebot.Answer{Text: "hi"}, "")
		return l
	}
	if l := with(corebot.Usage{InputTokens: 40}, request); l.reported != 40 || l.estimated != 14 {
		t.Errorf("learned %d for %d, want 40 for 14", l.reported, l.estimated)
	}
	rests := &learner{rests: true}
	if llm.CompleteUsage(corebot.Usage{InputTokens: 40}, rests, request, corebot.Answer{}, ""); rests.reported != 0 {
		t.Errorf("learned %d when nothing was due", rests.reported)
	}
	if l := with(corebot.Usage{}, request); l.reported != 0 {
		t.Errorf("learned %d of its own count", l.reported)
	}
	request.Messages[0].Parts = []corebot.Part{{}}
	if l := with(corebot.Usage{InputTokens: 1_600}, request); l.reported != 0 {
		t.Errorf("learned %d for text of a request with an image", l.reported)
	}
}

func TestALearnerIsToldOfTheToolsOfItsOwnRequest(t *testing.T) {
	schema := func(more string) json.RawMessage { return json.RawMessage(`{"type":"object"` + more + `}`) }
	clock := llm.Tool{Name: "clock", Description: "tells the time", Schema: schema("")}
	renamed, described, other := clock, clock, clock
	renamed.Name, described.Description = "the clock of the tower", "tells the time, in whatever zone it is asked for"
	other.Schema = schema(`,"properties":{"zone":{"type":"string"}}`)
	estimated := func(tools ...llm.Tool) int {
		l := &learner{}
		llm.CompleteUsage(corebot.Usage{InputTokens: 40}, l, llm.Request{Tools: tools}, corebot.Answer{Text: "hi"}, "")
		return l.estimated
	}
	one := estimated(clock)
	for name, tools := range map[string][]llm.Tool{
		"none": nil, "two": {clock, clock}, "renamed": {renamed}, "described": {described},
		"of another schema": {other},
	} {
		if estimated(tools...) == one {
			t.Errorf("%s: the estimate is that of the request before", name)
		}
		if again := estimated(clock); again != one {
			t.Errorf("after %s: the estimate is %d, want %d", name, again, one)
		}
	}
}
