package anthropic_test

import (
	"testing"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/anthropic"
	"github.com/corebot/corebot/agent/llm/llmtest"
)

func TestAVoiceIsToldInTheWordsOfTheAPI(t *testing.T) {
	warm, hot := 0.7, 1.5
	for _, c := range []struct {
		voice       llm.Voice
		budget      any // of tokens
		temperature any
	}{
		{llm.Voice{}, 2000.0, nil},
		{llm.Voice{Think: llm.ThinkOff, Temperature: &warm}, nil, 0.7},
		{llm.Voice{Think: llm.ThinkOff, Temperature: &hot}, nil, 1.0},
		{llm.Voice{Think: llm.ThinkMinimal, Temperature: &warm}, 1024.0, nil},
		{llm.Voice{Think: llm.ThinkHigh}, 24576.0, nil},
	} {
		m, srv := start(t, anthropic.Options{ThinkingTokens: 2000}, llmtest.Text("ok"))
		r := hello()
		r.Voice = c.voice
		complete(t, m, r)
		b := body(t, srv)
		var budget any
		if thinking, is := b["thinking"].(map[string]any); is {
			budget = thinking["budget_tokens"]
		}
		if budget != c.budget || b["temperature"] != c.temperature {
			t.Errorf("%+v: asked for thinking %v, temperature %v", c.voice, budget, b["temperature"])
		}
	}
}
