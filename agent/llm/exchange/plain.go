package exchange

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/redact"
)

// plainly says in one sentence, for anybody in the chat, what a provider's status means. It names no account, address
// or key.
func plainly(status int, v verdict) string {
	what := ""
	switch {
	case errors.Is(v.about, llm.ErrContextTooLong):
		what = "The message, with what belongs to it, is too long for the model"
	case errors.Is(v.about, llm.ErrRefused):
		what = "The model provider's content filter stopped the message"
	case errors.Is(v.about, llm.ErrNoModel):
		what = "The model provider does not have the model"
	case errors.Is(v.about, llm.ErrBadRequest):
		what = "The model provider did not accept the request"
	case status == http.StatusUnauthorized:
		what = "The model provider refused the API key"
	case status == http.StatusForbidden:
		what = "The model provider does not let the API key use the model"
	case errors.Is(v.about, llm.ErrUnauthorized):
		what = "The account at the model provider has no credit left"
	case v.class == corebot.RateLimited && status != http.StatusTooManyRequests:
		what = "The model provider is overloaded"
	case v.class == corebot.RateLimited:
		what = "The model provider limits how often it can be asked"
	default:
		what = "The model provider failed"
	}
	return fmt.Sprintf("%s (%d).", what, status)
}

// maxWords bounds the words of a provider that an admin reads, in bytes.
const maxWords = 300

// wordsOf is what a provider said, fit for the line of a chat; empty if it said nothing. A page of a proxy is
// nobody's words.
func wordsOf(message string) string {
	if strings.HasPrefix(strings.TrimSpace(message), "<") {
		return ""
	}
	s := oneLine(message)
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords], "") + "…"
	}
	return s
}

// oneLine makes a line of foreign text, and writes the characters out that a person does not see.
func oneLine(s string) string {
	return corebot.Plainly(strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " "))
}

// shapes knows keys by their look: a gateway can quote the key of the provider behind it.
var shapes = sync.OnceValue(func() *redact.Redactor {
	r, _ := redact.New(nil) // without exact secrets there is none that could be too short
	return r
})
