package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// problem is a refusal in the form of RFC 9457. The detail is for the caller's programmer. It can quote the request,
// but never a credential, and never an error of Corebot that refusalOf does not know.
type problem struct {
	status     int
	detail     string
	retryAfter time.Duration // when the same request can succeed, in whole seconds; zero: it cannot as it is
}

func refuse(status int, format string, args ...any) *problem {
	return &problem{status: status, detail: fmt.Sprintf(format, args...)}
}

// document is the problem's JSON. Its type is about:blank: callers tell problems apart by the status alone.
type document struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// write answers with the problem and returns its status. hangUp says that the request's body was not read to its end.
// The connection closes then, because net/http would otherwise wait for the rest before it answers.
func (p *problem) write(w http.ResponseWriter, hangUp bool) int {
	h := w.Header()
	if p.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="corebot"`)
	}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(p.retryAfter/time.Second)))
	}
	if hangUp {
		h.Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerTime))
	}
	return answer(w, p.status, "application/problem+json", document{
		"about:blank", http.StatusText(p.status), p.status,
		p.detail,
	})
}

// answer writes v as JSON and returns the status. An error of writing is ignored: an accepted message is on disk, and a
// caller can ask again.
func answer(w http.ResponseWriter, status int, mediaType string, v any) int {
	b := encode(v)
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = writePieces(context.Background(), w, b)
	return status
}

// encode makes one line of JSON. Encoding the types of this package cannot fail.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n")
}

// refusalOf turns an error of the door or the mailbox into a problem. known is false for an unexpected error. Its
// problem has a general text, and the caller must log the error.
func refusalOf(err error) (p *problem, known bool) {
	switch {
	case errors.Is(err, channels.ErrNotAdmitted): // before ErrInvalid, which it is too
		return refuse(http.StatusForbidden, "this sender may not talk here"), true
	case errors.Is(err, corebot.ErrConflict):
		return refuse(http.StatusConflict,
			"the same id was accepted before with another body, or from another sender; nothing has changed"), true
	case errors.Is(err, corebot.ErrTooLarge):
		return refuse(http.StatusRequestEntityTooLarge, "%v", err), true
	case errors.Is(err, corebot.ErrInvalid):
		return refuse(http.StatusUnprocessableEntity, "%v", err), true
	case errors.Is(err, corebot.ErrSenderFull): // before ErrLaneFull, which it is too
		return later(http.StatusTooManyRequests, channels.RetryAfter(err), "the sender has too many waiting messages"),
			true
	case errors.Is(err, corebot.ErrLaneFull):
		return later(http.StatusTooManyRequests, channels.RetryAfter(err), "the chat has too many waiting messages"),
			true
	case errors.Is(err, corebot.ErrCommandRate):
		return later(http.StatusTooManyRequests, channels.RetryAfter(err), tooSoon(err)), true
	case errors.Is(err, corebot.ErrOverloaded):
		return later(http.StatusServiceUnavailable, channels.RetryAfter(err), "too many messages are waiting"), true
	case errors.Is(err, corebot.ErrDiskFull):
		return later(http.StatusServiceUnavailable, channels.RetryAfter(err), "the disk is full"), true
	case errors.Is(err, corebot.ErrClosed):
		return later(http.StatusServiceUnavailable, 5*time.Second, "Corebot is stopping"), true
	case errors.Is(err, corebot.ErrCommitUnknown):
		return later(http.StatusServiceUnavailable, time.Second,
			"it is not known whether the message was stored; send it again under the same id"), true
	}
	return refuse(http.StatusInternalServerError, "an error of Corebot; its log says more"), false
}

// tooSoon says what the rate of commands limits, and when the next one is accepted.
func tooSoon(err error) string {
	if soon := (*corebot.TooSoon)(nil); errors.As(err, &soon) {
		return soon.Error()
	}
	return corebot.ErrCommandRate.Error()
}

func later(status int, after time.Duration, detail string) *problem {
	return &problem{status: status, detail: detail, retryAfter: after}
}
