package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/runes"
)

// client makes requests to the Bot API.
type client struct {
	base  string // with the token
	files string // where files are, with the token
	wire  *channels.Wire
}

// maxReason bounds what is kept of the platform's words, in bytes.
const maxReason = 500

// apiAnswer is the body of every answer of the Bot API.
type apiAnswer struct {
	OK          bool            `json:"ok"`
	Result      json.RawMessage `json:"result"`
	Code        int             `json:"error_code"`
	Description string          `json:"description"`
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
	migrateTo   int64 // the id that the chat has now; 0: the chat did not move
}

func (r *refusal) Error() string {
	return fmt.Sprintf("Telegram refused %s: %s (%d)", r.method, r.description, r.code)
}

// says reports whether the description has the words, which are in lower case.
func (r *refusal) says(words string) bool {
	return strings.Contains(strings.ToLower(r.description), words)
}

// refusedFor reports whether err is a refusal whose description has the words.
func refusedFor(err error, words string) bool {
	r := (*refusal)(nil)
	return errors.As(err, &r) && r.says(words)
}

var (
	errRevoked = corebot.WithHint(errors.New("the token is unknown to Telegram (401): it is wrong, or was revoked"),
		"@BotFather shows the bot's token; put it where channels.telegram.ACCOUNT.token says, and start Corebot again")
	errOtherWebhook = corebot.WithHint(errors.New("another program receives for this bot: it has set a webhook"),
		"if Corebot has set it, `corebot serve` goes on; else end that program, then remove its webhook: open "+
			"https://api.telegram.org/botTOKEN/deleteWebhook")
	errOtherPoller = corebot.WithHint(
		errors.New("another program fetches the messages of this bot with the same token"),
		"end the other program, or give each a bot of its own")
)

// call makes one request. Its error is a [*corebot.Failure].
func call[T any](ctx context.Context, c *client, method string, args map[string]any) (result T, err error) {
	if args == nil {
		args = map[string]any{} // a server can refuse the JSON null
	}
	body, err := json.Marshal(args)
	if err != nil {
		return result, fmt.Errorf("write the request %s: %w", method, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+method, bytes.NewReader(body))
	if err != nil {
		return result, c.wire.Hidden(err)
	}
	r.Header.Set("Content-Type", "application/json")
	err = c.ask(ctx, method, r, &result)
	return result, err
}

// upload makes one request with a file. The arguments are as for call.
func upload[T any](ctx context.Context, c *client, method string, args map[string]any, f channels.FilePart) (
	result T, err error,
) {
	fields := map[string]string{}
	for name, value := range args {
		if text, is := value.(string); is {
			fields[name] = text
			continue
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return result, fmt.Errorf("write the request %s: %w", method, err)
		}
		fields[name] = string(raw)
	}
	r, err := channels.Form(ctx, c.base+method, fields, f)
	if err != nil {
		return result, c.wire.Hidden(err)
	}
	err = c.ask(ctx, method, r, &result)
	return result, err
}

// ask sends a request and reads what the platform says.
func (c *client) ask(ctx context.Context, method string, r *http.Request, into any) error {
	response, err := c.wire.Do(ctx, method, r)
	if err != nil {
		return err
	}
	var a apiAnswer
	if err := json.Unmarshal(response.Body, &a); err != nil || !a.OK && a.Description == "" {
		return c.wire.Strange(method, response.Status, err)
	}
	if !a.OK {
		return a.failure(method)
	}
	if err := json.Unmarshal(a.Result, into); err != nil {
		return c.wire.Unread(method, err)
	}
	return nil
}

// open gets the bytes of a file that somebody sent. The platform says where the file is, below its own address. Bots
// get files of up to 20 MB.
func (c *client) open(f *file) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		at, err := call[struct {
			Path string `json:"file_path"`
		}](ctx, c, "getFile", map[string]any{"file_id": f.ID})
		if err != nil {
			return nil, err
		}
		// A server of the Bot API that keeps files on its own disk names a place there.
		if !filepath.IsLocal(at.Path) || path.Clean(at.Path) != at.Path {
			return nil, errors.New("the Bot API gives no path of a file")
		}
		steps := strings.Split(at.Path, "/")
		for i, p := range steps {
			steps[i] = url.PathEscape(p)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.files+strings.Join(steps, "/"), nil)
		if err != nil {
			return nil, c.wire.Hidden(err)
		}
		return c.wire.Open(ctx, "a file", r)
	}
}

// failure is the refusal as an error, with the class that decides what becomes of the message.
func (a apiAnswer) failure(method string) error {
	r := &refusal{
		method: method, code: a.Code, description: runes.Head(a.Description, maxReason),
		migrateTo: a.Parameters.MigrateTo,
	}
	after := channels.Asked(a.Parameters.RetryAfter)
	switch {
	case a.Code == http.StatusTooManyRequests || after > 0:
		return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: after, Err: r}
	case a.Code == http.StatusUnauthorized:
		return &corebot.Failure{
			Class:      corebot.Cancelled,
			RetryAfter: channels.Unsent,
			Err:        fmt.Errorf("%w; %w", errRevoked, r),
		}
	case a.Code == http.StatusConflict && r.says("webhook"):
		return &corebot.Failure{Err: fmt.Errorf("%w; %w", errOtherWebhook, r)}
	case a.Code == http.StatusConflict:
		return &corebot.Failure{Err: fmt.Errorf("%w; %w", errOtherPoller, r)}
	case a.Code >= http.StatusInternalServerError:
		return channels.OutOfOrder(r)
	}
	return &corebot.Failure{Class: corebot.Permanent, Err: r}
}

// bot is who the token stands for.
type bot struct {
	ID       int64  `json:"id"`
	Username string `json:"username"`
	ReadsAll bool   `json:"can_read_all_group_messages"`

	files func(*file) func(context.Context) (io.ReadCloser, error) // gets the bytes of a file; nil: nothing does
}

func (c *client) me(ctx context.Context) (bot, error) {
	ctx, cancel := context.WithTimeout(ctx, answerGrace)
	defer cancel()
	me, err := call[bot](ctx, c, "getMe", nil)
	if err != nil {
		return me, fmt.Errorf("ask Telegram who the bot is: %w", err)
	}
	me.files = c.open
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
