package anthropic_test

import (
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/anthropic"
	"github.com/corebot/corebot/agent/llm/exchange"
	"github.com/corebot/corebot/agent/llm/llmtest"
)

// cutOff is what an answer has used that ends early. The first event tells the usage of the request.
var cutOff = llmtest.CutOff{
	Open: func(t testing.TB, srv *llmtest.Running) llm.Model {
		m, err := anthropic.New(srv.URL, anthropic.Options{Options: exchange.Options{
			Model: "claude-test", APIKey: apiKey, Transport: srv.Transport, Tokenizer: llmtest.BytesAsTokens{},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	},
	Head: 3, ThinkingHead: 5,
	Told:    corebot.Usage{InputTokens: 15, CacheReadTokens: 3, CacheWriteTokens: 2},
	Refusal: `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`,
}

func TestAStoppedAnswerHasUsedWhatWasSentAndStreamed(t *testing.T) { cutOff.StoppedIsBooked(t) }

func TestABrokenAnswerHasUsedWhatWasStreamedAndARefusedRequestNothing(t *testing.T) {
	cutOff.BrokenIsBooked(t)
}
