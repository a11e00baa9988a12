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

// validate refuses settings that no part of Corebot could work with; the error is of the first one.
func (c Config) validate() error {
	return cmp.Or(
		c.LLM.validate(),
		atLeast("agent.max_tool_iterations", c.Agent.MaxToolIterations, 1),
		atLeast("agent.max_time", c.Agent.MaxTime, 1),
		c.Bus.validate(),
		atLeast("router.workers", c.Router.Workers, 1),
		atLeast("tools.timeout", c.Tools.Timeout, 1),
		atLeast("tools.max_output_bytes", c.Tools.MaxOutputBytes, 1),
		oneOf("channels.on_ambiguous", c.Channels.OnAmbiguous, "resend", "hold"),
		oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error"),
		oneOf("log.format", c.Log.Format, "auto", "json", "pretty"),
		c.Observability.validate(),
	)
}

func (l LLM) validate() error {
	if l.BaseURL != "" && !isHTTP(l.BaseURL) { // not quoted: an address may have a password in it
		return corebot.WithHint(errors.New("llm.base_url is not an address"), "it must be an http or https address, such as http://127.0.0.1:11434/v1")
	}
	if l.ContextTokens <= l.OutputTokens {
		return corebot.WithHint(fmt.Errorf("llm.context_tokens is %d and llm.output_tokens is %d", l.ContextTokens, l.OutputTokens), "the context holds the output too: it must be larger")
	}
	return cmp.Or(
		atLeast("llm.output_tokens", l.OutputTokens, 1),
		atLeast("llm.timeout", l.Timeout, 1),
		atLeast("llm.first_byte_timeout", l.FirstByteTimeout, 1),
		atLeast("llm.idle_timeout", l.IdleTimeout, 1),
	)
}

func (b Bus) validate() error {
	return cmp.Or(
		atLeast("bus.lease", b.Lease, time.Second),
		atLeast("bus.max_attempts", b.MaxAttempts, 1),
		atLeast("bus.backoff_base", b.BackoffBase, 1),
		atLeast("bus.backoff_max", b.BackoffMax, b.BackoffBase),
		atLeast("bus.drain", b.Drain, 0),
		atLeast("bus.max_message_bytes", b.MaxMessageBytes, 1),
		atLeast("bus.lane_depth", b.LaneDepth, 1),
		atLeast("bus.total_depth", b.TotalDepth, 1),
		atLeast("bus.total_bytes", b.TotalBytes, 1),
	)
}

// validate: whoever is not on this machine needs a token.
func (o Observability) validate() error {
	if !o.Enabled {
		return nil
	}
	host, _, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return corebot.WithHint(fmt.Errorf("observability.addr: %w", err), "it must be like 127.0.0.1:3210")
	}
	if !isLoopback(host) && o.Token == "" {
		return corebot.WithHint(fmt.Errorf("observability.addr %s can be reached from other machines, and observability.token is not set", o.Addr),
			"set the token, or listen on 127.0.0.1")
	}
	return nil
}

func atLeast[T int | int64 | time.Duration](key string, got, least T) error {
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
