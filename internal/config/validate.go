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
	"github.com/corebot/corebot/internal/listen"
	"github.com/corebot/corebot/internal/signedpost"
)

// validate refuses settings that no part of Corebot could work with, and returns the first mistake. The tags check each
// setting by itself; validate checks several together.
func (c Config) validate() error {
	for _, l := range leaves() {
		if err := l.check(l.in(&c)); err != nil {
			return err
		}
	}
	return cmp.Or(c.LLM.validate(), c.validateAgents(), c.validateCompaction(), c.Bus.validate(), c.validateRetention(),
		c.validateSpending(), c.Channels.validate(), c.Admin.validate(), c.Webhook.validate(),
		c.Observability.validate(), c.Console.validate(), c.SLO.validate(), c.validateListeners(),
		c.Tools.Web.validate(), c.Tools.Shell.validate(), c.MCP.validate(), c.Audit.validate(), c.validateMCPServe())
}

func (l LLM) validate() error {
	if l.BaseURL != "" && !isHTTP(l.BaseURL) { // not quoted: an address may have a password in it
		return corebot.WithHint(errors.New("llm.base_url is not an address"),
			"it must be an http or https address, such as http://127.0.0.1:11434/v1")
	}
	if l.ContextTokens > 0 && l.ContextTokens <= l.OutputTokens {
		return corebot.WithHint(fmt.Errorf("llm.context_tokens is %d and llm.output_tokens is %d", l.ContextTokens,
			l.OutputTokens), "the context holds the output too: it must be larger")
	}
	return nil
}

// validateCompaction: what is kept must not be due for a summary at once. With a context that is not set, that is
// checked when the model is known.
func (c Config) validateCompaction() error {
	prompt, used := c.LLM.ContextTokens-c.LLM.OutputTokens, c.Agent.CompactionReserve+c.Agent.CompactionKeep
	if c.LLM.ContextTokens > 0 && used >= prompt {
		return corebot.WithHint(fmt.Errorf("agent.compaction_reserve_tokens and agent.compaction_keep_tokens are %d "+
			"together, and a prompt has %d", used, prompt),
			"together they must be less than llm.context_tokens without llm.output_tokens")
	}
	return nil
}

func (a Audit) validate() error {
	if a.URL != "" && !isHTTP(a.URL) { // not quoted: an address may have a password in it
		return corebot.WithHint(errors.New("audit.url is not an address"),
			"it must be an http or https address, such as https://example.com/heads")
	}
	return nil
}

func (b Bus) validate() error { return atLeast("bus.backoff_max", b.BackoffMax, b.BackoffBase) }

// usageLooksBack is how far back /usage tells of.
const usageLooksBack = 30 * 24 * time.Hour

// countTime is how long a message must be kept after its time is over, so that its objective counts it: two looks.
const countTime = 2 * time.Minute

// validateRetention: a message whose life was forgotten would be run again when its sender repeats it.
func (c Config) validateRetention() error {
	if kept, known := c.Retention.Messages, c.Bus.DedupeTTL; kept > 0 && kept < known {
		return corebot.WithHint(fmt.Errorf("retention.messages is %v and bus.dedupe_ttl is %v", durationText(kept),
			durationText(known)),
			"an id is known as long as its message is kept: retention.messages must be at least bus.dedupe_ttl, or 0s")
	}
	for _, o := range []struct {
		key    string
		share  Number
		within time.Duration
	}{
		{"slo.answered", c.SLO.Answered, c.SLO.AnsweredWithin},
		{"slo.delivered", c.SLO.Delivered, c.SLO.DeliveredWithin},
	} {
		share, _ := o.share.Value()
		if kept := c.Retention.Messages; share > 0 && kept > 0 && kept < o.within+countTime {
			return corebot.WithHint(fmt.Errorf("retention.messages is %v and %s_within is %v", durationText(kept),
				o.key, durationText(o.within)),
				fmt.Sprintf("answers in time would be deleted before they are counted: retention.messages must be "+
					"longer by %v, or %s must be 0", durationText(countTime), o.key))
		}
	}
	if kept := c.Retention.Usage; kept > 0 && kept < usageLooksBack {
		return corebot.WithHint(fmt.Errorf("retention.usage is %v", durationText(kept)),
			"/usage looks back 30 days: it must be at least 720h, or 0s")
	}
	return nil
}

func (a Admin) validate() error {
	if key := a.BootstrapKey.Reveal(); key != "" && len(key) < minCredential {
		return corebot.WithHint(fmt.Errorf("admin.bootstrap_key has %d bytes, and the least is %d", len(key),
			minCredential), makeToken)
	}
	if a.Chat == "" {
		return nil
	}
	if _, err := corebot.ParseKey(a.Chat); err != nil {
		return corebot.WithHint(fmt.Errorf("admin.chat: %w", err),
			"`corebot chats list` shows the keys of chats, such as main:webhook::ops")
	}
	return nil
}

// validate: whoever is not on this machine needs a token.
func (o Observability) validate() error {
	if !o.Enabled {
		return nil
	}
	if err := isListener("observability.addr", o.Addr, "127.0.0.1:3210"); err != nil {
		return err
	}
	if err := listen.CheckNames(o.AllowedHosts.Values()); err != nil {
		return fmt.Errorf("observability: %w", err)
	}
	if host, _, _ := net.SplitHostPort(o.Addr); !IsLoopback(host) && o.Token == (Secret{}) {
		return corebot.WithHint(fmt.Errorf(
			"observability.addr %s can be reached from other machines, and observability.token is not set", o.Addr),
			"set the token, or listen on 127.0.0.1")
	}
	return nil
}

// validate: tokens must not go over a network in the clear, so from elsewhere there is a proxy with TLS in between, and
// its name is known.
func (o Console) validate() error {
	if !o.Enabled {
		return nil
	}
	if err := isListener("console.addr", o.Addr, "127.0.0.1:3211"); err != nil {
		return err
	}
	if err := listen.CheckNames(o.AllowedHosts.Values()); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	if host, _, _ := net.SplitHostPort(o.Addr); !IsLoopback(host) && len(o.AllowedHosts.Values()) == 0 {
		return corebot.WithHint(fmt.Errorf(
			"console.addr %s can be reached from other machines, and console.allowed_hosts names no proxy", o.Addr),
			"listen on 127.0.0.1, or put a proxy with TLS in front and name it in console.allowed_hosts")
	}
	return nil
}

func (s SLO) validate() error {
	for _, of := range []struct {
		key   string
		share Number
	}{
		{"slo.accepted", s.Accepted},
		{"slo.answered", s.Answered},
		{"slo.delivered", s.Delivered},
		{"slo.tasks", s.Tasks},
	} {
		if v, set := of.share.Value(); set && v != 0 && (v < corebot.MinShare || v > corebot.MaxShare) {
			return corebot.WithHint(fmt.Errorf("%s is %s", of.key, of.share),
				fmt.Sprintf("it must be a share from %v to %v, or 0 to watch nothing", corebot.MinShare,
					corebot.MaxShare))
		}
	}
	return signedTo("slo.webhook_url", s.WebhookURL, "https://example.com/alarms", "slo.webhook_secret",
		s.WebhookSecret)
}

// signedTo refuses an address of signed posts that is none or that has no secret to sign with. Empty: there is none.
func signedTo(key, address, like, secretKey string, secret Secret) error {
	switch {
	case address == "":
		return nil
	case !isHTTP(address): // not quoted: an address may have a password in it
		return corebot.WithHint(fmt.Errorf("%s is not an address", key),
			"it must be an http or https address, such as "+like)
	case secret == (Secret{}):
		return corebot.WithHint(fmt.Errorf("%s is set, and %s is not", key, secretKey),
			fmt.Sprintf("set %s; %s", secretKey, makeSecret))
	}
	_, err := signedpost.ParseKey(secretKey, secret.Reveal())
	return err
}

// isListener refuses what is not host:port, with a port that there is.
func isListener(key, addr, like string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return corebot.WithHint(fmt.Errorf("%s: %w", key, err), "it must be like "+like)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return corebot.WithHint(fmt.Errorf("%s is %q, and there is no port %q", key, addr, port),
			"ports are 1 to 65535, and 0 picks a free one")
	}
	return nil
}

// validateListeners refuses one port for two listeners: the second would fail at the start.
func (c Config) validateListeners() error {
	all := []struct {
		key, addr string
		enabled   bool
	}{
		{"webhook.addr", c.Webhook.Addr, c.Webhook.Enabled},
		{"observability.addr", c.Observability.Addr, c.Observability.Enabled},
		// nobody asked for it: it gives way at the start
		{"console.addr", c.Console.Addr, c.Console.Enabled && c.ConsoleAsked},
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.enabled && b.enabled && overlap(a.addr, b.addr) {
				return corebot.WithHint(fmt.Errorf("%s is %s and %s is %s: two listeners on one port", a.key, a.addr,
					b.key, b.addr), "give each a port of its own")
			}
		}
	}
	return nil
}

// overlap says whether two listeners want the same port of the same address. Without a host, or with 0.0.0.0 or [::], a
// listener has all addresses.
func overlap(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	numberA, _ := net.LookupPort("tcp", portA)
	numberB, _ := net.LookupPort("tcp", portB)
	if numberA != numberB || numberA == 0 {
		return false
	}
	return isEvery(hostA) || isEvery(hostB) || plainHost(hostA) == plainHost(hostB)
}

func isEvery(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// plainHost is a host by one of its names.
func plainHost(host string) string {
	if host = strings.ToLower(host); host == "localhost" {
		return "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return host
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
	words := slices.DeleteFunc(slices.Clone(want), func(word string) bool { return word == "" })
	hint := "it must be one of: " + strings.Join(words, ", ")
	if len(words) < len(want) {
		hint += "; or leave it out"
	}
	return corebot.WithHint(fmt.Errorf("%s is %q", key, got), hint)
}

// IsLoopback says whether only this machine reaches a host of the settings.
func IsLoopback(host string) bool {
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
