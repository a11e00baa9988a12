package openai_test

import (
	"testing"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/exchange"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/agent/llm/openai"
)

func TestEveryFaultOfAProviderIsAnAnswerOrAFailureWithItsClassInTime(t *testing.T) {
	llmtest.Survive(t, func(t testing.TB, srv *llmtest.Running) llm.Model {
		m, err := openai.New(srv.URL, exchange.Options{
			Model: "m", APIKey: apiKey, Transport: srv.Transport,
			FirstByteTimeout: llmtest.FirstByteTimeout, IdleTimeout: llmtest.IdleTimeout, Timeout: llmtest.Timeout,
			MaxAnswerBytes: llmtest.MaxAnswerBytes,
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}
