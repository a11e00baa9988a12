package anthropic_test

import (
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/anthropic"
	"github.com/corebot/corebot/agent/llm/exchange"
	"github.com/corebot/corebot/agent/llm/llmtest"
)

func TestAModelWithoutThinkingIsAskedForNone(t *testing.T) {
	for model, does := range map[string]corebot.Thinking{
		"claude-3-5-haiku-latest": corebot.ThinkOff, "claude-3-opus-20240229": corebot.ThinkOff,
		"claude-3-7-sonnet-latest": corebot.ThinkHigh, "claude-sonnet-4-5": corebot.ThinkHigh,
	} {
		m, srv := start(t, anthropic.Options{Options: exchange.Options{Model: model}}, llmtest.Text("ok"))
		r := hello()
		r.Voice.Think = corebot.ThinkHigh
		complete(t, m, r)
		if _, asked := body(t, srv)["thinking"]; asked != (does == corebot.ThinkHigh) {
			t.Errorf("%s was asked to think: %v", model, asked)
		}
		if got, sure := m.Thinks(corebot.ThinkHigh); got != does || !sure {
			t.Errorf("%s says that it thinks %q, sure %v; want %q", model, got, sure, does)
		}
	}
}

func TestAVoiceIsToldInTheWordsOfTheAPI(t *testing.T) {
	warm, hot := 0.7, 1.5
	for _, c := range []struct {
		voice       llm.Voice
		budget      any // of tokens
		temperature any
	}{
		{llm.Voice{}, 2000.0, nil},
		{llm.Voice{Think: corebot.ThinkOff, Temperature: &warm}, nil, 0.7},
		{llm.Voice{Think: corebot.ThinkOff, Temperature: &hot}, nil, 1.0},
		{llm.Voice{Think: corebot.ThinkMinimal, Temperature: &warm}, 1024.0, nil},
		{llm.Voice{Think: corebot.ThinkHigh}, 24576.0, nil},
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
