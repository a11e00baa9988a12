package matrix

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/runes"
)

// client makes requests to the client-server API of a homeserver.
type client struct {
	base  string
	token string
	wire  *channels.Wire
}

const apiPath = "/_matrix/client/v3/"

// what names the request in errors, without the ids of rooms and people.
func what(ask channels.Request) string {
	var words []string
	for _, p := range ask.Path {
		if p != "" && !strings.ContainsRune("!$@", rune(p[0])) {
			words = append(words, p)
		}
	}
	return strings.Join(words[:min(len(words), 2)], "/")
}

// maxReason bounds what is kept of the homeserver's words, in bytes.
const maxReason = 500

// refusal is a request that the homeserver has refused.
type refusal struct {
	what   string
	status int
	code   string
	reason string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the homeserver refused %s: %s (%s, %d)", r.what, r.reason, r.code, r.status)
}

// refused says whether the homeserver has refused a request by one of these codes.
func refused(err error, codes ...string) bool {
	r := (*refusal)(nil)
	if !errors.As(err, &r) {
		return false
	}
	for _, code := range codes {
		if r.code == code {
			return true
		}
	}
	return false
}

var (
	revoked = corebot.WithHint(errors.New("the access token is unknown to the homeserver: it is wrong, or was revoked"),
		"log in anew as docs/channels.md says; put the token where channels.matrix.ACCOUNT.token says, and "+
			"start Corebot again")
	expired = corebot.WithHint(errors.New("the access token has expired: the homeserver has logged the "+
		"account out softly"),
		"log in anew with the same device_id as docs/channels.md says, and start Corebot again with the new token")
	outside = corebot.WithHint(errors.New("the account may not write in this room: it is not a member, or "+
		"has no rights"),
		"invite the account into the room, or give it the right to send messages there")
)

// open gets the bytes of a file. Older homeservers know the older of the two paths alone.
func (c *client) open(ctx context.Context, server, id string) (content io.ReadCloser, err error) {
	for _, path := range []string{"_matrix/client/v1/media/download/", "_matrix/media/v3/download/"} {
		address := strings.TrimSuffix(c.base, apiPath) + "/" + path + url.PathEscape(server) + "/" + url.PathEscape(id)
		r, e := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if e != nil {
			return nil, c.wire.Hidden(e)
		}
		r.Header.Set("Authorization", "Bearer "+c.token)
		if content, err = c.wire.Open(ctx, "a file", r); err == nil || ctx.Err() != nil {
			return content, err
		}
	}
	return nil, err
}

// upload is a file as the homeserver gets it. Encrypted, it has neither name nor type.
type upload struct {
	name, mediaType string
	size            int64
	open            func() io.Reader // from the beginning, each time the same
}

// upload gives the homeserver a file, and gives the file's address.
func (c *client) upload(ctx context.Context, u upload) (string, error) {
	address := strings.TrimSuffix(c.base, apiPath) + "/_matrix/media/v3/upload"
	if u.name != "" {
		address += "?filename=" + url.QueryEscape(u.name)
	}
	body := func() (io.ReadCloser, error) { return io.NopCloser(u.open()), nil }
	first, _ := body() // it has no error
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, first)
	if err != nil {
		return "", c.wire.Hidden(err)
	}
	r.GetBody, r.ContentLength = body, u.size
	r.Header.Set("Content-Type", cmp.Or(u.mediaType, "application/octet-stream"))
	at, err := send[struct {
		URI string `json:"content_uri"`
	}](ctx, c, "the upload of a file", r)
	if err != nil || strings.HasPrefix(at.URI, "mxc://") {
		return at.URI, channels.NotShown(err)
	}
	return "", c.wire.Strange("the upload of a file", http.StatusOK, nil)
}

// call makes one request. Its error is a [*corebot.Failure].
func call[T any](ctx context.Context, c *client, ask channels.Request) (result T, err error) {
	r, err := ask.Write(ctx, c.base)
	if err != nil {
		return result, c.wire.Hidden(err)
	}
	return send[T](ctx, c, what(ask), r)
}

// send makes a request that is written already.
func send[T any](ctx context.Context, c *client, what string, r *http.Request) (result T, err error) {
	r.Header.Set("Authorization", "Bearer "+c.token)
	answer, err := c.wire.Do(ctx, what, r)
	if err != nil {
		return result, err
	}
	if answer.Status == http.StatusOK {
		if err := json.Unmarshal(answer.Body, &result); err != nil {
			return result, c.wire.Strange(what, answer.Status, err)
		}
		return result, nil
	}
	return result, c.failure(what, answer)
}

// failure is what a refusal means for a message.
func (c *client) failure(what string, a channels.Answered) error {
	var said struct {
		Code       string  `json:"errcode"`
		Reason     string  `json:"error"`
		RetryAfter float64 `json:"retry_after_ms"`
		Soft       bool    `json:"soft_logout"`
	}
	if err := lenient(a.Body, &said); err != nil || said.Code == "" {
		return c.wire.Strange(what, a.Status, err)
	}
	r := &refusal{
		what: what, status: a.Status, code: runes.Head(said.Code, maxReason),
		reason: runes.Head(c.wire.Hidden(errors.New(said.Reason)).Error(), maxReason),
	}
	switch {
	case a.Status == http.StatusTooManyRequests || said.Code == "M_LIMIT_EXCEEDED":
		return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: wait(said.RetryAfter, a.Header), Err: r}
	case said.Code == "M_UNKNOWN_TOKEN" && said.Soft:
		return &corebot.Failure{
			Class: corebot.Cancelled, RetryAfter: channels.Unsent, Err: fmt.Errorf("%w; %w", expired, r),
		}
	case a.Status == http.StatusUnauthorized || said.Code == "M_USER_DEACTIVATED":
		return &corebot.Failure{
			Class: corebot.Cancelled, RetryAfter: channels.Unsent, Err: fmt.Errorf("%w; %w", revoked, r),
		}
	case a.Status >= http.StatusInternalServerError: // Dendrite can have taken the event into a queue of its own
		return channels.OutOfOrder(r)
	case said.Code == "M_UNRECOGNIZED":
		return c.wire.Strange(what, a.Status, r)
	case said.Code == "M_FORBIDDEN":
		return &corebot.Failure{Class: corebot.Permanent, Err: fmt.Errorf("%w; %w", outside, r)}
	}
	return &corebot.Failure{Class: corebot.Permanent, Err: r}
}

// wait is how long the homeserver asks to wait: in the answer, as older ones say it, or in the header.
func wait(milliseconds float64, h http.Header) time.Duration {
	if seconds, err := strconv.ParseInt(h.Get("Retry-After"), 10, 32); err == nil && milliseconds <= 0 {
		milliseconds = float64(seconds) * 1000
	}
	if milliseconds <= 0 || milliseconds > float64(time.Hour/time.Millisecond) {
		return channels.Unsent
	}
	return max(time.Duration(milliseconds*float64(time.Millisecond)), time.Millisecond)
}

// lenient reads JSON of which single fields can have another type than expected: these stay empty. Everybody in a room
// can send such events.
func lenient(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
		return nil
	}
	return err
}

// maxID is the greatest length of an id on Matrix, in bytes.
const maxID = 255

// isID says whether a text has the form of an id. Other forms can come from a broken homeserver only, and must not get
// into addresses and logs.
func isID(sigil byte, s string) bool {
	return len(s) > 1 && len(s) <= maxID && s[0] == sigil && corebot.CheckName(s) == nil
}

func isRoom(s string) bool  { return isID('!', s) }
func isEvent(s string) bool { return isID('$', s) }
func isUser(s string) bool  { return isID('@', s) && strings.Contains(s, ":") }
