package openai_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/agent/llm/openai"
)

// long is an answer of 20 KB.
func long() llmtest.Answer { return llmtest.Text(strings.Repeat("word ", 4_000)).Pieces(100) }

// cut is what it has used when all of its text has come.
var cut = corebot.Usage{InputTokens: 9, OutputTokens: 20_000, Estimated: true, EstimatedTokens: 20_009}

// stopped asks, and stops the answer after a second.
func stopped(t *testing.T, answer llmtest.Answer) corebot.Answer {
	t.Helper()
	m, _ := start(t, openai.Options{Tokenizer: bytesAsTokens{}}, answer)
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Second, func() { cancel(corebot.ErrStopped) })
	a, err := m.Complete(ctx, hello(), nil)
	if !errors.Is(err, corebot.ErrStopped) {
		t.Errorf("ended with %v", err)
	}
	return a
}

func TestAStoppedAnswerHasUsedWhatWasSentAndStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			answer llmtest.Answer
			want   corebot.Usage
		}{
			"20 KB":                  {long().Stall(200), cut},
			"nothing but the header": {long().Stall(0), corebot.Usage{InputTokens: 9, Estimated: true, EstimatedTokens: 9}},
			"not even that":          {long().Stall(-1), corebot.Usage{InputTokens: 9, Estimated: true, EstimatedTokens: 9}},
			"thinking": {
				llmtest.Text("one two three").Thinking(strings.Repeat("hm ", 100)).Pieces(300).Stall(1),
				corebot.Usage{InputTokens: 9, OutputTokens: 300, Estimated: true, EstimatedTokens: 309},
			},
		} {
			if a := stopped(t, c.answer); a.Usage != c.want || a.Text != "" || a.Model == "" {
				t.Errorf("%s: %+v, want %+v", name, a, c.want)
			}
		}
	})
}

func TestABrokenAnswerHasUsedWhatWasStreamedAndARefusedRequestNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := corebot.Usage{}
		for name, c := range map[string]struct {
			answer llmtest.Answer
			want   corebot.Usage
		}{
			"broken":                    {long().Break(200), cut},
			"silent":                    {long().Stall(200), cut},
			"401":                       {llmtest.Fail(401, "no"), none},
			"429":                       {llmtest.Fail(429, "no"), none},
			"a page":                    {llmtest.Raw(200, "text/html", "<html>"), none},
			"an error at the beginning": {llmtest.Stream(`{"error":{"message":"slow down","code":429}}`), none},
			"never a byte":              {long().Stall(-1), none},
		} {
			m, _ := start(t, openai.Options{Tokenizer: bytesAsTokens{}}, c.answer)
			a, err := m.Complete(t.Context(), hello(), nil)
			if f := (*corebot.Failure)(nil); !errors.As(err, &f) || a.Usage != c.want {
				t.Errorf("%s: %+v, want %+v (%v)", name, a.Usage, c.want, err)
			}
		}
	})
}
