package anthropic_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/anthropic"
	"github.com/corebot/corebot/agent/llm/exchange"
	"github.com/corebot/corebot/agent/llm/llmtest"
)

const apiKey = "sk-ant-very-secret-0123456789"

func hello() llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}
}

func start(t *testing.T, opts anthropic.Options, answers ...llmtest.Answer) (*anthropic.Model, *llmtest.Running) {
	t.Helper()
	srv := llmtest.Start(t, llmtest.Queue(answers...))
	opts.Model, opts.APIKey, opts.Transport = cmp.Or(opts.Model, "claude-test"), apiKey, srv.Transport
	m, err := anthropic.New(srv.URL, opts)
	if err != nil {
		t.Fatal(err)
	}
	return m, srv
}

func complete(t *testing.T, m *anthropic.Model, r llm.Request) (corebot.Answer, string) {
	t.Helper()
	var streamed strings.Builder
	a, err := m.Complete(t.Context(), r, func(s string) { streamed.WriteString(s) })
	if err != nil {
		t.Fatal(err)
	}
	return a, streamed.String()
}

// body is the newest request as it was sent.
func body(t *testing.T, srv *llmtest.Running) map[string]any {
	t.Helper()
	var b map[string]any
	if err := json.Unmarshal(srv.Last().Body, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTextStreamsAsItArrivesAndUsageCountsTheCache(t *testing.T) {
	m, srv := start(t, anthropic.Options{}, llmtest.Text("one two three").Usage(7, 3))
	a, streamed := complete(t, m, hello())
	if a.Text != "one two three" || streamed != a.Text || a.Model != "claude-test" {
		t.Errorf("answered %+v, streamed %q", a, streamed)
	}
	if want := (corebot.Usage{
		InputTokens: 12, OutputTokens: 3, CacheReadTokens: 3,
		CacheWriteTokens: 2,
	}); a.Usage != want {
		t.Errorf("usage %+v, want %+v", a.Usage, want)
	}
	h := srv.Last().Header
	if h.Get("X-Api-Key") != apiKey || h.Get("Anthropic-Version") == "" || srv.Last().MaxTokens != 4096 {
		t.Errorf("sent %v", h)
	}
}

func TestMissingUsageIsCountedAndMarked(t *testing.T) {
	m, _ := start(t, anthropic.Options{}, llmtest.Text("one two").NoUsage())
	if a, _ := complete(t, m, hello()); !a.Usage.Estimated || a.Usage.InputTokens == 0 || a.Usage.OutputTokens == 0 {
		t.Errorf("%+v", a.Usage)
	}
}

func TestToolsGoOutAndCallsComeBackWithInternalNames(t *testing.T) {
	m, srv := start(t, anthropic.Options{}, llmtest.ToolCalls(
		llmtest.Call{ID: "a", Name: "fs_read", Args: `{"path":"x y z.md"}`},
		llmtest.Call{ID: "b", Name: "make_coffee"}).With("Let me see. "))
	r := hello()
	const schema = `{"type":"object","required":["path"],` +
		`"properties":{"path":{"type":"string"}},"additionalProperties":false}`
	r.Tools = []llm.Tool{{Name: "fs.read", Description: "Reads.", Schema: json.RawMessage(schema)}, {Name: "fs.list"}}
	a, _ := complete(t, m, r)
	want := []corebot.ToolCall{
		{ID: "a", Tool: "fs.read", Args: json.RawMessage(`{"path":"x y z.md"}`)},
		{ID: "b", Tool: "make_coffee", Args: json.RawMessage(`{}`)},
	}
	if !reflect.DeepEqual(a.Calls, want) || a.Text != "Let me see. " || a.Opaque != nil {
		t.Errorf("%+v", a)
	}
	tools := srv.Last().Tools
	if tools[0].Function.Name != "fs_read" || tools[0].Function.Description != "Reads." ||
		string(tools[0].Function.Parameters) != schema || tools[1].Function.Name != "fs_list" {
		t.Errorf("offered %+v", tools)
	}
}

func call(id, args string) corebot.ToolCall {
	return corebot.ToolCall{ID: id, Tool: "fs.read", Args: json.RawMessage(args)}
}

func TestAConversationIsSentInTurnsWithResultsFirst(t *testing.T) {
	m, srv := start(t, anthropic.Options{}, llmtest.Text("ok"))
	complete(t, m, llm.Request{Messages: []llm.Message{
		{Role: llm.System, Text: "be brief"},
		{Role: llm.User, Text: "one"},
		{Role: llm.User, Text: "two"},
		{Role: llm.Assistant, Text: "so", Calls: []corebot.ToolCall{call("1", `{"path":`), call("2", "")}},
		{Role: llm.ToolRole, CallID: "1", Text: "first"},
		{Role: llm.User, Text: "wait"},
		{Role: llm.ToolRole, CallID: "2"},
		// ids that the API would refuse
		{Role: llm.Assistant, Calls: []corebot.ToolCall{call("1", "{}"), call("a/ü", "{}")}},
		{Role: llm.ToolRole, CallID: "a/ü", Text: "third"},
		{Role: llm.ToolRole, CallID: "1", Text: "fourth"},
	}})
	var got []string
	for _, msg := range srv.Last().Messages {
		line := msg.Role + " " + msg.CallID + ": " + string(msg.Content)
		for _, c := range msg.ToolCalls {
			line += " " + c.ID + c.Function.Name + c.Function.Arguments
		}
		got = append(got, line)
	}
	want := []string{
		"system : be brief", "user : onetwo", `assistant : so 1fs_read{"invalid_arguments":"{\"path\":"} 2fs_read{}`,
		"tool 1: first", "tool 2: (empty)", "user : wait",
		"assistant :  1_2fs_read{} a__fs_read{}", "tool a__: third", "tool 1_2: fourth",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheStablePrefixIsMarkedForTheCache(t *testing.T) {
	withSystem := llm.Request{Messages: []llm.Message{
		{Role: llm.System, Text: "identity"},
		{Role: llm.System, Text: "memory"},
		{Role: llm.User, Text: "hi"},
	}}
	withTools := withSystem
	withTools.Tools = []llm.Tool{{Name: "f"}}
	toolsOnly := hello()
	toolsOnly.Tools = withTools.Tools
	for name, c := range map[string]struct {
		r     llm.Request
		marks []string
	}{
		"nothing stable": {hello(), nil},
		"system":         {withSystem, []string{"memory"}},
		"tools":          {toolsOnly, []string{"f", "hello"}},
		"both":           {withTools, []string{"memory", "hi"}},
	} {
		m, srv := start(t, anthropic.Options{}, llmtest.Text("ok"))
		complete(t, m, c.r)
		b := body(t, srv)
		var blocks []any
		for _, key := range []string{"tools", "system"} {
			list, _ := b[key].([]any)
			blocks = append(blocks, list...)
		}
		for _, msg := range b["messages"].([]any) {
			blocks = append(blocks, msg.(map[string]any)["content"].([]any)...)
		}
		var marks []string
		for _, block := range blocks {
			if o := block.(map[string]any); o["cache_control"] != nil {
				text, _ := o["text"].(string)
				tool, _ := o["name"].(string)
				marks = append(marks, text+tool)
			}
		}
		if !reflect.DeepEqual(marks, c.marks) {
			t.Errorf("%s: marked %q, want %q", name, marks, c.marks)
		}
	}
}

func TestThinkingIsKeptApartFromTextAndGoesBackSigned(t *testing.T) {
	opts := anthropic.Options{ThinkingTokens: 2000}
	m, srv := start(t, opts, llmtest.ToolCalls(llmtest.Call{
		ID: "a", Name: "fs_read",
		Args: "{}",
	}).With("I look.").Thinking("Secret thoughts."), llmtest.Text("done"))
	r := hello()
	a, streamed := complete(t, m, r)
	if a.Text != "I look." || streamed != a.Text || a.Opaque == nil {
		t.Fatalf("%+v, streamed %q", a, streamed)
	}
	if b := body(t, srv); b["thinking"].(map[string]any)["budget_tokens"] != 2000.0 || b["max_tokens"] != 6096.0 {
		t.Errorf("asked for %v, %v tokens", b["thinking"], b["max_tokens"])
	}
	// The answer passes the journal on its way.
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var journaled corebot.Answer
	if err := json.Unmarshal(text, &journaled); err != nil {
		t.Fatal(err)
	}
	r.Messages = append(r.Messages, llm.Message{
		Role: llm.Assistant, Text: journaled.Text, Calls: journaled.Calls,
		Opaque: journaled.Opaque,
	},
		llm.Message{Role: llm.ToolRole, CallID: "a", Text: "content"})
	complete(t, m, r)
	b := body(t, srv)
	content, err := json.Marshal(b["messages"].([]any)[1].(map[string]any)["content"])
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"signature":"` + llmtest.Signature +
		`","thinking":"Secret thoughts.","type":"thinking"},{"text":"I look.","type":"text"},` +
		`{"id":"a","input":{},"name":"fs_read","type":"tool_use"}]`
	if string(content) != want || b["thinking"] == nil {
		t.Errorf("went back as %s, thinking %v", content, b["thinking"])
	}
}

func TestAnAnswerOfAnotherModelTurnsThinkingOffUntilTheTurnEnds(t *testing.T) {
	m, srv := start(t, anthropic.Options{ThinkingTokens: 2000}, llmtest.Text("ok"), llmtest.Text("ok"))
	foreign := llm.Message{
		Role: llm.Assistant, Calls: []corebot.ToolCall{call("1", "{}")},
		Opaque: &corebot.Opaque{
			Source: "anthropic:other",
			Data:   json.RawMessage(`[{"kind":"thinking","text":"x"},{"kind":"tool_use"}]`),
		},
	}
	r := llm.Request{Messages: []llm.Message{
		{Role: llm.User, Text: "go"},
		foreign,
		{Role: llm.ToolRole, CallID: "1", Text: "x"},
	}}
	complete(t, m, r)
	if b := body(t, srv); b["thinking"] != nil || b["max_tokens"] != 4096.0 ||
		strings.Contains(string(srv.Last().Body), `"thinking"`) {
		t.Errorf("sent %s", srv.Last().Body)
	}
	r.Messages = append(r.Messages, llm.Message{Role: llm.Assistant, Text: "done"},
		llm.Message{Role: llm.User, Text: "next"})
	complete(t, m, r)
	if body(t, srv)["thinking"] == nil {
		t.Error("thinking is still off in the next turn")
	}
}

func TestRedactedThinkingAndThinkingBetweenCallsKeepTheirPlaces(t *testing.T) {
	m, srv := start(t, anthropic.Options{ThinkingTokens: 2000}, llmtest.Stream(
		`{"type":"message_start","message":{"model":"claude-test","usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"c2VjcmV0"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"b","name":"g","input":{}}}`,
		`{"type":"something_new","index":9}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}`,
		`{"type":"message_stop"}`), llmtest.Text("ok"))
	r := hello()
	a, streamed := complete(t, m, r)
	if a.Text != "" || streamed != "" || len(a.Calls) != 2 {
		t.Fatalf("%+v, %q", a, streamed)
	}
	r.Messages = append(r.Messages, llm.Message{Role: llm.Assistant, Calls: a.Calls, Opaque: a.Opaque},
		llm.Message{Role: llm.ToolRole, CallID: "a", Text: "x"}, llm.Message{
			Role: llm.ToolRole, CallID: "b",
			Text: "x",
		})
	complete(t, m, r)
	var kinds []string
	for _, b := range body(t, srv)["messages"].([]any)[1].(map[string]any)["content"].([]any) {
		kinds = append(kinds, b.(map[string]any)["type"].(string))
	}
	if want := []string{"redacted_thinking", "tool_use", "thinking", "tool_use"}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("went back as %q", kinds)
	}
}

func TestFiguresOfAnOddKindAreLeftOutAndTextOfAnOddKindIsNoAnswer(t *testing.T) {
	const begin = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"fine"}}`
	m, _ := start(t, anthropic.Options{}, llmtest.Stream(
		`{"type":"message_start","message":{"model":"claude-test","usage":{"input_tokens":"7","output_tokens":1.5}}}`,
		begin, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`),
		llmtest.Stream(begin, `"not an event"`))
	if a, _ := complete(t, m, hello()); a.Text != "fine" || a.Usage.OutputTokens != 9 || !a.Usage.Estimated {
		t.Errorf("%+v", a)
	}
	_, err := m.Complete(t.Context(), hello(), nil)
	if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Transient {
		t.Errorf("%v", err)
	}
}

func TestARequestSaysMarksOfUntrustedTextPlainly(t *testing.T) {
	m, srv := start(t, anthropic.Options{}, llmtest.Text("ok"))
	complete(t, m, llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "<untrusted> & \xff"}}})
	if sent := string(srv.Last().Body); !strings.Contains(sent, `<untrusted> & \ufffd`) {
		t.Errorf("sent %s", sent)
	}
}

func TestAnswersThatWereCutOrRefusedSaySo(t *testing.T) {
	m, _ := start(t, anthropic.Options{}, llmtest.Text("half of").Finish("length"),
		llmtest.Text("half of").Finish("model_context_window_exceeded"),
		llmtest.Text("").Finish("length"), llmtest.Text("I would").Finish("content_filter"),
		llmtest.Text("fine").Finish("pause_turn"))
	for range 2 {
		if a, streamed := complete(t, m, hello()); !strings.HasPrefix(a.Text, "half of") ||
			!strings.Contains(a.Text, "output limit") || streamed != a.Text {
			t.Errorf("%q, streamed %q", a.Text, streamed)
		}
	}
	_, err := m.Complete(t.Context(), hello(), nil)
	if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Permanent ||
		!strings.Contains(corebot.HintOf(err), "llm.output_tokens") {
		t.Errorf("nothing but thinking: %v", err)
	}
	if _, err = m.Complete(t.Context(), hello(), nil); !errors.Is(err, llm.ErrRefused) {
		t.Errorf("refused: %v", err)
	}
	if a, _ := complete(t, m, hello()); a.Text != "fine" {
		t.Errorf("another reason: %+v", a)
	}
}

// The API can reach the output limit behind the name of a call. The tool must not run without arguments then.
func TestACallThatWasCutInFrontOfItsArgumentsIsNoCallWithoutArguments(t *testing.T) {
	for reason, want := range map[string]string{
		"length": `{`, "model_context_window_exceeded": `{`, "tool_calls": `{}`,
	} {
		m, _ := start(t, anthropic.Options{}, llmtest.ToolCalls(llmtest.Call{Name: "whole"},
			llmtest.Call{Name: "last"}).Finish(reason))
		a, _ := complete(t, m, hello())
		if len(a.Calls) != 2 || string(a.Calls[0].Args) != `{}` || string(a.Calls[1].Args) != want {
			t.Errorf("%s: %s", reason, a.Calls)
		}
	}
}

type blobs map[string][]byte

func (b blobs) Blob(_ context.Context, hash string, max int64) ([]byte, error) {
	if data, ok := b[hash]; ok && int64(len(data)) <= max {
		return data, nil
	}
	return nil, corebot.ErrNotFound
}

func TestImagesAndDocumentsAreSentToAModelThatTakesThem(t *testing.T) {
	r := llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "look", Parts: []corebot.Part{
		{Type: corebot.PartImage, Hash: "aa", MediaType: "image/png", Name: "cat.png"},
		{Type: corebot.PartFile, Hash: "bb", MediaType: "application/pdf"},
		{Type: corebot.PartFile, Hash: "cc", MediaType: "text/plain"},
		{Type: corebot.PartImage, Hash: "dd", MediaType: "image/png", Name: "gone"},
	}}}}
	stored := blobs{"aa": []byte("png"), "bb": []byte("pdf"), "cc": []byte("words")}
	for vision, want := range map[bool]string{
		true:  "[image][document][document]look\n[image \"gone\"",
		false: "[document]look\n[image \"cat.png\"",
	} {
		m, srv := start(t, anthropic.Options{Options: exchange.Options{Vision: vision, Blobs: stored}},
			llmtest.Text("ok"))
		complete(t, m, r)
		if got := srv.Last().LastText(); !strings.HasPrefix(got, want) {
			t.Errorf("vision %v: sent %q", vision, got)
		}
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for name, c := range map[string]struct {
		url  string
		opts anthropic.Options
	}{
		"an address":    {"ftp://x", anthropic.Options{Options: exchange.Options{Model: "m"}}},
		"no model":      {"", anthropic.Options{}},
		"little budget": {"", anthropic.Options{Options: exchange.Options{Model: "m"}, ThinkingTokens: 1023}},
	} {
		if m, err := anthropic.New(c.url, c.opts); m != nil || !errors.Is(err, corebot.ErrInvalid) ||
			corebot.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
