package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/corebot/corebot"
)

// problem is an error as RFC 9457 has it, with a hint beside it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"` // what to do about it

	retryAfter int // seconds; 0: the same request fails again
}

func (p problem) write(w http.ResponseWriter) {
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	h := w.Header()
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="corebot"`)
	}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	text, _ := encode(p) // of strings and a number: cannot fail
	send(w, p.Status, "application/problem+json", text)
}

// statuses are what the errors of operations mean to a caller. The first that matches counts.
var statuses = []struct {
	err        error
	status     int
	retryAfter int
}{
	{errMalformed, http.StatusBadRequest, 0},
	{errNotJSON, http.StatusUnsupportedMediaType, 0},
	{errTokenEnded, http.StatusUnauthorized, 0},
	{corebot.ErrNotFound, http.StatusNotFound, 0},
	{corebot.ErrConflict, http.StatusConflict, 0},
	{corebot.ErrTooLarge, http.StatusRequestEntityTooLarge, 0},
	{corebot.ErrLaneFull, http.StatusTooManyRequests, 5},
	{corebot.ErrCommandRate, http.StatusTooManyRequests, 5},
	{corebot.ErrOverloaded, http.StatusServiceUnavailable, 5},
	{corebot.ErrDiskFull, http.StatusServiceUnavailable, 30},
	{corebot.ErrClosed, http.StatusServiceUnavailable, 5},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, 5},
	{corebot.ErrInvalid, http.StatusUnprocessableEntity, 0},
}

func problemOf(err error) problem {
	if errors.Is(err, corebot.ErrCommitUnknown) {
		return problem{
			Status: http.StatusServiceUnavailable, Detail: "it is not known whether the change was stored",
			Hint: "look whether it was before you ask again",
		}
	}
	if denied := (*corebot.Denied)(nil); errors.As(err, &denied) {
		return problem{Status: http.StatusForbidden, Detail: denied.Reason, Hint: corebot.HintOf(err)}
	}
	if resolved := (*corebot.Resolved)(nil); errors.As(err, &resolved) {
		return problem{Status: http.StatusConflict, Detail: err.Error(), Hint: "it stays decided"}
	}
	for _, s := range statuses {
		if !errors.Is(err, s.err) {
			continue
		}
		p := problem{Status: s.status, Detail: err.Error(), Hint: corebot.HintOf(err), retryAfter: s.retryAfter}
		if busy := (*corebot.Busy)(nil); errors.As(err, &busy) && busy.RetryAfter > 0 {
			p.retryAfter = int((busy.RetryAfter + time.Second - 1) / time.Second)
		}
		return p
	}
	return problem{
		Status: http.StatusInternalServerError, Detail: "an error of Corebot",
		Hint: "the log of Corebot says more",
	}
}

// rawJSON is an answer that is encoded already.
type rawJSON []byte

// answer sends a result. One whose encoding fails is an error of ours.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, result any) {
	a, err := s.encoded(result)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	send(w, a.Status, "application/json", a.Body)
}

// encoded is the answer that a result makes, without the secrets of the settings.
func (s *Server) encoded(result any) (a corebot.KeptAnswer, err error) {
	text, is := result.(rawJSON)
	if !is {
		if text, err = encode(result); err != nil {
			return a, err
		}
	}
	a.Status, a.Body = http.StatusOK, []byte(s.opts.Redact(string(text)))
	if with, has := result.(interface{ status() int }); has {
		a.Status = with.status()
	}
	return a, nil
}

// send writes an answer. A caller that has left misses nothing: what was changed is on disk.
func send(w http.ResponseWriter, status int, mediaType string, text []byte) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// encode writes one line of JSON in which <, > and & are themselves.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}
