package llmtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// CutOff says what differs between the APIs when an answer ends early.
type CutOff struct {
	// Open makes the model for a server. Its tokenizer must be [BytesAsTokens].
	Open func(t testing.TB, srv *Running) llm.Model
	// Head is how many events come before the text, and ThinkingHead how many come up to the end of the thinking.
	Head, ThinkingHead int
	// Told is the usage that the provider tells before the text; zero if it tells none.
	Told corebot.Usage
	// Refusal is a stream that begins with an error.
	Refusal string
}

// BytesAsTokens is a tokenizer with which a test can count.
type BytesAsTokens struct{}

// Count gives the bytes of s.
func (BytesAsTokens) Count(s string) int { return len(s) }

const (
	asked      = 9      // the bytes of the request, as tokens
	said       = 20_000 // the bytes of a long answer
	pieceBytes = 100    // bytes of the answer in one event
)

func long() Answer { return Text(strings.Repeat("word ", said/5)).Pieces(pieceBytes) }

// used is the usage of a request after so many bytes of its answer. Figures that the provider has not told are
// estimates.
func (c CutOff) used(streamed int64) corebot.Usage {
	u := c.Told
	if u.InputTokens == 0 {
		u.InputTokens, u.EstimatedTokens = asked, asked
	}
	u.OutputTokens += streamed
	u.EstimatedTokens += streamed
	u.Estimated = true
	return u
}

// StoppedIsBooked has callers stop an answer after a second: what was sent and streamed until then counts as used.
func (c CutOff) StoppedIsBooked(t *testing.T) {
	untold := CutOff{}.used(0)
	for name, stopped := range map[string]struct {
		answer Answer
		want   corebot.Usage
	}{
		"20 KB":                  {long().Stall(c.Head + said/pieceBytes), c.used(said)},
		"nothing but the header": {long().Stall(0), untold},
		"not even that":          {long().Stall(-1), untold},
		"thinking": {
			Text("one two three").Thinking(strings.Repeat("hm ", 100)).Pieces(300).Stall(c.ThinkingHead), c.used(300),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(corebot.ErrStopped) })
				a, err := c.ask(ctx, t, stopped.answer)
				if !errors.Is(err, corebot.ErrStopped) || a.Usage != stopped.want || a.Text != "" || a.Model == "" {
					t.Errorf("got %+v and %v, want the usage %+v", a, err, stopped.want)
				}
			})
		})
	}
}

// BrokenIsBooked has answers break by themselves: what was streamed until then counts as used, and a refused request
// as nothing.
func (c CutOff) BrokenIsBooked(t *testing.T) {
	all, none := c.used(said), corebot.Usage{}
	for name, broken := range map[string]struct {
		answer Answer
		want   corebot.Usage
	}{
		"broken":                    {long().Break(c.Head + said/pieceBytes), all},
		"silent":                    {long().Stall(c.Head + said/pieceBytes), all},
		"401":                       {Fail(401, "no"), none},
		"429":                       {Fail(429, "no"), none},
		"a page":                    {Raw(200, "text/html", "<html>"), none},
		"an error at the beginning": {Stream(c.Refusal), none},
		"never a byte":              {long().Stall(-1), none},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, err := c.ask(t.Context(), t, broken.answer)
				if f := (*corebot.Failure)(nil); !errors.As(err, &f) || a.Usage != broken.want {
					t.Errorf("got %+v and %v, want %+v", a.Usage, err, broken.want)
				}
			})
		})
	}
}

func (c CutOff) ask(ctx context.Context, t *testing.T, a Answer) (corebot.Answer, error) {
	m := c.Open(t, Start(t, Queue(a)))
	return m.Complete(ctx, llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}, nil)
}
