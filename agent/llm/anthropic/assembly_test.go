package anthropic

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/exchange"
)

func FuzzAnyStreamIsAnAnswerOrAnError(f *testing.F) {
	const end = "\n" + `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}`
	f.Add(`{"type":"message_start","message":{"model":"m"}}` + "\n" +
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}` + end)
	f.Add(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"f",` +
		`"input":{}}}` + "\n" +
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}` + end)
	f.Add(`{"type":"content_block_start","index":-1,"content_block":{"type":"thinking","signature":"x"}}` + end)
	f.Add(`{"type":"content_block_delta","index":7,"delta":{"text":"x"}}`)
	f.Add(`{"type":"error","error":{"type":"overloaded_error"}}`)
	f.Add("{\"type\":\"a\\nevent: b\"}\n{\"type\":\"\xff\"}")
	f.Fuzz(func(t *testing.T, stream string) {
		a := newAssembly(1<<16, func(s string) {
			if !utf8.ValidString(s) {
				t.Fatalf("streamed %q", s)
			}
		})
		for line := range strings.SplitSeq(stream, "\n") {
			e, err := read([]byte(line))
			if err != nil || a.take(e) != nil {
				return
			}
		}
		r := llm.Request{}
		answer, err := a.answer(r, llm.NewNames(r), "m")
		if err != nil {
			return
		}
		ids := map[string]bool{}
		for _, c := range answer.Calls {
			if c.ID == "" || ids[c.ID] || len(c.Args) == 0 {
				t.Errorf("call %+v", c)
			}
			ids[c.ID] = true
		}
	})
}

// FuzzWhateverIsInAJournalMakesARequest: what was sealed may come back damaged, or with other calls.
func FuzzWhateverIsInAJournalMakesARequest(f *testing.F) {
	f.Add(`[{"kind":"thinking","text":"x","signature":"y"},{"kind":"tool_use"}]`, "1", "{}")
	f.Add(`[{"kind":"tool_use"},{"kind":"tool_use"}]`, "", "{")
	f.Add(`{}`, "a/b", "null")
	m, err := New("", Options{Options: exchange.Options{Model: "m"}, ThinkingTokens: 2000})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, sealed, id, args string) {
		r := llm.Request{Messages: []llm.Message{
			{Role: llm.User, Text: "go"},
			{
				Role: llm.Assistant, Calls: []corebot.ToolCall{{ID: id, Tool: "f", Args: json.RawMessage(args)}},
				Opaque: &corebot.Opaque{Source: sourceOf("m"), Data: json.RawMessage(sealed)},
			},
			{Role: llm.ToolRole, CallID: id, Text: "x"},
		}}
		out := m.encode(t.Context(), r, llm.NewNames(r))
		if body, err := json.Marshal(out); err != nil || !json.Valid(body) {
			t.Fatalf("%s, %v", body, err)
		}
		call := out.Messages[1].Content[len(out.Messages[1].Content)-1]
		if result := out.Messages[2].Content[0]; call.Type == kindCall && result.CallID != call.ID {
			t.Errorf("the result of %q answers %q", call.ID, result.CallID)
		}
	})
}
