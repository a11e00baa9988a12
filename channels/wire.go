package channels

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
)

// Loopback says whether a host of a setting is this machine. Only there may a connection be without TLS.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// CheckStream refuses a time between two edits by which drafts would use up the quota that replies need. A server on
// this machine is the operator's own.
func CheckStream(every, least time.Duration, api string) error {
	u, err := url.Parse(api)
	if every <= 0 || every >= least || err == nil && Loopback(u.Hostname()) {
		return nil
	}
	return corebot.WithHint(fmt.Errorf("stream is %v: so many edits would use up the limits of the platform", every),
		fmt.Sprintf("set stream to %v or more, or to 0s to show answers when they are done", least))
}

// Dial connects to a platform as a [Wire] does. Every connection of a network that is no request of HTTP begins here.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return http.DefaultTransport.(*http.Transport).DialContext(ctx, network, addr)
}

// Wire makes requests to the HTTP API of a platform. It follows no redirect, and bounds what it reads.
//
// Each error is a [*corebot.Failure] that says what a message makes of it. A request of which nothing was written has
// not taken effect: the message waits. Nor has one that broke off in its body, such as an upload: that uses up an
// attempt. One that was written and not answered wraps [ErrMayBeShown].
type Wire struct {
	Platform string // in errors, such as "the Bot API"
	Setting  string // where its address is, such as channels.telegram.ACCOUNT.api_url
	Secret   string // a token, which stands in no error
	client   *http.Client
}

// NewWire makes a wire for one account.
func NewWire(platform, setting, secret string) *Wire {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16
	return &Wire{Platform: platform, Setting: setting, Secret: secret, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Request is a call of an HTTP API whose bodies are JSON.
type Request struct {
	Method string
	Path   []string // each is escaped
	Query  url.Values
	Body   any       // nil: none
	File   *FilePart // goes with the body; nil: none
	Field  string    // of the form that has a file: where the body stands
}

// Get asks for what is there.
func Get(path ...string) Request { return Request{Method: http.MethodGet, Path: path} }

// Post makes something new.
func Post(body any, path ...string) Request {
	return Request{Method: http.MethodPost, Path: path, Body: body}
}

// Put makes something, or replaces it.
func Put(body any, path ...string) Request {
	return Request{Method: http.MethodPut, Path: path, Body: body}
}

// Patch changes something.
func Patch(body any, path ...string) Request {
	return Request{Method: http.MethodPatch, Path: path, Body: body}
}

// Delete takes something away.
func Delete(path ...string) Request { return Request{Method: http.MethodDelete, Path: path} }

// With is the request with one more argument of its query.
func (q Request) With(name, value string) Request {
	q.Query = maps.Clone(q.Query)
	if q.Query == nil {
		q.Query = url.Values{}
	}
	q.Query.Set(name, value)
	return q
}

// Write makes the HTTP request. base is the address of the API, which ends in a slash.
func (q Request) Write(ctx context.Context, base string) (*http.Request, error) {
	var body bytes.Buffer
	if q.Body != nil {
		e := json.NewEncoder(&body)
		e.SetEscapeHTML(false)
		if err := e.Encode(q.Body); err != nil {
			return nil, fmt.Errorf("write the body: %w", err)
		}
	}
	path := make([]string, len(q.Path))
	for i, p := range q.Path {
		path[i] = url.PathEscape(p)
	}
	address := base + strings.Join(path, "/")
	if len(q.Query) > 0 {
		address += "?" + q.Query.Encode()
	}
	if q.File != nil {
		return Form(ctx, address, map[string]string{q.Field: body.String()}, *q.File)
	}
	r, err := http.NewRequestWithContext(ctx, q.Method, address, &body)
	if err == nil && q.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

// FilePart is a file in a form.
type FilePart struct {
	Field, Name, MediaType string
	Content                io.ReaderAt
	Size                   int64
}

// Form makes a request of text fields and one file, as multipart/form-data. The file is not held in memory. The address
// must be a valid one.
func Form(ctx context.Context, address string, fields map[string]string, f FilePart) (*http.Request, error) {
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := w.WriteField(name, fields[name]); err != nil {
			return nil, err
		}
	}
	if _, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {multipart.FileContentDisposition(f.Field, f.Name)},
		"Content-Type":        {cmp.Or(f.MediaType, "application/octet-stream")},
	}); err != nil {
		return nil, err
	}
	begin := bytes.Clone(head.Bytes())
	head.Reset()
	if err := w.Close(); err != nil {
		return nil, err
	}
	body := func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(bytes.NewReader(begin), io.NewSectionReader(f.Content, 0, f.Size),
			bytes.NewReader(head.Bytes()))), nil
	}
	first, _ := body() // it has no error
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, first)
	if err != nil {
		return nil, err
	}
	r.GetBody, r.ContentLength = body, int64(len(begin))+f.Size+int64(head.Len())
	r.Header.Set("Content-Type", w.FormDataContentType())
	return r, nil
}

// MaxAnswer bounds what is read of an answer.
const MaxAnswer = 16 << 20

// Unsent is how long a message waits that could not be sent for a reason that is not its own.
const Unsent = 15 * time.Second

// Answered is what a platform said to a request, whatever it said.
type Answered struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do makes a request; what names it in errors.
func (w *Wire) Do(ctx context.Context, what string, r *http.Request) (a Answered, err error) {
	var written, whole atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }})
	r = r.WithContext(traced)
	counting(r, &whole)
	response, err := w.client.Do(r)
	switch {
	case err != nil && written.Load() && !whole.Load():
		return a, &corebot.Failure{Err: fmt.Errorf("%w: %s did not take %s: %w", ErrHalfSent, w.Platform, what,
			w.Hidden(err))}
	case err != nil:
		return a, w.broken(what, err, written.Load())
	}
	defer func() { _ = response.Body.Close() }() // it is read, or given up
	a = Answered{Status: response.StatusCode, Header: response.Header}
	if a.Body, err = io.ReadAll(io.LimitReader(response.Body, MaxAnswer+1)); err != nil {
		return a, w.broken(what, err, true)
	}
	if len(a.Body) > MaxAnswer {
		err := fmt.Errorf("%w: the answer to %s is longer than %d bytes", corebot.ErrTooLarge, what, MaxAnswer)
		if r.Method == http.MethodGet {
			return a, err
		}
		return a, &corebot.Failure{Err: fmt.Errorf("%w; %w", err, ErrMayBeShown)}
	}
	return a, nil
}

// ErrHalfSent says that a request broke off in its body. A platform knows the length, so nothing is shown of it.
var ErrHalfSent = errors.New("only a part of it was sent")

// counting notes when the whole body of a request was read, by any of its tries. A body without a length counts at
// once.
func counting(r *http.Request, whole *atomic.Bool) {
	if r.Body == nil || r.ContentLength <= 0 || r.GetBody == nil {
		whole.Store(true)
		return
	}
	again, length := r.GetBody, r.ContentLength
	r.Body = &counted{r.Body, length, whole}
	r.GetBody = func() (io.ReadCloser, error) {
		body, err := again()
		return &counted{body, length, whole}, err
	}
}

// counted is a body of which so many bytes were not read yet.
type counted struct {
	io.ReadCloser
	left  int64
	whole *atomic.Bool
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if c.left -= int64(n); c.left <= 0 {
		c.whole.Store(true)
	}
	return n, err
}

// Open asks for a file and gives it piece by piece. Every answer but 200 is an error, a redirect too. The context
// bounds all of it.
func (w *Wire) Open(ctx context.Context, what string, r *http.Request) (io.ReadCloser, error) {
	response, err := w.client.Do(r.WithContext(ctx))
	if err != nil {
		return nil, w.broken(what, err, true)
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close() // it was not the file
		err := fmt.Errorf("%s refused %s: %s", w.Platform, what, http.StatusText(response.StatusCode))
		if response.StatusCode == http.StatusTooManyRequests {
			err = &corebot.Failure{Class: corebot.RateLimited, RetryAfter: retryAfter(response.Header), Err: err}
		}
		return nil, err
	}
	return response.Body, nil
}

// retryAfter is the wait that an answer asks for: a number of seconds, or a date (RFC 9110, 10.2.3). Zero: none.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 {
		return Asked(seconds)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(at), 0), maxAsked)
	}
	return 0
}

// Asked is the wait that a platform asks for in seconds, of at most a day. Zero: it asks for none.
func Asked(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	return max(time.Duration(min(seconds, maxAsked.Seconds())*float64(time.Second)), time.Millisecond)
}

// Unread is the error of an answer that says that the request was carried out, and whose rest cannot be read.
func (w *Wire) Unread(what string, err error) error {
	return &corebot.Failure{Err: fmt.Errorf("%w: %s has carried out %s, and the rest of its answer cannot be read: %w",
		ErrMayBeShown, w.Platform, what, err)}
}

// Strange is the error of an answer that is not the platform's: of a proxy, or of something else at the address.
func (w *Wire) Strange(what string, status int, err error) error {
	failed := fmt.Errorf("%s was answered by something that is not %s: %s", what, w.Platform, http.StatusText(status))
	if err != nil && status == http.StatusOK {
		failed = fmt.Errorf("%w: %w", failed, err)
	}
	if status >= http.StatusInternalServerError {
		return OutOfOrder(failed)
	}
	return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: Unsent, Err: corebot.WithHint(failed,
		"look at "+w.Setting+", and at what stands between")}
}

// broken is a request without an answer. If nothing of it was written, it has not taken effect.
func (w *Wire) broken(what string, err error, written bool) error {
	err = w.Hidden(err)
	if !written {
		err = fmt.Errorf("%s cannot be reached for %s: %w", w.Platform, what, err)
		return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: Unsent, Err: corebot.WithHint(err,
			"look at the network, and at "+w.Setting)}
	}
	return &corebot.Failure{Err: corebot.WithHint(
		fmt.Errorf("%s did not answer %s; %w: %w", w.Platform, what, ErrMayBeShown, err),
		"look at the network, and at what stands between; "+w.Setting+" says where it is")}
}

// Hidden is an error without the address of the request and without the secret.
func (w *Wire) Hidden(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if text := err.Error(); w.Secret != "" && strings.Contains(text, w.Secret) {
		return errors.New(strings.ReplaceAll(text, w.Secret, "TOKEN"))
	}
	return err
}

// TLSHint says what mends a connection whose certificate is not trusted. Any other error has the other hint.
func TLSHint(err error, otherwise string) string {
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "this machine does not know who has signed the server's certificate; with an authority of your own, " +
			"put its certificate into a file and start Corebot with SSL_CERT_FILE=FILE"
	case errors.As(err, new(x509.HostnameError)):
		return "the server's certificate is for another name: write that name into the settings"
	case errors.As(err, new(x509.CertificateInvalidError)):
		return "the server's certificate is not valid now: look at its dates, and at the clock of this machine"
	}
	return otherwise
}
