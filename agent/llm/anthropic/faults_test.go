package anthropic_test

import (
	"testing"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/anthropic"
	"github.com/corebot/corebot/agent/llm/exchange"
	"github.com/corebot/corebot/agent/llm/llmtest"
)

func TestEveryFaultOfAProviderIsAnAnswerOrAFailureWithItsClassInTime(t *testing.T) {
	llmtest.Survive(t, func(t testing.TB, srv *llmtest.Running) llm.Model {
		m, err := anthropic.New(srv.URL, anthropic.Options{Options: exchange.Options{
			Model: "m", APIKey: apiKey, Transport: srv.Transport,
			FirstByteTimeout: llmtest.FirstByteTimeout, IdleTimeout: llmtest.IdleTimeout, Timeout: llmtest.Timeout,
			MaxAnswerBytes: llmtest.MaxAnswerBytes,
		}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}
