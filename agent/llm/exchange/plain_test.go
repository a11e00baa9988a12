package exchange

import (
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func failureOf(t *testing.T, err error, s Status) (*corebot.Failure, corebot.Explanation) {
	t.Helper()
	e, invalid := New("http://secret-host.test/v1", Options{Model: "m", APIKey: "key-of-this-test-1234"})
	if invalid != nil {
		t.Fatal(invalid)
	}
	f := e.Failure(err, s)
	return f, corebot.ExplanationOf(f)
}

func TestWhatAStatusMeansIsASentenceForAnybody(t *testing.T) {
	for _, c := range []struct {
		status Status
		class  corebot.Class
		plain  string
	}{
		{Status{Code: 401}, corebot.Permanent, "The model provider refused the API key (401)."},
		{Status{Code: 403}, corebot.Permanent, "The model provider does not let the API key use the model (403)."},
		{Status{Code: 402}, corebot.Permanent, "The account at the model provider has no credit left (402)."},
		{
			Status{Code: 429, Reason: "insufficient_quota"},
			corebot.Permanent,
			"The account at the model provider has no credit left (429).",
		},
		{Status{Code: 429}, corebot.RateLimited, "The model provider limits how often it can be asked (429)."},
		{Status{Code: 529}, corebot.RateLimited, "The model provider is overloaded (529)."},
		{Status{Code: 503, Reason: "overloaded_error"}, corebot.RateLimited, "The model provider is overloaded (503)."},
		{Status{Code: 503}, corebot.Transient, "The model provider failed (503)."},
		{Status{Code: 404}, corebot.Permanent, "The model provider does not have the model (404)."},
		{Status{Code: 400}, corebot.Permanent, "The model provider did not accept the request (400)."},
		{
			Status{Code: 413},
			corebot.Permanent,
			"The message, with what belongs to it, is too long for the model (413).",
		},
		{
			Status{Code: 400, Reason: "content_filter"},
			corebot.Permanent,
			"The model provider's content filter stopped the message (400).",
		},
	} {
		c.status.Message = "account org-17 of bob@example.org"
		f, e := failureOf(t, errors.New("x"), c.status)
		if f.Class != c.class || e.Plain != c.plain || e.Words != c.status.Message {
			t.Errorf("%+v: %v, %q, %q", c.status, f.Class, e.Plain, e.Words)
		}
	}
}

func TestEveryFailureHasASentenceThatNamesNoSecretAndNoAddress(t *testing.T) {
	for _, err := range []error{
		ErrBrokenOff, ErrEmpty, ErrGarbled, ErrTooLong, ErrNoRoom, ErrFiltered, ErrRefusal,
		&timeoutError{what: "silence"}, &oddAnswer{what: "a page"}, &BodyError{},
	} {
		if _, e := failureOf(t, err, Status{}); !strings.HasSuffix(e.Plain, ".") ||
			strings.Contains(e.Plain, "secret-host") {
			t.Errorf("%v: %q", err, e.Plain)
		}
	}
}

func TestTheWordsOfAProviderAreOneBoundedLineWithoutSecrets(t *testing.T) {
	for said, want := range map[string]string{
		"Incorrect API key provided: key-of-this-test-1234.":  "Incorrect API key provided: ***.",
		"upstream refused sk-proj-abcdefghijklmnopqrstuvwxyz": "upstream refused [redacted]",
		"two\nlines\x1b[2J and \u202ereversed":                `two lines\u001b[2J and \u202ereversed`,
		"<html><body>Bad gateway</body></html>":               "",
		strings.Repeat("é", 400):                              strings.Repeat("é", 150) + "…",
	} {
		if _, e := failureOf(t, errors.New("x"), Status{Code: 401, Message: said}); e.Words != want {
			t.Errorf("%q: %q", said, e.Words)
		}
	}
}
