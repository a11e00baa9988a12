package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	api "github.com/sashabaranov/go-openai"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

var (
	errBrokenOff   = errors.New("the answer broke off in the middle")
	errEmptyStream = errors.New("the answer was empty")
	errGarbled     = errors.New("the answer has a piece that is not JSON")
	errTooLong     = errors.New("the answer is larger than allowed")
	errNoRoom      = errors.New("the model used up its output limit before it said anything")
	errFiltered    = errors.New("the provider's content filter stopped the answer")
)

const keyHint = "check llm.api_key or OPENAI_API_KEY"

// timeoutError is the end of a call by one of our own clocks.
type timeoutError struct {
	what    string
	after   time.Duration
	setting string
}

func (e *timeoutError) Error() string { return fmt.Sprintf("%s for %s", e.what, e.after) }

// oddAnswer is a success status with something else than a stream.
type oddAnswer struct{ what string }

func (e *oddAnswer) Error() string { return "instead of a stream of events came " + e.what }

// callError is an error with what its exchange knows besides.
type callError struct {
	err        error
	retryAfter time.Duration
	body       string
}

func (e *callError) Error() string { return e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

// verdict is what is made of an error: the text, the class and the hint.
type verdict struct {
	class corebot.Class
	text  string
	hint  string
	known error // a sentinel that callers decide on, or nil
}

// failure classifies an error and writes its text anew. The original is not kept in the chain: it may quote the API key.
func (m *Model) failure(err error) error {
	v := m.judge(err)
	text := fmt.Sprintf("ask %s at %s: %s", m.opts.Model, m.baseURL, m.withoutKey(v.text))
	flat := errors.New(text)
	if v.known != nil {
		flat = fmt.Errorf("%s: %w", text, v.known)
	}
	f := &corebot.Failure{Class: v.class, Err: flat}
	if v.hint != "" {
		f.Err = corebot.WithHint(flat, v.hint)
	}
	if c := (*callError)(nil); errors.As(err, &c) && v.class != corebot.Permanent {
		f.RetryAfter = c.retryAfter
	}
	return f
}

// withoutKey cleans text that others wrote; providers like to repeat the key that they refuse.
func (m *Model) withoutKey(s string) string {
	if m.opts.APIKey == "" {
		return s
	}
	return strings.ReplaceAll(s, m.opts.APIKey, "***")
}

func (m *Model) judge(err error) verdict {
	if timeout := (*timeoutError)(nil); errors.As(err, &timeout) {
		return verdict{text: err.Error(), hint: "the endpoint is slow or stuck; the limit is " + timeout.setting}
	}
	if odd := (*oddAnswer)(nil); errors.As(err, &odd) {
		return verdict{class: corebot.Permanent, text: odd.Error(), hint: "is this an OpenAI-compatible endpoint? check llm.base_url or OPENAI_BASE_URL, it usually ends in /v1"}
	}
	if status, code, message := httpError(err); status != 0 {
		return judgeStatus(status, code, m.withoutKey(message))
	}
	for _, permanent := range []struct {
		err  error
		hint string
	}{
		{errTooLong, ""},
		{errNoRoom, "allow the model more output tokens"},
		{errFiltered, ""},
		{api.ErrChatCompletionInvalidModel, "set llm.model or OPENAI_MODEL to a chat model"},
	} {
		if errors.Is(err, permanent.err) {
			return verdict{class: corebot.Permanent, text: permanent.err.Error(), hint: permanent.hint}
		}
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err // the address is named already
	}
	return verdict{text: err.Error(), hint: networkHint(err)}
}

// networkHint is for errors that an operator can do something about.
func networkHint(err error) string {
	if strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "no such host") {
		return "is the server running? check llm.base_url or OPENAI_BASE_URL"
	}
	return ""
}

// httpError finds the status that a provider gave, by HTTP or inside an answer that began well; zero if there is none.
func httpError(err error) (status int, code, message string) {
	if e := (*api.APIError)(nil); errors.As(err, &e) {
		status = e.HTTPStatusCode
		if n, ok := e.Code.(int); status == 0 && ok {
			status = n // gateways put the status of the model behind them here
		}
		if status < http.StatusBadRequest {
			status = http.StatusBadGateway // an error without a status, in a stream that had begun: take it for transient
		}
		return status, strings.Trim(fmt.Sprintf("%v %s", e.Code, e.Type), " "), e.Message
	}
	if e := (*api.RequestError)(nil); errors.As(err, &e) {
		return e.HTTPStatusCode, "", excerpt(string(e.Body))
	}
	return 0, "", ""
}

func judgeStatus(status int, code, message string) verdict {
	v := verdict{class: classOf(status), text: fmt.Sprintf("status %d %s: %s", status, http.StatusText(status), excerpt(message))}
	switch {
	case status == http.StatusUnauthorized:
		v.hint = "the provider refuses the key: " + keyHint
	case status == http.StatusForbidden:
		v.hint = "the key may not use this model: " + keyHint + ", and llm.model or OPENAI_MODEL"
	case status == http.StatusNotFound:
		v.hint = "no such model or no such address: check llm.model or OPENAI_MODEL, and llm.base_url or OPENAI_BASE_URL, which usually ends in /v1"
	case strings.Contains(code, "insufficient_quota"):
		v.hint = "the account has no credit left at the provider"
	case v.class == corebot.Permanent && saysTooLong(code+" "+message):
		v.known = llm.ErrContextTooLong
	}
	return v
}

// saysTooLong goes by the words of OpenAI, vLLM, llama.cpp and Ollama; there is no common code.
func saysTooLong(s string) bool {
	s = strings.ToLower(s)
	for _, words := range []string{"context_length_exceeded", "maximum context length", "exceed_context_size", "context size", "context window", "prompt is too long"} {
		if strings.Contains(s, words) {
			return true
		}
	}
	return false
}

func classOf(status int) corebot.Class {
	switch {
	case status == http.StatusTooManyRequests:
		return corebot.RateLimited
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500:
		return corebot.Transient
	}
	return corebot.Permanent
}

// refusesStreamOptions goes by the whole body, since validators name the field in a detail that go-openai drops.
func refusesStreamOptions(err error) bool {
	status, _, message := httpError(err)
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return false
	}
	if c := (*callError)(nil); errors.As(err, &c) {
		message += c.body
	}
	return strings.Contains(message, "stream_options") || strings.Contains(message, "include_usage")
}

// errorInBody finds the error in a JSON body that came with a success status, as some gateways send it.
func errorInBody(b []byte) error {
	var r api.ErrorResponse
	if json.Unmarshal(b, &r) == nil && r.Error != nil {
		return r.Error
	}
	return nil
}

// excerpt makes foreign text fit for one line of an error.
func excerpt(s string) string {
	const longest = 300
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if s == "" {
		return "(nothing)"
	}
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}
