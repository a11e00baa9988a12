package openai_test

import (
	"testing"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/agent/llm/openai"
)

// cutOff is what an answer has used that ends early. The usage would come with the last event.
var cutOff = llmtest.CutOff{
	Open: func(t testing.TB, srv *llmtest.Running) llm.Model {
		m, err := openai.New(srv.URL, openai.Options{
			Model: "scripted", Transport: srv.Transport,
			Tokenizer: llmtest.BytesAsTokens{},
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	},
	ThinkingHead: 1,
	Refusal:      `{"error":{"message":"slow down","code":429}}`,
}

func TestAStoppedAnswerHasUsedWhatWasSentAndStreamed(t *testing.T) { cutOff.StoppedIsBooked(t) }

func TestABrokenAnswerHasUsedWhatWasStreamedAndARefusedRequestNothing(t *testing.T) {
	cutOff.BrokenIsBooked(t)
}
