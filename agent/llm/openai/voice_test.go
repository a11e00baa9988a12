package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/agent/llm/openai"
)

func TestAModelTellsWhatItsThinkingComesTo(t *testing.T) {
	for _, c := range []struct {
		base, model string
		asked, does corebot.Thinking
		sure        bool
	}{
		{"", "gpt-4o", corebot.ThinkHigh, corebot.ThinkOff, true},
		{"", "gpt-4o", corebot.ThinkOff, corebot.ThinkOff, true},
		{"", "o3", corebot.ThinkOff, corebot.ThinkLow, true},
		{"", "gpt-5", corebot.ThinkOff, corebot.ThinkMinimal, true},
		{"", "gpt-5.1", corebot.ThinkOff, corebot.ThinkOff, true},
		{"", "gpt-5-chat-latest", corebot.ThinkHigh, corebot.ThinkOff, true},
		{"", "gpt-6-sol", corebot.ThinkOff, corebot.ThinkOff, true},
		{"", "gpt-6-astra", corebot.ThinkOff, corebot.ThinkLow, true},
		{"http://127.0.0.1:1/v1", "gpt-5.1", corebot.ThinkHigh, corebot.ThinkHigh, true},
		{"http://127.0.0.1:1/v1", "gpt-5-chat-latest", corebot.ThinkHigh, corebot.ThinkOff, true},
		{"http://127.0.0.1:1/v1", "o3", corebot.ThinkOff, corebot.ThinkLow, true},
		{"http://127.0.0.1:1/v1", "local", corebot.ThinkHigh, corebot.ThinkHigh, false},
		{"http://127.0.0.1:1/v1", "local", corebot.ThinkOff, corebot.ThinkOff, false},
	} {
		m, err := openai.New(c.base, openai.Options{Model: c.model, APIKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		if does, sure := m.Thinks(c.asked); does != c.does || sure != c.sure {
			t.Errorf("%s at %q, asked for %s: %s, sure %v; want %s, %v", c.model, c.base, c.asked, does, sure, c.does,
				c.sure)
		}
	}
}

func TestAVoiceIsToldInTheWordsOfTheAPI(t *testing.T) {
	cold, warm := 0.0, 0.7
	for _, c := range []struct {
		model       string
		voice       llm.Voice
		effort      string
		temperature bool
	}{
		{"local", llm.Voice{}, "", false},
		{"local", llm.Voice{Think: corebot.ThinkHigh, Temperature: &warm}, "high", true},
		{"local", llm.Voice{Think: corebot.ThinkOff, Temperature: &cold}, "none", true},
		{"local", llm.Voice{Think: corebot.ThinkMinimal}, "low", false},
		{"gpt-5", llm.Voice{Think: corebot.ThinkOff, Temperature: &warm}, "minimal", false},
		{"gpt-5-mini", llm.Voice{Think: corebot.ThinkMinimal}, "minimal", false},
		{"gpt-5.1", llm.Voice{Think: corebot.ThinkOff}, "none", false},
		{"gpt-5-chat-latest", llm.Voice{Think: corebot.ThinkHigh, Temperature: &warm}, "", false},
		{"gpt-6-sol", llm.Voice{Think: corebot.ThinkOff, Temperature: &warm}, "none", false},
		{"gpt-6-astra", llm.Voice{Think: corebot.ThinkOff, Temperature: &warm}, "low", false},
		{"gpt-6-astra", llm.Voice{Think: corebot.ThinkMinimal}, "low", false},
		{"o3", llm.Voice{Think: corebot.ThinkOff}, "low", false},
		{"o3", llm.Voice{Think: corebot.ThinkMedium}, "medium", false},
	} {
		m, srv := start(t, openai.Options{Model: c.model}, llmtest.Text("ok"))
		r := hello()
		r.Voice = c.voice
		complete(t, m, r)
		var got struct {
			Effort      string   `json:"reasoning_effort"`
			Temperature *float64 `json:"temperature"`
		}
		if err := json.Unmarshal(srv.Requests()[0].Body, &got); err != nil {
			t.Fatal(err)
		}
		if got.Effort != c.effort || (got.Temperature != nil) != c.temperature {
			t.Errorf("%s, %+v: asked for effort %q, temperature %v", c.model, c.voice, got.Effort, got.Temperature)
		}
		if got.Temperature != nil && (*got.Temperature < *c.voice.Temperature-.01 ||
			*got.Temperature > *c.voice.Temperature+.01) {
			t.Errorf("%s: temperature %v, want %v", c.model, *got.Temperature, *c.voice.Temperature)
		}
	}
}
