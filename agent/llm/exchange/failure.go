package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/redact"
)

// The ways in which an answer can be unusable.
var (
	// These are transient: another attempt can go well.
	ErrBrokenOff = errors.New("the answer broke off in the middle")
	ErrEmpty     = errors.New("the answer was empty")
	ErrGarbled   = errors.New("the answer has a piece that is not JSON")

	// These are permanent: another attempt would end in the same way.
	ErrTooLong  = errors.New("the answer is larger than allowed")
	ErrNoRoom   = errors.New("the model used up its output limit before it said anything")
	ErrFiltered = errors.New("the provider's content filter stopped the answer")
	ErrRefusal  = errors.New("the model declined to answer")
)

// timeoutError is the end of a call by one of Corebot's own limits of time.
type timeoutError struct {
	what    string // what did not happen
	after   time.Duration
	setting string // the key of the limit
}

func (e *timeoutError) Error() string { return fmt.Sprintf("%s for %s", e.what, e.after) }

// OutputLimitNote ends the text of an answer that the model's output limit cut off.
const OutputLimitNote = "\n\n[The answer was cut off here: it reached the model's output limit.]"

// oddAnswer is a success status with a body that is not what was asked for.
type oddAnswer struct {
	wanted string // empty: a stream of events
	what   string // that came
}

func (e *oddAnswer) Error() string {
	return fmt.Sprintf("instead of %s came %s", cmp.Or(e.wanted, "a stream of events"), e.what)
}

// BodyError is a success status with a JSON object in place of a stream: some gateways send errors so.
type BodyError struct {
	Body        string // the beginning of the object, as it came: it can quote a key
	contentType string
}

func (e *BodyError) Error() string {
	return fmt.Sprintf("instead of a stream of events came %s: %s", e.contentType, Excerpt(e.Body))
}

// CallError is an error with what its exchange knows besides.
type CallError struct {
	Err        error
	RetryAfter time.Duration // zero if the provider asked for nothing
	Body       string        // beginning of the body of an HTTP error, without secrets
}

func (e *CallError) Error() string { return e.Err.Error() }
func (e *CallError) Unwrap() error { return e.Err }

// Status is what a provider said was wrong, by the HTTP status or by an error inside a stream that began well.
type Status struct {
	Code    int    // as in HTTP; 0: the error is not the provider's
	Reason  string // the provider's own word for it, such as "context_length_exceeded"
	Message string // for people
}

// verdict is what an error is taken for.
type verdict struct {
	class corebot.Class
	text  string // for the log and for `corebot why`
	hint  string // for operators
	about error  // the subject, one of package llm's errors; nil: none
	plain string // for everybody in the chat: see [corebot.Explanation]
	words string // the provider's own words, for admins in the chat: see [corebot.Explanation]
}

// Failure classifies an error of a call and writes its text anew. status is what the provider's API said was wrong. A
// zero status means that the error is not the provider's. The error itself is not in the chain, because it can quote
// the key. A class that is not permanent keeps the wait that the provider asked for.
func (e *Endpoint) Failure(err error, status Status) *corebot.Failure {
	var v verdict
	if status.Code != 0 {
		v = e.judgeStatus(status)
	} else {
		v = e.judge(err)
	}
	text := fmt.Sprintf("ask %s at %s: %s", e.Model, e.BaseURL, e.Clean(v.text))
	if e.Provider != "" {
		text = e.Provider + ": " + text
	}
	flat := errors.New(text)
	if v.about != nil {
		flat = &about{text, v.about}
	}
	if v.hint != "" {
		flat = corebot.WithHint(flat, v.hint)
	}
	f := &corebot.Failure{Class: v.class, Err: &corebot.Explanation{Err: flat, Plain: v.plain, Words: v.words}}
	if c := (*CallError)(nil); errors.As(err, &c) && v.class != corebot.Permanent {
		f.RetryAfter = c.RetryAfter
	}
	return f
}

// about is the text of an error, and its subject for errors.Is, which the text does not repeat.
type about struct {
	text string
	err  error
}

func (a *about) Error() string { return a.text }
func (a *about) Unwrap() error { return a.err }

// judge gives the verdict on an error that the provider did not send. A timeout is transient.
func (e *Endpoint) judge(err error) verdict {
	if timeout := (*timeoutError)(nil); errors.As(err, &timeout) {
		return verdict{
			class: corebot.Transient,
			text:  err.Error(), about: llm.ErrUnreachable, plain: corebot.FaultTimeout.Say(),
			hint: "the endpoint is slow or stuck; the limit is " + e.Setting(timeout.setting),
		}
	}
	odd, body := (*oddAnswer)(nil), (*BodyError)(nil)
	if errors.As(err, &odd) || errors.As(err, &body) {
		return verdict{
			class: corebot.Permanent, text: err.Error(),
			plain: corebot.FaultNotAModel.Say(),
			hint:  "does this address speak the API that is configured? check " + e.Setting("base_url"),
		}
	}
	for _, known := range []struct {
		err, about error
		hint       string
		plain      corebot.Fault
	}{
		{ErrTooLong, nil, "", corebot.FaultLongAnswer},
		{
			ErrNoRoom, nil, "allow the model more output tokens: llm.output_tokens",
			corebot.FaultNoRoom,
		},
		{ErrFiltered, llm.ErrRefused, "", corebot.FaultFilteredAnswer},
		{ErrRefusal, llm.ErrRefused, "", corebot.FaultDeclined},
	} {
		if errors.Is(err, known.err) {
			return verdict{
				class: corebot.Permanent, text: err.Error(), hint: known.hint, about: known.about,
				plain: known.plain.Say(),
			}
		}
	}
	return networkVerdict(err, e.Setting("base_url"))
}

// networkVerdict takes an error of the network, and every unknown error, for transient.
func networkVerdict(err error, setting string) verdict {
	v := verdict{class: corebot.Transient, plain: corebot.FaultBrokenAnswer.Say()}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err, v.about = u.Err, llm.ErrUnreachable // the address is named already
		v.plain = corebot.FaultUnreachable.Say()
	}
	v.text = err.Error()
	dns := (*net.DNSError)(nil)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		v.hint = "is the server running? check " + setting
	case errors.As(err, &dns):
		v.hint = "does this machine have a network, and is the name right? check " + setting
	}
	return v
}

// judgeStatus gives the verdict on an error that the provider sent, by its status, its code and its message.
func (e *Endpoint) judgeStatus(s Status) (v verdict) {
	// some providers have statuses of their own
	name := strings.TrimSpace(fmt.Sprintf("status %d %s", s.Code, http.StatusText(s.Code)))
	v = verdict{class: classOf(s), text: name + ": " + Excerpt(e.Clean(s.Message)), words: wordsOf(e.Clean(s.Message))}
	defer func() { v.plain = sentenceOf(s.Code, v) }()
	switch {
	case hasNoCredit(s):
		// Also under the status of a rate limit: it does not pass by waiting.
		v.class, v.about, v.hint = corebot.Permanent, llm.ErrUnauthorized,
			"the account has no credit left at the provider"
	case s.Code == http.StatusUnauthorized:
		v.about, v.hint = llm.ErrUnauthorized, "the provider refuses the key: check "+e.Setting("api_key")
	case s.Code == http.StatusForbidden:
		v.about, v.hint = llm.ErrUnauthorized, "the key may not use this model: check "+e.Setting("api_key")+", and "+
			e.Setting("model")
	case s.Code == http.StatusNotFound, s.Code == http.StatusMethodNotAllowed:
		v.about, v.hint = llm.ErrNoModel, "no such model or no such address: check "+e.Setting("model")+", and "+
			e.Setting("base_url")
	case v.class != corebot.Permanent: // no subject: another attempt can go well
	case isFiltered(s):
		v.about = llm.ErrRefused
	case s.Code == http.StatusRequestEntityTooLarge, saysTooLong(s):
		v.about = llm.ErrContextTooLong
	default:
		v.about = llm.ErrBadRequest
	}
	return v
}

// classOf is the class of a status. An overloaded provider counts as rate limited: Anthropic, and the gateways to
// Anthropic, send their overload status when all customers together ask too much.
func classOf(s Status) corebot.Class {
	status := s.Code
	switch {
	case status == http.StatusTooManyRequests, status == statusOverloaded,
		status >= 500 && strings.Contains(s.Reason, "overloaded"):
		return corebot.RateLimited
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly,
		status >= 500:
		return corebot.Transient
	}
	return corebot.Permanent
}

// statusOverloaded is the status that Anthropic alone has.
const statusOverloaded = 529

// hasNoCredit knows OpenAI's codes, which other providers have taken over.
func hasNoCredit(s Status) bool {
	return strings.Contains(s.Reason, "insufficient_quota") || strings.Contains(s.Reason, "billing") ||
		s.Code == http.StatusPaymentRequired
}

// isFiltered knows the codes of OpenAI and Azure.
func isFiltered(s Status) bool {
	for _, code := range []string{"content_filter", "content_policy_violation", "responsible_ai"} {
		if strings.Contains(strings.ToLower(s.Reason), code) {
			return true
		}
	}
	return false
}

// saysTooLong goes by the code where there is one (OpenAI, llama.cpp), and by the words of those that refuse a request
// and have none for it: Anthropic, vLLM, Ollama. It is asked about refused requests only.
func saysTooLong(s Status) bool {
	said := strings.ToLower(s.Reason + " " + s.Message)
	for _, words := range []string{
		"context_length_exceeded", "exceed_context_size", "maximum context length", "context size", "context window",
		"context length", "prompt is too long",
	} {
		if strings.Contains(said, words) {
			return true
		}
	}
	return false
}

// maxExcerpt bounds what of a provider's text is shown, in bytes.
const maxExcerpt = 300

// Excerpt makes foreign text fit for one line of an error. An empty text becomes "(nothing)".
func Excerpt(s string) string { return cmp.Or(excerpt(s), "(nothing)") }

// excerpt cuts foreign text to one line of at most maxExcerpt bytes.
func excerpt(s string) string {
	s = oneLine(s)
	if len(s) > maxExcerpt {
		s = strings.ToValidUTF8(s[:maxExcerpt], "") + "…"
	}
	return s
}

// sentenceOf says in one sentence, for everybody in the chat, what a provider's status means. It names no account,
// address or key.
func sentenceOf(status int, v verdict) string {
	what := corebot.FaultProvider
	switch {
	case errors.Is(v.about, llm.ErrContextTooLong):
		what = corebot.FaultTooLong
	case errors.Is(v.about, llm.ErrRefused):
		what = corebot.FaultFiltered
	case errors.Is(v.about, llm.ErrNoModel):
		what = corebot.FaultNoModel
	case errors.Is(v.about, llm.ErrBadRequest):
		what = corebot.FaultBadRequest
	case status == http.StatusUnauthorized:
		what = corebot.FaultKeyRefused
	case status == http.StatusForbidden:
		what = corebot.FaultKeyForbidden
	case errors.Is(v.about, llm.ErrUnauthorized):
		what = corebot.FaultNoCredit
	case v.class == corebot.RateLimited && status != http.StatusTooManyRequests:
		what = corebot.FaultOverloaded
	case v.class == corebot.RateLimited:
		what = corebot.FaultRateLimited
	}
	return what.Say(status)
}

// wordsOf is what a provider said, as one line for admins in a chat; empty if the provider said nothing. A text that
// begins with "<" is a proxy's HTML page, not the provider's words, and is left out.
func wordsOf(message string) string {
	if strings.HasPrefix(strings.TrimSpace(message), "<") {
		return ""
	}
	return excerpt(message)
}

// oneLine makes one line of foreign text, and writes invisible characters as visible escapes.
func oneLine(s string) string {
	return corebot.Plainly(strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " "))
}

// shapes removes keys from a text by their look: a gateway can quote the key of the provider behind it.
var shapes = sync.OnceValue(func() *redact.Redactor {
	r, _ := redact.New(nil) // New refuses only secrets that are too short, and here are none
	return r
})

// MaxRetryAfter is the longest wait that a provider can ask for: a longer wish is cut to it.
const MaxRetryAfter = time.Hour

// retryAfter is the wait that a provider asks for in its headers: at most [MaxRetryAfter], and 0 for a header without a
// sense. Retry-After-Ms, which OpenAI and others also send, is the more exact header and counts first.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if d := waitOf(h.Get("Retry-After-Ms"), time.Millisecond); d > 0 {
		return d
	}
	common := h.Get("Retry-After")
	if d := waitOf(common, time.Second); d > 0 {
		return d
	}
	if at, err := http.ParseTime(strings.TrimSpace(common)); err == nil {
		return min(max(0, at.Sub(now)), MaxRetryAfter)
	}
	return 0
}

// waitOf reads a number of units, also with a fraction: at most [MaxRetryAfter], and 0 for anything else.
func waitOf(s string, unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	switch {
	case err != nil && n == 0, !(n > 0): // a number that is out of range is still one: infinity
		return 0
	case n >= float64(MaxRetryAfter/unit):
		return MaxRetryAfter
	}
	return time.Duration(n * float64(unit))
}
