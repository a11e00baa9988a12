package slack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// client makes requests to the Web API with one token.
type client struct {
	base, token, setting string
	wire                 *channels.Wire
	ahead                *atomic.Int64 // how far Slack's clock is ahead of this machine's, as a time.Duration
}

// now is the time by Slack's clock, by which messages are named. Answers have it in whole seconds, so a smaller
// difference does not count.
func (c client) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// note compares the clocks.
func (c client) note(answer http.Header) {
	const exact = 5 * time.Second
	at, err := http.ParseTime(answer.Get("Date"))
	if err != nil {
		return
	}
	ahead := time.Until(at)
	if ahead.Abs() < exact {
		ahead = 0
	}
	c.ahead.Store(int64(ahead))
}

// args are the arguments of a request. A value that is no text is sent as JSON.
type args map[string]any

// refusal is a request that Slack has refused.
type refusal struct{ method, code, needed string }

func (r *refusal) Error() string {
	if r.needed != "" {
		return fmt.Sprintf("Slack refused %s: %.200s (it needs %.200s)", r.method, r.code, r.needed)
	}
	return fmt.Sprintf("Slack refused %s: %.200s", r.method, r.code)
}

// refusedFor says whether Slack has refused a request for one of these reasons.
func refusedFor(err error, codes ...string) bool {
	r := (*refusal)(nil)
	return errors.As(err, &r) && slices.Contains(codes, r.code)
}

// barred says whether Slack has refused a request for a reason that lies in what was asked for, and stays.
func barred(err error) bool {
	f := (*corebot.Failure)(nil)
	return refusedFor(err, "missing_scope") || errors.As(err, &f) && f.Class == corebot.Permanent
}

var (
	revoked = corebot.WithHint(errors.New("the token is unknown to Slack: it is wrong, or was revoked"),
		"install the app again, put its token where the setting says, and start Corebot again")
	noScope = corebot.WithHint(errors.New("the app lacks a scope"),
		"add the scope that Slack names under OAuth & Permissions, and install the app again")
	noSockets = corebot.WithHint(errors.New("socket mode is switched off"),
		"switch it on in the settings of the app, under Socket Mode")
)

// call makes one request. Its error is a [*corebot.Failure].
func (c client) call(ctx context.Context, method string, given args, into any) error {
	form := url.Values{}
	for name, value := range given {
		text, is := value.(string)
		if !is {
			raw, err := json.Marshal(value)
			if err != nil {
				return fmt.Errorf("write the request %s: %w", method, err)
			}
			text = string(raw)
		}
		form.Set(name, text)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+method, strings.NewReader(form.Encode()))
	if err != nil {
		return c.wire.Hidden(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	r.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.wire.Do(ctx, method, r)
	if err != nil {
		return err
	}
	c.note(response.Header)
	var a struct {
		OK     *bool  `json:"ok"`
		Error  string `json:"error"`
		Needed string `json:"needed"`
	}
	err = json.Unmarshal(response.Body, &a)
	switch {
	case response.Status == http.StatusTooManyRequests:
		seconds, _ := strconv.ParseFloat(response.Header.Get("Retry-After"), 64) // without it the queue decides
		return &corebot.Failure{
			Class: corebot.RateLimited, RetryAfter: channels.Asked(seconds),
			Err: &refusal{method: method, code: "ratelimited"},
		}
	case err != nil || a.OK == nil:
		return c.wire.Strange(method, response.Status, err)
	case !*a.OK:
		return c.failure(&refusal{method, a.Error, a.Needed})
	}
	if into != nil {
		if err := json.Unmarshal(response.Body, into); err != nil {
			return c.wire.Unread(method, err)
		}
	}
	return nil
}

// own says whether an address is of Slack's files, or of the host of the settings. Nobody else gets the token, or the
// bytes of a file.
func (c client) own(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	base, _ := url.Parse(c.base) // the settings were checked
	if err != nil || u.User != nil || u.Scheme != base.Scheme || u.Host != base.Host &&
		(base.Host != "slack.com" || u.Host != "files.slack.com") {
		return nil, errors.New("the address of a file is not of Slack")
	}
	return u, nil
}

// open gets the bytes of a file that somebody sent. An app without the scope for it gets a page to log in.
func (c client) open(f file) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		u, err := c.own(f.URL)
		if err != nil {
			return nil, err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, c.wire.Hidden(err)
		}
		r.Header.Set("Authorization", "Bearer "+c.token)
		content, err := c.wire.Open(ctx, "a file", r)
		if err != nil {
			return nil, err
		}
		body := bufio.NewReader(content)
		begin, _ := body.Peek(len(loginPage)) // a file can be shorter
		if strings.EqualFold(string(begin), loginPage) && !strings.HasPrefix(f.MIME, "text/html") {
			_ = content.Close() // it is not the file
			return nil, errors.New("slack gives a page in place of the file: the app needs the scope files:read")
		}
		return struct {
			io.Reader
			io.Closer
		}{body, content}, nil
	}
}

const loginPage = "<!DOCTYPE html>"

// upload gives Slack the bytes of a file, at an address of its own.
func (c client) upload(ctx context.Context, address string, f io.ReaderAt, size int64) error {
	const what = "the upload of a file"
	u, err := c.own(address)
	if err != nil {
		return c.wire.Strange(what, http.StatusOK, err)
	}
	body := func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, 0, size)), nil }
	first, _ := body() // it has no error
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), first)
	if err != nil {
		return c.wire.Hidden(err)
	}
	r.GetBody, r.ContentLength = body, size
	r.Header.Set("Content-Type", "application/octet-stream")
	answer, err := c.wire.Do(ctx, what, r)
	switch {
	case err != nil:
		return err
	case answer.Status == http.StatusRequestEntityTooLarge:
		return &corebot.Failure{Class: corebot.Permanent, Err: &refusal{method: what, code: "the file is too large"}}
	case answer.Status != http.StatusOK:
		return c.wire.Strange(what, answer.Status, nil)
	}
	return nil
}

// failure is what a refusal means for a message.
func (c client) failure(r *refusal) error {
	unsent := func(err error) error {
		return &corebot.Failure{
			Class: corebot.Cancelled, RetryAfter: channels.Unsent,
			Err: fmt.Errorf("%w; channels.slack.ACCOUNT.%s: %w", err, c.setting, r),
		}
	}
	switch r.code {
	case "ratelimited", "rate_limited", "message_limit_exceeded", "team_added_to_org", "service_unavailable":
		return &corebot.Failure{Class: corebot.RateLimited, Err: r}
	case "invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive", "not_allowed_token_type":
		return unsent(revoked)
	case "missing_scope":
		return unsent(noScope)
	case "internal_error", "fatal_error", "request_timeout": // by the documentation, some of it may have been done
		return &corebot.Failure{Err: fmt.Errorf("%w: %w", channels.ErrMayBeShown, r)}
	}
	return &corebot.Failure{Class: corebot.Permanent, Err: r}
}
