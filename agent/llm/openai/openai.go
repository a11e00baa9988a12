// Package openai speaks to every endpoint that has OpenAI's chat completions: OpenAI itself, gateways, and local servers.
//
// It guarantees that an answer is whole or an error: a stream that ends without a finish_reason, for whatever reason, is a
// transient failure. It waits for nothing without a limit (first byte, silence, the whole call) and keeps no more of an answer than its
// limit allows. Every error is a [*corebot.Failure] with a class, names the base URL, and never holds the API key.
//
// Limits: only text and tool calls; reasoning that a model streams beside its answer is dropped. An answer that the
// provider itself cut at its token limit is returned with a note at its end, since another attempt would be cut as well. Proxies of
// the environment are not used, redirects are not followed: the key goes to the configured host and nowhere else.
package openai

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	api "github.com/sashabaranov/go-openai"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// DefaultBaseURL is OpenAI's own.
const DefaultBaseURL = "https://api.openai.com/v1"

// Options of [New]. Zero values take the defaults that are named.
type Options struct {
	Model            string            // required: the provider's id of the model
	APIKey           string            // empty for servers that want none
	FirstByteTimeout time.Duration     // from the request to the first byte of the answer's body; 60 s
	IdleTimeout      time.Duration     // between two pieces of the answer, keep-alives included; 60 s
	Timeout          time.Duration     // of the whole call; 10 min
	MaxAnswerBytes   int               // text and arguments of one answer; 1 MiB
	Tokenizer        llm.Tokenizer     // counts usage that the provider does not report; [llm.Estimate]
	Transport        http.RoundTripper // instead of the built-in one, for tests
}

// Model is one model at one endpoint. It is safe for concurrent use.
type Model struct {
	baseURL string
	opts    Options
	client  *http.Client

	// noStreamOptions remembers that the provider refuses stream_options, so that only the first call pays for finding out.
	noStreamOptions atomic.Bool
}

var _ llm.Model = (*Model)(nil)

// New prepares a model at baseURL (empty means [DefaultBaseURL]) and talks to nobody yet. It refuses a base URL that is not
// plain http or https, an API key that could not be sent, and an empty model.
func New(baseURL string, opts Options) (*Model, error) {
	if baseURL == "" {
		baseURL = DefaultBaseURL
	}
	if err := validateBaseURL(baseURL); err != nil {
		return nil, err
	}
	if opts.Model == "" {
		return nil, corebot.WithHint(fmt.Errorf("%w: no model is named", corebot.ErrInvalid), "set llm.model or OPENAI_MODEL")
	}
	if strings.ContainsFunc(opts.APIKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, corebot.WithHint(fmt.Errorf("%w: the API key has a space, a line break or another character that no key has", corebot.ErrInvalid), keyHint)
	}
	m := &Model{baseURL: strings.TrimRight(baseURL, "/"), opts: opts.withDefaults()}
	m.client = &http.Client{Transport: m.opts.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return m, nil
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&o.FirstByteTimeout, time.Minute}, {&o.IdleTimeout, time.Minute}, {&o.Timeout, 10 * time.Minute}} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	if o.MaxAnswerBytes <= 0 {
		o.MaxAnswerBytes = 1 << 20
	}
	if o.Tokenizer == nil {
		o.Tokenizer = llm.Estimate{}
	}
	if o.Transport == nil {
		o.Transport = newTransport()
	}
	return o
}

// newTransport keeps as many connections to its one host as there may be turns at work: with the two of net/http's default, most
// calls would pay for a TLS handshake. Compression is off because a compressed stream comes in lumps.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	}
}

// validateBaseURL never quotes the URL: what is wrong with it may be that it has a password inside.
func validateBaseURL(s string) error {
	const hint = "set llm.base_url or OPENAI_BASE_URL to something like https://api.openai.com/v1"
	u, err := url.Parse(s)
	switch {
	case err != nil:
		err = errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		err = errors.New("does not begin with http:// or https://")
	case u.Host == "":
		err = errors.New("names no host")
	case u.User != nil:
		err = errors.New("has a user or password in it")
	case u.RawQuery != "" || u.Fragment != "":
		err = errors.New("has a query or fragment")
	default:
		return nil
	}
	return corebot.WithHint(fmt.Errorf("%w: the base URL of the model %w", corebot.ErrInvalid, err), hint)
}

// Name is the model's id as it was configured.
func (m *Model) Name() string { return m.opts.Model }

// Close drops idle connections. Calls that run are not disturbed.
func (m *Model) Close() { m.client.CloseIdleConnections() }

// Complete asks for one answer; see [llm.Model]. The answer may be empty if that is what the model said.
func (m *Model) Complete(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
	if ctx.Err() != nil {
		return corebot.Answer{}, context.Cause(ctx)
	}
	names := llm.NewNames(r)
	request := m.encode(r, names)
	callCtx, cancel := context.WithTimeoutCause(ctx, m.opts.Timeout, &timeoutError{what: "no whole answer", after: m.opts.Timeout, setting: "llm.timeout"})
	defer cancel()

	a, err := m.attempt(callCtx, request, onText)
	if err != nil && request.StreamOptions != nil && refusesStreamOptions(err) {
		request.StreamOptions = nil
		if a, err = m.attempt(callCtx, request, onText); err == nil {
			m.noStreamOptions.Store(true)
		}
	}
	switch {
	case ctx.Err() != nil:
		return corebot.Answer{}, context.Cause(ctx)
	case err != nil:
		return corebot.Answer{}, m.failure(err)
	}
	answer, err := a.answer(r, names, m.opts.Model)
	if err != nil {
		return corebot.Answer{}, m.failure(err)
	}
	answer.Usage = m.usage(r, answer, a.usage)
	return answer, nil
}

// attempt makes one HTTP request and reads its stream to the end.
func (m *Model) attempt(ctx context.Context, request api.ChatCompletionRequest, onText func(string)) (*assembly, error) {
	x := newExchange(ctx, m.client, m.opts)
	defer x.close()
	config := api.DefaultConfig(m.opts.APIKey)
	config.BaseURL = m.baseURL
	config.HTTPClient = x // one per call: go-openai's errors carry no headers, the exchange does
	stream, err := api.NewClientWithConfig(config).CreateChatCompletionStream(x.ctx, request)
	if err != nil {
		return nil, x.explain(err)
	}
	defer stream.Close()
	a := newAssembly(m.opts.MaxAnswerBytes, onText)
	for {
		err := a.next(stream)
		switch {
		case errors.Is(err, errStreamEnd):
			return a, nil
		case err != nil && a.finish != "" && !errors.Is(err, errTooLong):
			return a, nil // all of the answer is there; only its usage, at most, is not
		case err != nil:
			return nil, x.explain(err)
		}
		if a.finish != "" {
			x.expectEnd()
		}
	}
}
