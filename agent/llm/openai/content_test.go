package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/agent/llm/openai"
)

func TestThinkingIsNeverText(t *testing.T) {
	m, _ := start(t, openai.Options{},
		llmtest.Text("the answer").Thinking("secret thoughts"),
		llmtest.Text("<think>secret thoughts</think>\nthe answer").Pieces(3),
		llmtest.Stream(`{"choices":[{"index":0,"delta":{"reasoning":"secret thoughts"}}]}`,
			`{"choices":[{"index":0,"delta":{"content":"the answer"},"finish_reason":"stop"}]}`))
	for range 3 {
		a, streamed := complete(t, m, hello())
		if a.Text != "the answer" || streamed != a.Text || a.Opaque != nil {
			t.Errorf("%+v, streamed %q", a, streamed)
		}
	}
}

func TestThinkingGoesBackWithTheCallsThatCameOfIt(t *testing.T) {
	m, srv := start(t, openai.Options{}, llmtest.ToolCalls(llmtest.Call{
		ID: "1", Name: "f",
		Args: "{}",
	}).Thinking("I need f."), llmtest.Text("done"), llmtest.Text("done"))
	r := hello()
	a, _ := complete(t, m, r)
	if a.Opaque == nil || a.Text != "" {
		t.Fatalf("%+v", a)
	}
	r.Messages = append(r.Messages, llm.Message{Role: llm.Assistant, Calls: a.Calls, Opaque: a.Opaque},
		llm.Message{Role: llm.ToolRole, CallID: "1", Text: "x"})
	complete(t, m, r)
	if got := srv.Last().Messages[1].Thinking; got != "I need f." {
		t.Errorf("what went back is %q", got)
	}
	r.Messages[1].Opaque = &corebot.Opaque{Source: "anthropic:scripted", Data: a.Opaque.Data}
	complete(t, m, r)
	if strings.Contains(string(srv.Last().Body), "I need f.") {
		t.Error("another provider's thinking was sent")
	}
}

func TestThinkingCountsTowardTheSizeOfAnAnswer(t *testing.T) {
	m, _ := start(t, openai.Options{MaxAnswerBytes: 1000}, llmtest.Text("x").Thinking(strings.Repeat("hm ", 400)))
	_, err := m.Complete(t.Context(), hello(), nil)
	requireFailure(t, err, corebot.Permanent, "larger than allowed")
}

func TestWhatTheProviderTookFromItsCacheIsInTheUsage(t *testing.T) {
	m, _ := start(t, openai.Options{},
		llmtest.Stream(`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":1,`+
				`"prompt_tokens_details":{"cached_tokens":64}}}`))
	if a, _ := complete(t, m, hello()); a.Usage != (corebot.Usage{
		InputTokens: 100, OutputTokens: 1,
		CacheReadTokens: 64,
	}) {
		t.Errorf("%+v", a.Usage)
	}
}

func TestConfiguredHeadersAreSentAndNeverRepeated(t *testing.T) {
	m, srv := start(t, openai.Options{Header: map[string]string{
		"X-Title":       "bot",
		"Authorization": "Basic hunter2hunter2",
	}}, llmtest.Fail(401, "bad credentials hunter2hunter2"))
	_, err := m.Complete(t.Context(), hello(), nil)
	requireFailure(t, err, corebot.Permanent, "bad credentials ***")
	if h := srv.Last().Header; h.Get("X-Title") != "bot" || h.Get("Authorization") != "Basic hunter2hunter2" {
		t.Errorf("sent %v", h)
	}
	if !errors.Is(err, llm.ErrUnauthorized) {
		t.Errorf("%v", err)
	}
}

type blob []byte

func (b blob) Blob(context.Context, string, int64) ([]byte, error) { return b, nil }

func TestImagesAreSentToAModelThatTakesThemAndDescribedToOthers(t *testing.T) {
	r := hello()
	r.Messages[0].Parts = []corebot.Part{
		{Type: corebot.PartImage, Hash: "aa", MediaType: "image/png", Name: "cat.png"},
		{Type: corebot.PartFile, Hash: "bb", MediaType: "application/pdf", Name: "a.pdf"},
	}
	for vision, want := range map[bool]string{
		true: `hello` + "\n" + `[file "a.pdf", "application/pdf": this model cannot be shown it][image_url]`,
		false: `hello` + "\n" + `[image "cat.png", "image/png": this model cannot be shown it]` + "\n" +
			`[file "a.pdf", "application/pdf": this model cannot be shown it]`,
	} {
		m, srv := start(t, openai.Options{Vision: vision, Blobs: blob("PNG")}, llmtest.Text("ok"))
		complete(t, m, r)
		if got := srv.Last().LastText(); got != want {
			t.Errorf("vision %v: sent %q", vision, got)
		}
		if sent := strings.Contains(string(srv.Last().Body), `"data:image/png;base64,UE5H"`); sent != vision ||
			!json.Valid(srv.Last().Body) {
			t.Errorf("vision %v: sent %s", vision, srv.Last().Body)
		}
	}
}
