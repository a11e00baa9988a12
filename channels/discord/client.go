package discord

import (
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
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/runes"
)

// client makes requests to the HTTP API. The platform bans an address that sends many refused requests. So what it has
// asked to leave alone is left alone.
type client struct {
	base  string
	token string
	wire  *channels.Wire

	mu     sync.Mutex
	closed time.Time            // everything, until then
	full   map[string]time.Time // routes whose budget is used up, until then
}

const (
	slack     = 10 * time.Second // how long the platform has for an answer
	maxReason = 500              // bytes that are kept of the platform's words
	userAgent = "DiscordBot (https://github.com/corebot/corebot, 1)"
	mostFull  = 1000
)

// what names the request in errors, without ids and tokens.
func what(ask channels.Request) string {
	var words []string
	for _, p := range ask.Path {
		if len(p) < 20 && !isID(p) {
			words = append(words, p)
		}
	}
	return strings.Join(words, "/")
}

// route is what the platform counts requests by: the kind of request, and the channel or server.
func route(ask channels.Request) string {
	return ask.Method + " " + what(ask) + " " + ask.Path[min(1, len(ask.Path)-1)]
}

// refusal is a request that the platform has refused.
type refusal struct {
	what   string
	status int
	code   int
	reason string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("Discord refused %s: %s (%d, %d)", r.what, r.reason, r.status, r.code)
}

// refusedBy says whether the platform has refused a request by a code.
func refusedBy(err error, code int) bool {
	r := (*refusal)(nil)
	return errors.As(err, &r) && r.code == code
}

// final says whether the same request is refused again, as far as anybody can tell.
func final(err error) bool {
	r := (*refusal)(nil)
	return errors.As(err, &r) && r.status < http.StatusTooManyRequests && r.status != http.StatusUnauthorized
}

var (
	revoked = corebot.WithHint(errors.New("the token is unknown to Discord: it is wrong, or was reset"),
		"the page Bot of the developer portal makes a new one; put it where channels.discord.ACCOUNT.token says, and "+
			"start Corebot again")
	outside = corebot.WithHint(errors.New("the bot may not write in this channel: it does not see it, or "+
		"has no rights"),
		"give the bot View Channel, Send Messages, Send Messages in Threads and Read Message History there")
	closed = corebot.WithHint(errors.New("this person takes no direct messages of the bot"),
		"the person has to share a server with the bot, and allow direct messages of its members")
)

// Codes of refusals.
const (
	codeNoMessage     = 10008
	codeOldEdits      = 30046 // a message of an hour ago was edited too often
	codeMissingAccess = 50001
	codeNoDirect      = 50007
	codeMissingRights = 50013
	codeInvalidForm   = 50035
)

// call makes one request. Its error is a [*corebot.Failure].
func call[T any](ctx context.Context, c *client, ask channels.Request) (result T, err error) {
	answer, err := c.do(ctx, ask)
	if err != nil || answer.Status == http.StatusNoContent {
		return result, err
	}
	if err := lenient(answer.Body, &result); err != nil {
		return result, c.wire.Strange(what(ask), answer.Status, err)
	}
	return result, nil
}

// do makes one request, and gives what the platform answers to one that it carries out.
func (c *client) do(ctx context.Context, ask channels.Request) (channels.Answered, error) {
	r, err := ask.Write(ctx, c.base)
	if err != nil {
		return channels.Answered{}, c.wire.Hidden(err)
	}
	r.Header.Set("Authorization", "Bot "+c.token)
	r.Header.Set("User-Agent", userAgent)
	if err := c.free(ctx, route(ask)); err != nil {
		return channels.Answered{}, err
	}
	answer, err := c.wire.Do(ctx, what(ask), r)
	if err != nil {
		return answer, err
	}
	c.used(route(ask), answer.Header)
	if answer.Status >= 200 && answer.Status < 300 {
		return answer, nil
	}
	return answer, c.failure(what(ask), answer)
}

// cdns are where the platform keeps attachments.
var cdns = []string{"cdn.discordapp.com", "media.discordapp.net"}

// open gets the bytes of an attachment. Its address comes with the message: only hosts of the platform are asked, and
// the host of the settings. The token does not go there.
func (c *client) open(address string) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		u, err := url.Parse(address)
		own, _ := url.Parse(c.base) // the settings were checked
		if err != nil || u.User != nil || (u.Scheme != "https" || !slices.Contains(cdns, u.Host)) &&
			(u.Scheme != own.Scheme || u.Host != own.Host) {
			return nil, errors.New("the address of the file is not of Discord")
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, c.wire.Hidden(err)
		}
		r.Header.Set("User-Agent", userAgent)
		return c.wire.Open(ctx, "a file", r)
	}
}

// maxPatience is how long a request waits for its budget by itself. A longer wait is the message's.
const maxPatience = 5 * time.Second

// free waits until the platform takes requests of a route again.
func (c *client) free(ctx context.Context, route string) error {
	c.mu.Lock()
	all, wait := time.Until(c.closed), time.Until(c.full[route])
	c.mu.Unlock()
	if wait = max(all, wait); wait > maxPatience || all > 0 {
		return &corebot.Failure{
			Class: corebot.RateLimited, RetryAfter: wait,
			Err: fmt.Errorf("discord has asked to wait, for another %v", wait.Round(time.Millisecond)),
		}
	}
	if wait > 0 {
		backoff.Sleep(ctx, wait)
	}
	if err := ctx.Err(); err != nil {
		return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: channels.Unsent, Err: err}
	}
	return nil
}

// used notes that the budget of a route is used up.
func (c *client) used(route string, h http.Header) {
	if h.Get("X-RateLimit-Remaining") != "0" {
		return
	}
	wait := seconds(h.Get("X-RateLimit-Reset-After"))
	if wait <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full == nil || len(c.full) >= mostFull {
		c.full = map[string]time.Time{}
	}
	c.full[route] = time.Now().Add(wait)
}

// failure is what a refusal means for a message.
func (c *client) failure(what string, a channels.Answered) error {
	var said struct {
		Code       int             `json:"code"`
		Message    string          `json:"message"`
		Errors     json.RawMessage `json:"errors"`
		RetryAfter float64         `json:"retry_after"`
		Global     bool            `json:"global"`
	}
	err := lenient(a.Body, &said)
	// also of a server in between, which answers with a page
	if a.Status == http.StatusTooManyRequests && said.Code != codeOldEdits {
		return c.limited(what, a, said.RetryAfter, said.Global, said.Message)
	}
	if err != nil || said.Message == "" {
		return c.wire.Strange(what, a.Status, err)
	}
	r := &refusal{what: what, status: a.Status, code: said.Code}
	reason := said.Message
	if len(said.Errors) > 0 {
		reason += " " + string(said.Errors)
	}
	r.reason = runes.Head(c.wire.Hidden(errors.New(reason)).Error(), maxReason)
	switch {
	case a.Status == http.StatusUnauthorized:
		return &corebot.Failure{
			Class: corebot.Cancelled, RetryAfter: channels.Unsent, Err: fmt.Errorf("%w; %w", revoked, r),
		}
	case a.Status >= http.StatusInternalServerError:
		return channels.OutOfOrder(r)
	case said.Code == codeMissingAccess || said.Code == codeMissingRights:
		return &corebot.Failure{Class: corebot.Permanent, Err: fmt.Errorf("%w; %w", outside, r)}
	case said.Code == codeNoDirect:
		return &corebot.Failure{Class: corebot.Permanent, Err: fmt.Errorf("%w; %w", closed, r)}
	}
	return &corebot.Failure{Class: corebot.Permanent, Err: r}
}

// limited is a refusal for the rate. One that is of the whole bot holds every request.
func (c *client) limited(what string, a channels.Answered, after float64, global bool, reason string) error {
	wait := seconds(strconv.FormatFloat(after, 'f', -1, 64))
	if wait <= 0 {
		wait = seconds(a.Header.Get("Retry-After"))
	}
	if wait <= 0 {
		wait = channels.Unsent
	}
	if global || a.Header.Get("X-RateLimit-Global") != "" {
		c.mu.Lock()
		c.closed = time.Now().Add(wait)
		c.mu.Unlock()
	}
	return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: wait, Err: &refusal{
		what: what, status: a.Status,
		reason: runes.Head(c.wire.Hidden(errors.New(reason)).Error(), maxReason),
	}}
}

// seconds is a wait that the platform asks for. Bans last an hour.
func seconds(s string) time.Duration {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return channels.Asked(n)
}

// lenient reads JSON of which single fields can have another type than expected: these stay empty.
func lenient(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
		return nil
	}
	return err
}
