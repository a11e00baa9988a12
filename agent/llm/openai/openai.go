// Package openai speaks to every endpoint that has OpenAI's chat completions: OpenAI itself, gateways, and local
// servers.
//
// Guarantees:
//
//   - A broken stream is an error, never a part of an answer. A stream that ends without a finish_reason is a transient
//     failure.
//   - Every wait and every answer has a limit (package exchange).
//   - Every error of Complete is a [*corebot.Failure] with a class, and names the base URL. It never has the API key or
//     a configured header in it. If the caller's context ends, the error is the cause of that.
//   - A model's thinking (reasoning_content, reasoning, a leading <think> block) is kept apart from its text.
//
// Limits: images are sent if the model takes them; other files are described in words. If the provider ends an answer
// at its token limit, the answer is returned with a note: another attempt would end there, too. Proxies of the
// environment are not used, and redirects are not followed: the key goes to the configured host and nowhere else.
package openai

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	api "github.com/sashabaranov/go-openai"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/exchange"
)

// DefaultBaseURL is OpenAI's own.
const DefaultBaseURL = "https://api.openai.com/v1"

// Options of [New].
type Options = exchange.Options

// Model is one model at one endpoint. It is safe for concurrent use.
type Model struct {
	endpoint *exchange.Endpoint

	// noStreamOptions remembers that the provider refuses stream_options, so that only the first call pays for finding
	// out.
	noStreamOptions atomic.Bool

	encoded encodingCache // of the newest requests
	buffers sync.Pool     // of bodies that were sent
}

var (
	_ llm.Model   = (*Model)(nil)
	_ llm.Thinker = (*Model)(nil)
)

// New prepares a model at baseURL (empty means [DefaultBaseURL]) and talks to nobody yet. Its errors are those of
// [exchange.New].
func New(baseURL string, opts Options) (*Model, error) {
	endpoint, err := exchange.New(cmp.Or(baseURL, DefaultBaseURL), opts)
	if err != nil {
		return nil, err
	}
	return &Model{endpoint: endpoint}, nil
}

// Name is the model's id as it was configured.
func (m *Model) Name() string { return m.endpoint.Model }

// Close drops idle connections. Calls that run are not disturbed.
func (m *Model) Close() { m.endpoint.Close() }

// Complete asks for one answer; see [llm.Model]. The answer can be empty if that is what the model said. With an error,
// the answer has only the model and its usage, if the provider had begun.
func (m *Model) Complete(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
	if ctx.Err() != nil {
		return corebot.Answer{}, context.Cause(ctx)
	}
	tools, err := m.encoded.toolsOf(r.Tools)
	if err != nil {
		return corebot.Answer{}, m.failure(err)
	}
	names := tools.names.With(r.Messages)
	request := m.encode(ctx, r, names)
	system, messages, err := m.encoded.systemOf(request.Messages)
	if err != nil {
		return corebot.Answer{}, m.failure(err)
	}
	request.Messages = []api.ChatCompletionMessage{}
	with := func() *body {
		return &body{tools: tools.text, system: system, messages: messages, buffers: &m.buffers}
	}
	callCtx, stop := m.endpoint.Limit(ctx)
	defer stop()

	a, err := m.attempt(callCtx, request, with(), onText)
	if err != nil && request.StreamOptions != nil && refusesStreamOptions(err) {
		request.StreamOptions = nil
		if a, err = m.attempt(callCtx, request, with(), onText); err == nil {
			m.noStreamOptions.Store(true)
		}
	}
	var answer corebot.Answer
	if err == nil {
		answer, err = a.answer(r, names, m.endpoint.Model)
	}
	switch {
	case ctx.Err() != nil:
		return m.usageOfFailure(a, r, names, a.sent), context.Cause(ctx)
	case err != nil:
		return m.usageOfFailure(a, r, names, false), m.failure(err)
	}
	answer.Usage = llm.CompleteUsage(reportedUsage(a.usage), m.endpoint.Tokenizer, r, answer, a.thought())
	return answer, nil
}

// usageOfFailure is what a call without an answer has used. The provider bills a call that was cancelled after the
// request was sent, although nothing of the answer has come: then begun is true. An error before the first text costs
// nothing.
func (m *Model) usageOfFailure(a *assembly, r llm.Request, names *llm.Names, begun bool) corebot.Answer {
	if !a.received && !begun {
		return corebot.Answer{}
	}
	so := corebot.Answer{Text: a.text.String(), Calls: a.toolCalls(r, names)}
	usage := llm.CompleteUsage(reportedUsage(a.usage), m.endpoint.Tokenizer, r, so, a.thought())
	return corebot.Answer{Model: cmp.Or(a.model, m.endpoint.Model), Usage: usage}
}

// attempt makes one HTTP request and reads its stream to the end. Also with an error it returns what had come.
func (m *Model) attempt(ctx context.Context, request api.ChatCompletionRequest, with *body,
	onText func(string),
) (*assembly, error) {
	a := newAssembly(m.endpoint.MaxAnswerBytes, onText)
	x := m.endpoint.Begin(ctx, asEvent)
	defer func() {
		x.Close()
		with.release(x.SentOnce())
	}()
	defer func() { a.sent = x.Sent() }()
	config := api.DefaultConfig(m.endpoint.APIKey)
	config.BaseURL = m.endpoint.BaseURL
	with.HTTPDoer = x // an exchange keeps the headers, which go-openai's errors drop
	config.HTTPClient = with
	stream, err := api.NewClientWithConfig(config).CreateChatCompletionStream(x.Context(), request)
	if err != nil {
		return a, x.Explain(err)
	}
	defer stream.Close()
	for {
		err := a.next(stream)
		switch {
		case errors.Is(err, errStreamEnd):
			return a, nil
		case err != nil && a.finish != "" && !errors.Is(err, exchange.ErrTooLong):
			return a, nil // the answer is complete; at most the usage is missing
		case err != nil:
			return a, x.Explain(err)
		}
		if a.finish != "" {
			x.ExpectEnd()
		}
	}
}
