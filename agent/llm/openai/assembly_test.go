package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// events plays a stream that is already in memory.
type events []string

func (e *events) RecvRaw() ([]byte, error) {
	if len(*e) == 0 {
		return nil, io.EOF
	}
	first := (*e)[0]
	*e = (*e)[1:]
	return []byte(first), nil
}

func assemble(stream ...string) (corebot.Answer, error) {
	a := newAssembly(1<<20, nil)
	e := events(stream)
	for {
		switch err := a.next(&e); {
		case errors.Is(err, errStreamEnd):
			return a.answer(llm.Request{}, llm.NewNames(llm.Request{}), "m")
		case err != nil:
			return corebot.Answer{}, err
		}
	}
}

func calls(fragments ...string) []string {
	var stream []string
	for _, f := range fragments {
		stream = append(stream, `{"choices":[{"index":0,"delta":{"tool_calls":[`+f+`]}}]}`)
	}
	return append(stream, `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`)
}

func TestCallsAreAssembledAsServersSendThem(t *testing.T) {
	two := []corebot.ToolCall{
		{ID: "x", Tool: "f", Args: json.RawMessage(`{"a":1}`)},
		{ID: "y", Tool: "g", Args: json.RawMessage(`{"b":2}`)},
	}
	for name, c := range map[string]struct {
		stream []string
		want   []corebot.ToolCall
	}{
		"interleaved": {calls(
			`{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\""}}`,
			`{"index":1,"id":"y","function":{"name":"g","arguments":"{\"b"}}`,
			`{"index":0,"function":{"arguments":":1}"}},{"index":1,"function":{"arguments":"\":2}"}}`), two},
		"last first": {calls(`{"index":1,"id":"y","function":{"name":"g","arguments":"{\"b\":2}"}}`,
			`{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}}`), two},
		"no index": {calls(`{"id":"x","function":{"name":"f","arguments":"{\"a\""}}`,
			`{"function":{"arguments":":1}"}}`,
			`{"id":"y","function":{"name":"g","arguments":"{\"b\":2}"}}`), two},
		"always index 0": {calls(`{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}}`,
			`{"index":0,"id":"y","function":{"name":"g","arguments":"{\"b\":2}"}}`), two},
		"id and name repeated": {
			calls(`{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\""}}`,
				`{"index":0,"id":"x","function":{"name":"f","arguments":":1}"}}`),
			two[:1],
		},
		"name in pieces": {
			calls(`{"index":0,"id":"x","function":{"name":"fs_"}}`,
				`{"index":0,"function":{"name":"read","arguments":"{}"}}`),
			[]corebot.ToolCall{{ID: "x", Tool: "fs_read", Args: json.RawMessage(`{}`)}},
		},
		"no ids": {
			calls(`{"index":0,"function":{"name":"f","arguments":"{\"a\":1}"}}`,
				`{"index":1,"function":{"name":"g","arguments":"{\"b\":2}"}}`),
			[]corebot.ToolCall{
				{ID: "call_0_0", Tool: "f", Args: two[0].Args},
				{ID: "call_0_1", Tool: "g", Args: two[1].Args},
			},
		},
		"one id twice": {
			calls(`{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}}`,
				`{"index":1,"id":"x","function":{"name":"g","arguments":"{\"b\":2}"}}`),
			[]corebot.ToolCall{{ID: "x", Tool: "f", Args: two[0].Args}, {ID: "call_0_1", Tool: "g", Args: two[1].Args}},
		},
		"arguments that are no JSON": {
			calls(`{"index":0,"id":"x","function":{"name":"f","arguments":"{oops"}}`),
			[]corebot.ToolCall{{ID: "x", Tool: "f", Args: json.RawMessage(`{oops`)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := assemble(c.stream...)
			if err != nil || !reflect.DeepEqual(a.Calls, c.want) {
				t.Errorf("%v %s", err, show(a.Calls))
			}
		})
	}
}

// A provider that cuts an answer behind the name of a call must not make the tool run without arguments.
func TestACallThatWasCutInFrontOfItsArgumentsIsNoCallWithoutArguments(t *testing.T) {
	for reason, want := range map[string]string{"length": `{`, "content_filter": `{`, "tool_calls": `{}`} {
		stream := calls(`{"index":1,"id":"x","function":{"name":"f","arguments":""}}`,
			`{"index":0,"id":"y","function":{"name":"whole"}}`, `{"index":2,"id":"z","function":{"name":"last"}}`)
		stream[len(stream)-1] = strings.ReplaceAll(stream[len(stream)-1], "tool_calls", reason)
		a, err := assemble(stream...)
		if got := show(a.Calls); err != nil || got != "y whole({}) x f({}) z last("+want+") " {
			t.Errorf("%s: %v %s", reason, err, got)
		}
	}
}

func show(calls []corebot.ToolCall) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "%s %s(%s) ", c.ID, c.Tool, c.Args)
	}
	return b.String()
}

func TestMadeUpIDsAreNotThoseOfTheHistory(t *testing.T) {
	r := llm.Request{Messages: []llm.Message{{
		Role:  llm.Assistant,
		Calls: []corebot.ToolCall{{ID: "call_1_0", Tool: "f"}},
	}}}
	a := newAssembly(1000, nil)
	e := events(calls(`{"index":0,"function":{"name":"f","arguments":"{}"}}`))
	for a.next(&e) == nil {
	}
	answer, err := a.answer(r, llm.NewNames(r), "m")
	if err != nil || answer.Calls[0].ID != "call_2_0" {
		t.Errorf("%v %s", err, show(answer.Calls))
	}
}

// readEvents is what go-openai gets to see of a body.
func readEvents(t *testing.T, body string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.SplitSeq(body, "\n") {
		if data, is := strings.CutPrefix(line, "data:"); is && strings.TrimSpace(data) != "" {
			event, err := asEvent([]byte(strings.TrimSpace(data)))
			if err != nil {
				t.Fatal(err)
			}
			out.Write(event)
		}
	}
	return out.String()
}

func TestAnErrorIsHiddenFromTheParserThatWouldLoseIt(t *testing.T) {
	got := readEvents(t, "data: {\"a\":1}\n\ndata:{\"error\":null}\n\ndata: [DONE]")
	if want := "data: {\"a\":1}\ndata: { \"error\":null}\ndata: [DONE]\n"; got != want {
		t.Errorf("%q", got)
	}
}

func FuzzAnyStreamIsAnAnswerOrAnError(f *testing.F) {
	f.Add("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: " +
		"[DONE]\n")
	f.Add("data: " + strings.Join(calls(`{"index":-1,"id":"x","function":{"name":"f","arguments":"{"}}`, `{}`),
		"\ndata: "))
	f.Add("data: {\"error\":\"x\"}\n")
	f.Fuzz(func(t *testing.T, body string) {
		var stream []string
		for line := range strings.SplitSeq(readEvents(t, body), "\n") {
			if data := strings.TrimPrefix(line, "data: "); data != "" && data != "[DONE]" {
				stream = append(stream, data)
			}
		}
		a, err := assemble(stream...)
		if err != nil {
			return
		}
		// JSON spells a key in other ways, too: in capitals, with escapes, with a long s.
		if !strings.Contains(strings.ToLower(body), "finish_reason") && !strings.ContainsAny(body, `\ſ`) {
			t.Errorf("%q became %+v", body, a)
		}
		ids := make(map[string]bool)
		for _, c := range a.Calls {
			if c.ID == "" || ids[c.ID] || len(c.Args) == 0 {
				t.Errorf("call %+v", c)
			}
			ids[c.ID] = true
		}
	})
}

func TestFragmentsOfAnySizeGiveTheSameCall(t *testing.T) {
	const args = `{"path":"a","content":"x\ny"}`
	r := rand.New(rand.NewSource(1))
	for range 50 {
		var fragments []string
		fragments = append(fragments, `{"index":0,"id":"x","function":{"name":"f"}}`)
		for rest := args; rest != ""; {
			n := 1 + r.Intn(len(rest))
			quoted, _ := json.Marshal(rest[:n])
			fragments = append(fragments, `{"index":0,"function":{"arguments":`+string(quoted)+`}}`)
			rest = rest[n:]
		}
		if a, err := assemble(calls(fragments...)...); err != nil || len(a.Calls) != 1 ||
			string(a.Calls[0].Args) != args {
			t.Fatalf("%v %s", err, show(a.Calls))
		}
	}
}
