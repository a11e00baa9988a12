package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// validate refuses settings that no part of Corebot could work with; the error is of the first one. What concerns a single setting is in
// its tags; here is what concerns several.
func (c Config) validate() error {
	for _, l := range leaves() {
		if err := l.check(l.in(c)); err != nil {
			return err
		}
	}
	return cmp.Or(c.LLM.validate(), c.Bus.validate(), c.Webhook.validate(), c.Observability.validate())
}

func (l LLM) validate() error {
	if l.BaseURL != "" && !isHTTP(l.BaseURL) { // not quoted: an address may have a password in it
		return corebot.WithHint(errors.New("llm.base_url is not an address"), "it must be an http or https address, such as http://127.0.0.1:11434/v1")
	}
	if l.ContextTokens <= l.OutputTokens {
		return corebot.WithHint(fmt.Errorf("llm.context_tokens is %d and llm.output_tokens is %d", l.ContextTokens, l.OutputTokens), "the context holds the output too: it must be larger")
	}
	return nil
}

func (b Bus) validate() error { return atLeast("bus.backoff_max", b.BackoffMax, b.BackoffBase) }

// validate: whoever is not on this machine needs a token.
func (o Observability) validate() error {
	if !o.Enabled {
		return nil
	}
	if err := isListener("observability.addr", o.Addr, "127.0.0.1:3210"); err != nil {
		return err
	}
	if host, _, _ := net.SplitHostPort(o.Addr); !isLoopback(host) && o.Token == (Secret{}) {
		return corebot.WithHint(fmt.Errorf("observability.addr %s can be reached from other machines, and observability.token is not set", o.Addr),
			"set the token, or listen on 127.0.0.1")
	}
	return nil
}

// isListener refuses what is not host:port.
func isListener(key, addr, like string) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return corebot.WithHint(fmt.Errorf("%s: %w", key, err), "it must be like "+like)
	}
	return nil
}

func atLeast[T int64 | time.Duration](key string, got, least T) error {
	if got >= least {
		return nil
	}
	want := fmt.Sprintf("at least %v", least)
	if _, is := any(least).(time.Duration); is && least == 1 {
		want = "over 0s" // a nanosecond is nobody's limit
	}
	return corebot.WithHint(fmt.Errorf("%s is %v", key, got), "it must be "+want)
}

func oneOf(key, got string, want ...string) error {
	if slices.Contains(want, got) {
		return nil
	}
	return corebot.WithHint(fmt.Errorf("%s is %q", key, got), "it must be one of: "+strings.Join(want, ", "))
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func isHTTP(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
