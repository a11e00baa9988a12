package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/runes"
)

// client makes requests to the Bot API.
type client struct {
	base  string // with the token
	token string
	http  *http.Client
}

// maxAnswer bounds what is read of an answer. A fetch of updates has about 4 MiB at most.
const maxAnswer = 16 << 20

// maxReason bounds what is kept of the platform's words, in bytes.
const maxReason = 500

// answer is what the platform says to a request.
type answer[T any] struct {
	OK          bool   `json:"ok"`
	Result      T      `json:"result"`
	Code        int    `json:"error_code"`
	Description string `json:"description"`
	Parameters  struct {
		RetryAfter float64 `json:"retry_after"`
		MigrateTo  int64   `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// refusal is a request that the platform has refused.
type refusal struct {
	method      string
	code        int
	description string
	migrateTo   int64 // the chat is now there
}

func (r *refusal) Error() string {
	return fmt.Sprintf("Telegram refused %s: %s (%d)", r.method, r.description, r.code)
}

// says looks for words of the platform.
func (r *refusal) says(words string) bool {
	return strings.Contains(strings.ToLower(r.description), words)
}

// refusedFor says whether the platform has refused a request in these words.
func refusedFor(err error, words string) bool {
	r := (*refusal)(nil)
	return errors.As(err, &r) && r.says(words)
}

var (
	revoked = corebot.WithHint(errors.New("the token is unknown to Telegram (401): it is wrong, or was revoked"),
		"@BotFather shows the bot's token; put it where channels.telegram.ACCOUNT.token says, and start Corebot again")
	hooked = corebot.WithHint(errors.New("another program receives for this bot: it has set a webhook"),
		"end that program, then remove its webhook: open https://api.telegram.org/botTOKEN/deleteWebhook")
	twice = corebot.WithHint(errors.New("another program fetches the messages of this bot with the same token"),
		"end the other program, or give each a bot of its own")
)

// unsent is how long a message waits that could not be sent for a reason that is not its own.
const unsent = 15 * time.Second

// call makes one request. Its error is a [*corebot.Failure].
func call[T any](ctx context.Context, c *client, method string, args map[string]any) (result T, err error) {
	body, err := json.Marshal(args)
	if err != nil {
		return result, fmt.Errorf("write the request %s: %w", method, err)
	}
	var written atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }})
	r, err := http.NewRequestWithContext(traced, http.MethodPost, c.base+method, bytes.NewReader(body))
	if err != nil {
		return result, c.hidden(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(r)
	if err != nil {
		return result, c.broken(method, err, written.Load())
	}
	defer func() { _ = response.Body.Close() }() // it is read, or given up
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return result, c.broken(method, err, true)
	}
	if len(text) > maxAnswer {
		return result, fmt.Errorf("the answer to %s is longer than %d bytes", method, maxAnswer)
	}
	var a answer[T]
	if err := json.Unmarshal(text, &a); err != nil || !a.OK && a.Description == "" {
		return result, c.strange(method, response.StatusCode, err)
	}
	if !a.OK {
		return result, a.failure(method)
	}
	return a.Result, nil
}

// failure is the refusal with what it means for a message.
func (a answer[T]) failure(method string) error {
	r := &refusal{
		method: method, code: a.Code, description: runes.Head(a.Description, maxReason),
		migrateTo: a.Parameters.MigrateTo,
	}
	after := time.Duration(a.Parameters.RetryAfter * float64(time.Second))
	switch {
	case a.Code == http.StatusTooManyRequests || after > 0:
		return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: after, Err: r}
	case a.Code == http.StatusUnauthorized:
		return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: unsent, Err: fmt.Errorf("%w; %w", revoked, r)}
	case a.Code == http.StatusConflict && r.says("webhook"):
		return &corebot.Failure{Err: fmt.Errorf("%w; %w", hooked, r)}
	case a.Code == http.StatusConflict:
		return &corebot.Failure{Err: fmt.Errorf("%w; %w", twice, r)}
	case a.Code >= http.StatusInternalServerError:
		return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: unsent, Err: r}
	}
	return &corebot.Failure{Class: corebot.Permanent, Err: r}
}

// strange is an answer that is not the platform's: of a proxy, or of something else at the address.
func (c *client) strange(method string, status int, err error) error {
	failed := fmt.Errorf("%s was answered by something that is not the Bot API: %s", method, http.StatusText(status))
	if err != nil && status == http.StatusOK {
		failed = fmt.Errorf("%w: %w", failed, err)
	}
	if status >= http.StatusInternalServerError { // the platform is out of order
		return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: unsent, Err: failed}
	}
	return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: unsent, Err: corebot.WithHint(failed,
		"look at channels.telegram.ACCOUNT.api_url, and at what stands between")}
}

// broken is a request without an answer. If nothing of it was written, it has not taken effect.
func (c *client) broken(method string, err error, written bool) error {
	err = c.hidden(err)
	if !written {
		err = fmt.Errorf("the Bot API cannot be reached for %s: %w", method, err)
		return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: unsent, Err: corebot.WithHint(err,
			"look at the network, and at channels.telegram.ACCOUNT.api_url")}
	}
	err = fmt.Errorf("the Bot API did not answer %s; %w: %w", method, channels.ErrMayBeShown, err)
	return &corebot.Failure{Err: err}
}

// hidden is an error without the address of the request, which has the token.
func (c *client) hidden(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if text := err.Error(); strings.Contains(text, c.token) {
		return errors.New(strings.ReplaceAll(text, c.token, "TOKEN"))
	}
	return err
}

// bot is who the token stands for.
type bot struct {
	ID       int64  `json:"id"`
	Username string `json:"username"`
	ReadsAll bool   `json:"can_read_all_group_messages"`
}

type webhookInfo struct {
	URL string `json:"url"`
}

func (c *client) me(ctx context.Context) (bot, error) {
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	me, err := call[bot](ctx, c, "getMe", nil)
	if err != nil {
		return me, fmt.Errorf("ask Telegram who the bot is: %w", err)
	}
	return me, nil
}

// parseID reads a number of the platform: of a chat, a thread or a message.
func parseID(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of Telegram", s)
	}
	return n, nil
}
