package exchange

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/redact"
)

// Options of a model at a provider. Zero values take the defaults that are named.
type Options struct {
	// its name in the list of providers, for errors and hints; empty for the only one
	Provider string
	Section  string // of the settings that have the endpoint, for hints; empty: llm, or the provider's entry
	Model    string // required: the provider's id of the model
	APIKey   string // empty for servers that want none
	// sent with every request, over those that the API itself needs; values are kept as secret as the key
	Header           map[string]string
	FirstByteTimeout time.Duration     // from the request to the first byte of the answer's body; 60 s
	IdleTimeout      time.Duration     // between two pieces of the answer, keep-alives included; 60 s
	Timeout          time.Duration     // of the whole call; 10 min
	MaxAnswerBytes   int               // text, thinking and arguments of one answer; 1 MiB
	Tokenizer        llm.Tokenizer     // counts usage that the provider does not report; [llm.Estimate]
	Vision           bool              // the model takes images; others are described to it in words
	Blobs            llm.Blobs         // where images and files are; nil: they are described in words
	Transport        http.RoundTripper // instead of the built-in one, for tests
}

// Endpoint is where one model answers. It is safe for concurrent use.
type Endpoint struct {
	BaseURL string // without a slash at its end
	Options
	client  *http.Client
	secrets []string
	readers sync.Pool // *bufio.Reader of answers that have been read
}

// New checks the settings without talking to anybody. It refuses a base URL that is not plain http or https, a key or a
// header that could not be sent, and an empty model. The error is [corebot.ErrInvalid] and quotes no secret.
func New(baseURL string, o Options) (*Endpoint, error) {
	e := &Endpoint{BaseURL: strings.TrimRight(baseURL, "/"), Options: o.withDefaults()}
	if err := e.validate(baseURL); err != nil {
		return nil, err
	}
	e.client = &http.Client{
		Transport:     e.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	e.secrets = secretsOf(o)
	return e, nil
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&o.FirstByteTimeout, time.Minute}, {&o.IdleTimeout, time.Minute}, {&o.Timeout, 10 * time.Minute}} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	if o.MaxAnswerBytes <= 0 {
		o.MaxAnswerBytes = 1 << 20
	}
	if o.Tokenizer == nil {
		o.Tokenizer = llm.Estimate{}
	}
	if o.Transport == nil {
		o.Transport = NewTransport()
	}
	return o
}

func (e *Endpoint) validate(baseURL string) error {
	if err := validateBaseURL(baseURL); err != nil {
		return corebot.WithHint(fmt.Errorf("%w: the base URL of the model %w", corebot.ErrInvalid, err),
			"set "+e.Setting("base_url")+" to something like https://api.openai.com/v1")
	}
	if e.Model == "" {
		return corebot.WithHint(fmt.Errorf("%w: no model is named", corebot.ErrInvalid), "set "+e.Setting("model"))
	}
	if strings.ContainsFunc(e.APIKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return corebot.WithHint(fmt.Errorf(
			"%w: the API key has a space, a line break or another character that no key has", corebot.ErrInvalid),
			"check "+e.Setting("api_key"))
	}
	for name, value := range e.Header {
		if !canBeSent(name, value) {
			return corebot.WithHint(fmt.Errorf("%w: the header %q cannot be sent", corebot.ErrInvalid, name),
				"check "+e.Setting("headers"))
		}
	}
	return nil
}

// validateBaseURL never quotes the URL: what is wrong with it may be that it has a password inside.
func validateBaseURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("does not begin with http:// or https://")
	case u.Host == "":
		return errors.New("names no host")
	case u.User != nil:
		return errors.New("has a user or password in it")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("has a query or fragment")
	}
	return nil
}

// canBeSent: a header's name is a token of RFC 9110, its value visible ASCII with spaces inside.
func canBeSent(name, value string) bool {
	notToken := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r) }
	notText := func(r rune) bool { return r < ' ' || r >= 0x7f }
	return name != "" && !strings.ContainsFunc(name, notToken) && !strings.ContainsFunc(value, notText)
}

// Setting names a setting of this endpoint as an operator finds it. The only provider has settings of its own, and
// variables that every program knows; one of a list is found by its name.
func (e *Endpoint) Setting(key string) string {
	if e.Section != "" {
		return e.Section + "." + key
	}
	if e.Provider != "" {
		if key == "model" {
			key = "models"
		}
		return fmt.Sprintf("%s of %s in llm.providers", key, e.Provider)
	}
	switch key {
	case "base_url", "api_key", "model":
		return "llm." + key + " or OPENAI_" + strings.ToUpper(key)
	}
	return "llm." + key
}

// Limit gives a call its whole time. stop must be called.
func (e *Endpoint) Limit(ctx context.Context) (limited context.Context, stop context.CancelFunc) {
	return context.WithTimeoutCause(ctx, e.Timeout, &timeoutError{
		what: "no whole answer", after: e.Timeout,
		setting: "timeout",
	})
}

// Close drops idle connections. Calls that run are not disturbed.
func (e *Endpoint) Close() { e.client.CloseIdleConnections() }

func secretsOf(o Options) []string {
	var secrets []string
	if o.APIKey != "" {
		secrets = append(secrets, o.APIKey)
	}
	for _, value := range o.Header {
		secrets = append(secrets, redact.OfHeader(value)...)
	}
	return secrets
}

// Clean takes the key, the headers and what looks like a key out of text that others wrote; providers like to repeat
// the key that they refuse.
func (e *Endpoint) Clean(s string) string {
	for _, secret := range e.secrets {
		s = strings.ReplaceAll(s, secret, "***")
	}
	return shapes().Text(s)
}

// NewTransport keeps as many connections to its one host as turns may run at once. With net/http's default of two, most
// calls would pay for a TLS handshake. Compression is off because a compressed stream comes in lumps. Proxies of the
// environment are not used: the key goes to the configured host and nowhere else.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
		// most requests go out in one write; copied past a smaller buffer, each would allocate one of its own size
		WriteBufferSize: 32 << 10,
	}
}
