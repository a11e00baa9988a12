package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"

	"github.com/corebot/corebot"
)

// validate refuses settings that no part of Corebot could work with.
func (c Config) validate() error {
	for _, check := range []struct {
		ok        bool
		key, want string
	}{
		{slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level), "log.level", "debug, info, warn or error"},
		{slices.Contains([]string{"auto", "json", "pretty"}, c.Log.Format), "log.format", "auto, json or pretty"},
		{slices.Contains([]string{"resend", "hold"}, c.Channels.OnAmbiguous), "channels.on_ambiguous", "resend or hold"},
		{c.LLM.BaseURL == "" || isHTTP(c.LLM.BaseURL), "llm.base_url", "an http or https address, such as http://127.0.0.1:11434/v1"},
		{c.LLM.ContextTokens > c.LLM.OutputTokens && c.LLM.OutputTokens > 0, "llm.context_tokens", "more than llm.output_tokens, and that more than 0"},
		{c.LLM.Timeout > 0 && c.LLM.FirstByteTimeout > 0 && c.LLM.IdleTimeout > 0, "llm.timeout", "timeouts over 0"},
		{c.Agent.MaxToolIterations > 0, "agent.max_tool_iterations", "at least 1"},
		{c.Agent.MaxTime > 0, "agent.max_time", "over 0"},
		{c.Bus.Lease.Seconds() >= 1, "bus.lease", "at least 1s"},
		{c.Bus.MaxAttempts > 0, "bus.max_attempts", "at least 1"},
		{c.Bus.BackoffBase > 0 && c.Bus.BackoffMax >= c.Bus.BackoffBase, "bus.backoff_base", "over 0 and at most bus.backoff_max"},
		{c.Bus.Drain >= 0, "bus.drain", "at least 0s"},
		{c.Bus.MaxMessageBytes > 0, "bus.max_message_bytes", "at least 1"},
		{c.Bus.LaneDepth > 0 && c.Bus.TotalDepth > 0 && c.Bus.TotalBytes > 0, "bus.lane_depth", "caps of at least 1"},
		{c.Router.Workers > 0, "router.workers", "at least 1"},
		{c.Tools.Timeout > 0, "tools.timeout", "over 0"},
		{c.Tools.MaxOutputBytes > 0, "tools.max_output_bytes", "at least 1"},
	} {
		if !check.ok {
			return corebot.WithHint(fmt.Errorf("%s is not usable", check.key), "it must be "+check.want)
		}
	}
	return c.checkListener()
}

// checkListener: whoever is not on this machine needs a token.
func (c Config) checkListener() error {
	if !c.Observability.Enabled {
		return nil
	}
	host, _, err := net.SplitHostPort(c.Observability.Addr)
	if err != nil {
		return corebot.WithHint(fmt.Errorf("observability.addr: %w", err), "it must be like 127.0.0.1:3210")
	}
	if !isLoopback(host) && c.Observability.Token == "" {
		return corebot.WithHint(fmt.Errorf("observability.addr %s can be reached from other machines, and observability.token is not set", c.Observability.Addr),
			"set the token, or listen on 127.0.0.1")
	}
	return nil
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
