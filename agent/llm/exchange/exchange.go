// Package exchange is the part that the HTTP APIs of all model providers share. It has the endpoint with its headers,
// the time limits, the size limits of an answer, and the meaning of a failure.
//
// Guarantees:
//
//   - Every wait has a limit: for the first byte, in silence, and for the whole call.
//   - A stream is kept and read only up to its limits.
//   - The key and the configured headers are in no error.
//   - Types, statuses and the provider's own codes decide the class of a failure. Words decide in one case only:
//     whether a request was too long, for a provider without a code for that.
//
// Limits: no proxies of the environment, no redirects, no retries; those belong to the caller.
package exchange

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot/internal/trace"
)

// Exchange is one HTTP request and its answer. It is the HTTP client of a provider's SDK, or gives the events itself.
// It watches the clock, and keeps what the errors of SDKs leave out: Retry-After and the body. An answer that is no
// stream becomes an error that says what came instead.
type Exchange struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	endpoint *Endpoint
	spell    Spelling
	watch    *watchdog
	body     *bufio.Reader // nil: no answer has begun

	patience   time.Duration // how long the next piece of the answer may take
	silence    error         // the cause if it takes longer
	retryAfter time.Duration
	sent       atomic.Bool
	sendings   atomic.Int32 // that have ended, one way or the other
	errorBody  string       // beginning of the body of an HTTP error
}

const (
	maxErrorBody = 64 << 10
	// maxTail is how long the usage may take once the answer is whole.
	maxTail = 5 * time.Second
	// wireFactor is how many bytes a stream may have for each that its answer may have: a chunk of 300 often carries a
	// short word.
	wireFactor = 128
	// lineFactor is the same for one line.
	lineFactor = 8
)

// Begin starts the clock of one request. Close must be called. [Exchange.Events] needs no spelling.
func (e *Endpoint) Begin(ctx context.Context, spell Spelling) *Exchange {
	x := &Exchange{endpoint: e, spell: spell, patience: e.IdleTimeout}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	x.silence = &timeoutError{
		what: "silence in the middle of the answer", after: e.IdleTimeout,
		setting: "idle_timeout",
	}
	x.watch = newWatchdog(e.FirstByteTimeout, &timeoutError{
		what: "not a byte of an answer", after: e.FirstByteTimeout,
		setting: "first_byte_timeout",
	}, x.cancel)
	return x
}

// Context is what the request runs in.
func (x *Exchange) Context() context.Context { return x.ctx }

// Close ends the request, whatever became of it. Nothing reads its answer any more.
func (x *Exchange) Close() {
	x.watch.stop()
	x.cancel(nil)
	if x.body != nil {
		x.body.Reset(nil)
		x.endpoint.readers.Put(x.body)
		x.body = nil
	}
}

// read gives a reader for the answer, which is one that an earlier answer has left where there is one.
func (x *Exchange) read(answer io.Reader) *bufio.Reader {
	x.body, _ = x.endpoint.readers.Get().(*bufio.Reader)
	if x.body == nil {
		x.body = bufio.NewReader(answer)
	}
	x.body.Reset(answer)
	return x.body
}

// ExpectEnd stops waiting long: the answer is whole, and only its usage may follow.
func (x *Exchange) ExpectEnd() {
	x.patience = min(maxTail, x.endpoint.IdleTimeout)
	x.watch.reset(x.patience, x.silence)
}

// Sent says whether the provider has the whole request.
func (x *Exchange) Sent() bool { return x.sent.Load() }

// SentOnce says whether the provider has the whole request, and got it in the first and only sending of it.
func (x *Exchange) SentOnce() bool { return x.sent.Load() && x.sendings.Load() == 1 }

// Do makes the request; it is what SDKs want of an HTTP client.
func (x *Exchange) Do(req *http.Request) (*http.Response, error) {
	for name, value := range x.endpoint.Header {
		req.Header.Set(name, value)
	}
	trace.From(x.ctx).Propagate(trace.ToModels, req.Header)
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			x.sent.Store(w.Err == nil)
			x.sendings.Add(1)
		},
	}))
	resp, err := x.endpoint.client.Do(req)
	if err != nil {
		return nil, err
	}
	x.retryAfter = retryAfter(resp.Header, time.Now())
	body := x.read(&watchedBody{resp.Body, x})
	switch {
	case resp.StatusCode >= http.StatusBadRequest:
		b, err := io.ReadAll(io.LimitReader(body, maxErrorBody)) // what has come of it by then is better than nothing
		_ = resp.Body.Close()                                    // nothing more of it is read
		if err != nil && len(b) == 0 && x.ctx.Err() != nil {
			return nil, err
		}
		x.errorBody = x.endpoint.Clean(string(b)) // before anything is cut out of it: half a key is a leak, too
		resp.Body = io.NopCloser(strings.NewReader(x.errorBody))
	case resp.StatusCode >= http.StatusMultipleChoices:
		_ = resp.Body.Close() // nothing of it is read
		return nil, &oddAnswer{what: "a redirect (" + resp.Status + ") to " + target(resp)}
	default:
		if err := x.refuseNonStream(resp, body); err != nil {
			_ = resp.Body.Close()
			return nil, err
		}
		most := x.endpoint.MaxAnswerBytes
		resp.Body = &eventBody{
			in: body, closer: resp.Body, spell: x.spell, wire: wireFactor * most,
			line: lineFactor * most,
		}
	}
	return resp, nil
}

// RefusedError is an answer with an HTTP status that says that the request failed.
type RefusedError struct {
	Code int
	Body string // its beginning, without secrets
}

func (e *RefusedError) Error() string { return fmt.Sprintf("status %d", e.Code) }

// Events makes a request and hands on the data of each event of the answer. It ends with the answer or with an error of
// take, which keeps nothing of the data. It is for an API that needs no SDK; the exchange has no spelling then. An HTTP
// error is a [*RefusedError].
func (x *Exchange) Events(req *http.Request, take func(data []byte) error) error {
	resp, err := x.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // the body is done with, whatever closing says
	events, ok := resp.Body.(*eventBody)
	if !ok {
		return &RefusedError{Code: resp.StatusCode, Body: x.errorBody}
	}
	for {
		data, err := events.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = take(data)
		}
		if err != nil {
			return err
		}
	}
}

// target is where a redirect leads, without what may be secret in it.
func target(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil {
		return "nowhere"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// Explain gives an error its true cause, since a cancelled context looks like a read error to those below, and what the
// exchange knows besides.
func (x *Exchange) Explain(err error) error {
	if x.ctx.Err() != nil {
		err = context.Cause(x.ctx)
	}
	return &CallError{Err: err, RetryAfter: x.retryAfter, Body: x.errorBody}
}

// refuseNonStream looks at how the answer begins. Servers that stream under a wrong content type are let through.
func (x *Exchange) refuseNonStream(resp *http.Response, body *bufio.Reader) error {
	const enoughToTell = 512
	contentType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(contentType), "text/event-stream") {
		return nil
	}
	first, err := body.Peek(1)
	if errors.Is(err, io.EOF) {
		return ErrEmpty
	}
	if err != nil {
		return err
	}
	for _, begin := range []string{"data:", "event:", "id:", "retry:", ":", "\n", "\r\n"} {
		if begin[0] != first[0] {
			continue
		}
		if b, _ := body.Peek(len(begin)); string(b) == begin {
			return nil
		}
	}
	b, _ := io.ReadAll(io.LimitReader(body, maxErrorBody))
	text := x.endpoint.Clean(string(b))
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		return &BodyError{Body: text, contentType: contentType}
	}
	if contentType == "" {
		contentType = "something without a content type"
	}
	return &oddAnswer{what: fmt.Sprintf("%s: %s", contentType, Excerpt(text[:min(len(text), enoughToTell)]))}
}

// watchedBody resets the watchdog at every piece. It is read by the goroutine that made the call.
type watchedBody struct {
	io.Reader
	x *Exchange
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n > 0 {
		b.x.watch.reset(b.x.patience, b.x.silence)
	}
	return n, err
}
