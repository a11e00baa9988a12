// Package anthropic speaks to Anthropic's messages API.
//
// It has the guarantees of package openai. An answer is whole or an error, and every wait has a limit. Every error is a
// [*corebot.Failure] with a class, and no error holds the key. Besides:
//
//   - The model's thinking is kept apart from its text, and never streamed. While tools run, the thinking goes back
//     with its answer, signed as it came: the API refuses tool results without it. An answer of another model has no
//     thinking. Then the request is made without thinking instead of being refused.
//   - The tools and the system prompt stay the same from turn to turn, and the next round repeats the end of a
//     conversation with tools. Both are marked for the provider's prompt cache. The usage has the tokens that the cache
//     read and wrote.
//   - A refusal by the model is [llm.ErrRefused], whatever it had begun to say.
//
// Limits: it has only been tried against test servers that imitate the API, never against Anthropic's own. Nothing
// is tried again here: the bus and package chain do that. Server-side tools are not used.
package anthropic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/exchange"
)

// defaultBaseURL is Anthropic's own.
const defaultBaseURL = "https://api.anthropic.com"

// minThinking is the least budget that the API takes.
const minThinking = 1024

// defaultOutput is asked for where a request names no limit: the API wants one.
const defaultOutput = 4096

// Options of [New].
type Options struct {
	exchange.Options
	// how much the model may think before it answers, beside its output; zero: not at all, else at least 1,024
	ThinkingTokens int
}

// Model is one model at one endpoint. It is safe for concurrent use.
type Model struct {
	endpoint *exchange.Endpoint
	thinking int
}

var (
	_ llm.Model   = (*Model)(nil)
	_ llm.Thinker = (*Model)(nil)
)

// New prepares a model at baseURL (empty means Anthropic's own; a "/v1" at its end may be there or not) and talks to
// nobody yet. Its errors are those of [exchange.New], and a budget of thinking that the API would refuse.
func New(baseURL string, opts Options) (*Model, error) {
	base := strings.TrimSuffix(strings.TrimRight(cmp.Or(baseURL, defaultBaseURL), "/"), "/v1")
	endpoint, err := exchange.New(base, opts.Options)
	if err != nil {
		return nil, err
	}
	if opts.ThinkingTokens != 0 && opts.ThinkingTokens < minThinking {
		return nil, corebot.WithHint(fmt.Errorf("%w: %d tokens of thinking", corebot.ErrInvalid, opts.ThinkingTokens),
			fmt.Sprintf("set %s to 0 or at least %d", endpoint.Setting("thinking_tokens"), minThinking))
	}
	return &Model{endpoint: endpoint, thinking: opts.ThinkingTokens}, nil
}

// Name is the model's id as it was configured.
func (m *Model) Name() string { return m.endpoint.Model }

// Close drops idle connections. Calls that run are not disturbed.
func (m *Model) Close() { m.endpoint.Close() }

// Complete asks for one answer; see [llm.Model]. The answer may be empty if that is what the model said.
func (m *Model) Complete(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
	if ctx.Err() != nil {
		return corebot.Answer{}, context.Cause(ctx)
	}
	names := llm.NewNames(r)
	callCtx, stop := m.endpoint.Limit(ctx)
	defer stop()
	a, err := m.attempt(callCtx, m.encode(ctx, r, names), onText)
	var answer corebot.Answer
	if err == nil {
		answer, err = a.answer(r, names, m.endpoint.Model)
	}
	switch {
	case ctx.Err() != nil:
		return m.cutOff(a, r, names, a.sent), context.Cause(ctx)
	case err != nil:
		return m.cutOff(a, r, names, false), m.endpoint.Failure(err, statusOf(err))
	}
	answer.Usage = llm.CompleteUsage(a.usage, m.endpoint.Tokenizer, r, answer, a.thought())
	return answer, nil
}

// cutOff is what a call used that gave no answer. begun says that the provider is at work, though nothing of its
// answer has come yet. The API tells the input at the beginning of its answer.
func (m *Model) cutOff(a *assembly, r llm.Request, names *llm.Names, begun bool) corebot.Answer {
	if !a.received && !begun {
		return corebot.Answer{}
	}
	so := corebot.Answer{Text: a.textSoFar(), Calls: a.calls(r, names)}
	usage := llm.CompleteUsage(a.usage, m.endpoint.Tokenizer, r, so, a.thought())
	return corebot.Answer{Model: cmp.Or(a.model, m.endpoint.Model), Usage: usage}
}

// attempt makes one HTTP request and reads its stream to the end. It always gives the assembly, as far as that came.
func (m *Model) attempt(ctx context.Context, body *request, onText func(string)) (*assembly, error) {
	a := newAssembly(m.endpoint.MaxAnswerBytes, onText)
	x := m.endpoint.Begin(ctx, nil)
	defer x.Close()
	defer func() { a.sent = x.Sent() }()
	err := m.ask(x, body, a)
	switch {
	case a.stopped != "" && !errors.Is(err, exchange.ErrTooLong):
		return a, nil // all of the answer is there
	case err != nil:
		return a, x.Explain(err)
	case !a.received:
		return a, x.Explain(exchange.ErrEmpty)
	}
	return a, x.Explain(exchange.ErrBrokenOff)
}

// ask sends a request and takes in the events of its answer.
func (m *Model) ask(x *exchange.Exchange, r *request, a *assembly) error {
	var body bytes.Buffer
	encode := json.NewEncoder(&body)
	encode.SetEscapeHTML(false)
	if err := encode.Encode(r); err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(x.Context(), http.MethodPost, m.endpoint.BaseURL+"/v1/messages", &body)
	if err != nil {
		return err
	}
	req.Header = headerOf(m.endpoint.APIKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	return x.Events(req, func(data []byte) error {
		e, err := read(data)
		if err != nil {
			return err
		}
		if err := a.take(e); err != nil {
			return err
		}
		if a.stopped != "" {
			x.ExpectEnd()
		}
		return nil
	})
}
