package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/agent/llm/openai"
)

func TestAVoiceIsToldInTheWordsOfTheAPI(t *testing.T) {
	cold, warm := 0.0, 0.7
	for _, c := range []struct {
		model       string
		voice       llm.Voice
		effort      string
		temperature bool
	}{
		{"local", llm.Voice{}, "", false},
		{"local", llm.Voice{Think: llm.ThinkHigh, Temperature: &warm}, "high", true},
		{"local", llm.Voice{Think: llm.ThinkOff, Temperature: &cold}, "none", true},
		{"local", llm.Voice{Think: llm.ThinkMinimal}, "low", false},
		{"gpt-5", llm.Voice{Think: llm.ThinkOff, Temperature: &warm}, "minimal", false},
		{"gpt-5-mini", llm.Voice{Think: llm.ThinkMinimal}, "minimal", false},
		{"gpt-5.1", llm.Voice{Think: llm.ThinkOff}, "none", false},
		{"o3", llm.Voice{Think: llm.ThinkOff}, "low", false},
		{"o3", llm.Voice{Think: llm.ThinkMedium}, "medium", false},
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
