package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/egress"
	"github.com/corebot/corebot/internal/redact"
)

// Shell is which programs the tool shell.exec may run.
type Shell struct {
	Enabled bool          `mapstructure:"enabled" doc:"let admins run programs"`
	Allow   List[string]  `mapstructure:"allow" doc:"which ones: names, looked up once at the start, or absolute paths; an empty list is none. A program may execute nothing but itself; one whose purpose that is, such as git, sh or python3, is refused unless it is written as unsafe:NAME, and then may start every program of the system. Behind a name, with spaces between, may stand what its arguments must be: each as it is; text* for all that begin so; * for one, ** at the end for any number, that are not empty and do not begin with -. Several such entries for one program: one of them must fit"`
	Timeout time.Duration `mapstructure:"timeout" min:"1s" doc:"how long a program may take; then it is killed with all that it started"`
}

func defaultShell() Shell { return Shell{Timeout: time.Minute} }

// Isolation is how the worker processes are kept in which programs run.
type Isolation struct {
	Tools      List[string] `mapstructure:"tools" oneof:"fs.edit,fs.list,fs.read,fs.write,web.fetch" doc:"which tools do their work in a worker process too, beside shell.exec, which always does; docs/isolation.md says what that costs"`
	MaxWorkers int          `mapstructure:"max_workers" min:"1" doc:"at once; further calls wait until their deadline"`
	UID        int          `mapstructure:"uid" min:"1" doc:"who programs run as, user and group, where Corebot is root; nothing else may belong to that user"`
	Readable   List[string] `mapstructure:"readable" doc:"directories that programs may read beside the system's, such as /opt/tools; never what holds the home"`
}

func defaultIsolation() Isolation { return Isolation{MaxWorkers: 4, UID: 65534} }

// Web is what the tools web.fetch and web.search may do.
type Web struct {
	AllowedDomains List[string]  `mapstructure:"allowed_domains" doc:"what may be fetched: a name is itself, *.example.com is every name below it, * is all; an empty list is nothing"`
	AllowedPorts   List[int]     `mapstructure:"allowed_ports" doc:"ports that may be fetched from; an empty list is none"`
	AllowPrivate   List[string]  `mapstructure:"allow_private" doc:"ranges of addresses that may be fetched from though they are not public, such as 10.1.2.0/24, or are public ones of this machine and the networks that it is on. Danger: whoever talks to Corebot, and every page that it reads, can have it fetch whatever answers there without a password"`
	Timeout        time.Duration `mapstructure:"timeout" min:"1ns" doc:"of one fetch or search, from the look-up of the name to the last byte, redirects included"`
	MaxBodyBytes   int64         `mapstructure:"max_body_bytes" min:"1" doc:"of one answer, before and after decompression; the rest is not read"`
	Search         string        `mapstructure:"search" oneof:"auto,brave,searxng" doc:"who answers web.search; auto is Brave if it has a key, else SearXNG if it has an address, else nobody, and there is no such tool"`
	BraveKey       Secret        `mapstructure:"brave_key" doc:"the key for the Brave Search API"`
	SearXNGURL     string        `mapstructure:"searxng_url" doc:"where a SearXNG is, such as http://127.0.0.1:8080, on any address and port; search.formats in its settings must have json"`
}

func defaultWeb() Web {
	return Web{
		AllowedDomains: NewList("*"), AllowedPorts: NewList(80, 443),
		Timeout: egress.DefaultTimeout, MaxBodyBytes: egress.DefaultMaxBody, Search: "auto",
	}
}

// Targets are what may be fetched. [Load] has checked that they can be read.
func (w Web) Targets() (egress.Targets, error) {
	t := egress.Targets{Domains: w.AllowedDomains.Values(), Ports: w.AllowedPorts.Values()}
	for _, text := range w.AllowPrivate.Values() {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return t, corebot.WithHint(fmt.Errorf("tools.web.allow_private has %q, which is no range of addresses",
				text), "write ranges such as 10.1.2.0/24, 192.168.1.7/32 or fd12::/16")
		}
		t.Private = append(t.Private, prefix)
	}
	if err := t.Check(); err != nil {
		return t, corebot.WithHint(fmt.Errorf("tools.web.allowed_domains, allowed_ports, allow_private: %w", err),
			"a domain is a name without scheme, port and path")
	}
	return t, nil
}

func (w Web) validate() error {
	if _, err := w.Targets(); err != nil {
		return err
	}
	u, err := url.Parse(w.SearXNGURL)
	switch {
	// not quoted: it may have a password in it
	case w.SearXNGURL != "" && (!isHTTP(w.SearXNGURL) || err != nil || u.User != nil || u.RawQuery != "" ||
		u.Fragment != ""):
		return corebot.WithHint(errors.New("tools.web.searxng_url is not the address of a SearXNG"),
			"it must be an http or https address without name, password and query, such as http://127.0.0.1:8080")
	// it could not be kept out of what is shown
	case w.BraveKey != (Secret{}) && len(w.BraveKey.Reveal()) < redact.MinSecret:
		return corebot.WithHint(fmt.Errorf("tools.web.brave_key has %d bytes, and the least is %d",
			len(w.BraveKey.Reveal()), redact.MinSecret),
			"it is longer: copy it whole from the dashboard of the Brave Search API")
	case w.Search == "brave" && w.BraveKey == (Secret{}):
		return corebot.WithHint(errors.New("tools.web.search is brave, and tools.web.brave_key is not set"),
			"set the key, or let tools.web.search be auto")
	case w.Search == "searxng" && w.SearXNGURL == "":
		return corebot.WithHint(errors.New("tools.web.search is searxng, and tools.web.searxng_url is not set"),
			"set the address, or let tools.web.search be auto")
	}
	return nil
}

// SearchEngine is who answers web.search: "brave", "searxng", or nobody.
func (w Web) SearchEngine() string {
	switch {
	case w.Search != "auto":
		return w.Search
	case w.BraveKey != (Secret{}):
		return "brave"
	case w.SearXNGURL != "":
		return "searxng"
	}
	return ""
}
