package openai

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// exchange is one HTTP request and its answer, as go-openai's HTTP client: it watches the clock, keeps what go-openai's errors leave
// out (Retry-After, the body), and turns answers that are no stream into errors that say what came instead.
type exchange struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	client *http.Client
	opts   Options
	watch  *watchdog

	patience   time.Duration // how long the next piece of the answer may take
	silence    error         // the cause if it takes longer
	retryAfter time.Duration
	errorBody  string // beginning of the body of an HTTP error
}

const (
	maxErrorBody  = 64 << 10
	maxRetryAfter = time.Hour
	// maxTail is how long the usage may take once the answer is whole.
	maxTail = 5 * time.Second
	// wireFactor is how many bytes a stream may have for each that its answer may have: a chunk of 300 can carry a single letter.
	wireFactor = 512
)

func newExchange(ctx context.Context, client *http.Client, opts Options) *exchange {
	x := &exchange{client: client, opts: opts, patience: opts.IdleTimeout}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	x.silence = &timeoutError{what: "silence in the middle of the answer", after: opts.IdleTimeout, setting: "llm.idle_timeout"}
	x.watch = newWatchdog(opts.FirstByteTimeout, &timeoutError{what: "not a byte of an answer", after: opts.FirstByteTimeout, setting: "llm.first_byte_timeout"}, x.cancel)
	return x
}

func (x *exchange) close() {
	x.watch.stop()
	x.cancel(nil)
}

// expectEnd stops waiting long: the answer is whole.
func (x *exchange) expectEnd() {
	x.patience = min(maxTail, x.opts.IdleTimeout)
	x.watch.reset(x.patience, x.silence)
}

// Do implements go-openai's HTTPDoer.
func (x *exchange) Do(req *http.Request) (*http.Response, error) {
	resp, err := x.client.Do(req)
	if err != nil {
		return nil, err
	}
	x.retryAfter = parseRetryAfter(resp.Header.Get("Retry-After"), time.Now())
	body := bufio.NewReader(&watchedBody{resp.Body, x})
	switch {
	case resp.StatusCode >= http.StatusBadRequest:
		b, err := io.ReadAll(io.LimitReader(body, maxErrorBody)) // what has come of it by then is better than nothing
		_ = resp.Body.Close()
		if err != nil && len(b) == 0 && x.ctx.Err() != nil {
			return nil, err
		}
		b = x.withoutKey(b)
		x.errorBody = string(b)
		resp.Body = io.NopCloser(bytes.NewReader(b))
	case resp.StatusCode >= http.StatusMultipleChoices:
		_ = resp.Body.Close()
		return nil, &oddAnswer{what: "a redirect (" + resp.Status + ") to " + target(resp)}
	default:
		if err := x.refuseNonStream(resp, body); err != nil {
			_ = resp.Body.Close()
			return nil, err
		}
		resp.Body = &eventBody{in: body, closer: resp.Body, wire: wireFactor * x.opts.MaxAnswerBytes, line: 8 * x.opts.MaxAnswerBytes}
	}
	return resp, nil
}

// target is where a redirect leads, without what may be secret in it.
func target(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil {
		return "nowhere"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// withoutKey cleans a body before anything is cut out of it: half a key is a leak, too.
func (x *exchange) withoutKey(b []byte) []byte {
	if x.opts.APIKey == "" {
		return b
	}
	return bytes.ReplaceAll(b, []byte(x.opts.APIKey), []byte("***"))
}

// explain gives an error its true cause: a cancelled context looks like a read error to those below.
func (x *exchange) explain(err error) error {
	if x.ctx.Err() != nil {
		err = context.Cause(x.ctx)
	}
	return &callError{err: err, retryAfter: x.retryAfter, body: x.errorBody}
}

// refuseNonStream looks at how the answer begins. Servers that stream under a wrong content type are let through.
func (x *exchange) refuseNonStream(resp *http.Response, body *bufio.Reader) error {
	const enoughToTell = 512
	contentType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(contentType), "text/event-stream") {
		return nil
	}
	first, err := body.Peek(1)
	if errors.Is(err, io.EOF) {
		return errEmptyStream
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
	b = x.withoutKey(b)
	if e := errorInBody(b); e != nil {
		return e
	}
	if contentType == "" {
		contentType = "something without a content type"
	}
	return &oddAnswer{what: fmt.Sprintf("%s: %s", contentType, excerpt(string(b[:min(len(b), enoughToTell)])))}
}

// parseRetryAfter takes seconds or a date and never asks for more than an hour; nonsense asks for nothing.
func parseRetryAfter(s string, now time.Time) time.Duration {
	s = strings.TrimSpace(s)
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		switch {
		case !(seconds > 0):
			return 0
		case seconds >= maxRetryAfter.Seconds():
			return maxRetryAfter
		}
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(s); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

// watchedBody resets the watchdog at every piece. It is read by the goroutine that made the call.
type watchedBody struct {
	io.Reader
	x *exchange
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n > 0 {
		b.x.watch.reset(b.x.patience, b.x.silence)
	}
	return n, err
}
