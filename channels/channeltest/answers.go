package channeltest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
)

// Answers is a platform that gives every request the same answer, so that a fuzz target can have it say anything.
type Answers struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	header map[string]string
	body   string
	asked  int
	path   string // of the last request
}

// NewAnswers starts the platform.
func NewAnswers(tb testing.TB) *Answers {
	tb.Helper()
	a := &Answers{status: http.StatusOK}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked++
		a.path = r.URL.EscapedPath()
		for name, value := range a.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(a.body)) // a client that hangs up has seen enough
	}))
	tb.Cleanup(a.Close)
	return a
}

// Say sets the answer from now on. A status that no final answer has counts as 200, and a value that no header can have
// as an empty one. Connections of earlier requests end. A fuzz target that makes a client for each input would keep
// them all, until no file can be opened.
func (a *Answers) Say(status int, header map[string]string, body string) {
	a.CloseClientConnections()
	a.mu.Lock()
	defer a.mu.Unlock()
	if status < 200 || status > 599 {
		status = http.StatusOK
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		body = "" // net/http writes none
	}
	header = maps.Clone(header)
	for name, value := range header {
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			header[name] = ""
		}
	}
	a.status, a.header, a.body, a.asked = status, header, body, 0
}

// Hurried bounds a call that waits as long as a platform asks.
func Hurried(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// Asked is how many requests came since Say.
func (a *Answers) Asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// Path is the path of the last request, as it was sent.
func (a *Answers) Path() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.path
}

const (
	longestWait  = 24 * time.Hour
	longestError = 4 << 10
)

// RequireBearable fails the test if the outbox, or a person who reads the log, cannot live with an error. Its wait must
// not be negative or longer than a day, and its text must be short, UTF-8, and without the token.
func RequireBearable(tb testing.TB, err error, token string) {
	tb.Helper()
	if err == nil {
		return
	}
	if f := (*corebot.Failure)(nil); errors.As(err, &f) && (f.RetryAfter < 0 || f.RetryAfter > longestWait) {
		tb.Errorf("the error asks to wait for %v: %.300v", f.RetryAfter, err)
	}
	text := err.Error()
	if len(text) > longestError || !utf8.ValidString(text) || strings.Contains(text, token) {
		tb.Errorf("the error has %d bytes: %.300q", len(text), text)
	}
}
