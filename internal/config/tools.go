package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/egress"
	"github.com/corebot/corebot/internal/redact"
)

// Shell is which programs the tool shell.exec may run, and where.
type Shell struct {
	Mode    string        `mapstructure:"mode" oneof:",off,sandbox,host"`
	Domains List[string]  `mapstructure:"domains"`
	Enabled bool          `mapstructure:"enabled"`
	Allow   List[string]  `mapstructure:"allow"`
	Timeout time.Duration `mapstructure:"timeout" min:"1s"`

	BackgroundPerChat int           `mapstructure:"background_per_chat" min:"0"`
	BackgroundTotal   int           `mapstructure:"background_total" min:"0"`
	BackgroundLife    time.Duration `mapstructure:"background_life" min:"1s"`
}

func defaultShell() Shell {
	return Shell{
		Timeout: time.Minute, BackgroundPerChat: 4, BackgroundTotal: 16, BackgroundLife: time.Hour,
	}
}

// What [Shell.Runs] says.
const (
	ShellOff     = "off"
	ShellSandbox = "sandbox"
	ShellHost    = "host"   // programs of the list, each call with an approval
	ShellListed  = "listed" // the older switch: programs of the list, as the approvals of all tools are
)

// Runs says how programs run. The mode decides, where it is set; else the older switch does.
func (s Shell) Runs() string {
	switch {
	case s.Mode != "":
		return s.Mode
	case s.Enabled:
		return ShellListed
	}
	return ShellOff
}

// Targets are where programs in a sandbox may go. [Load] has checked that they can be read.
func (s Shell) Targets() egress.Targets {
	return egress.Targets{Domains: s.Domains.Values(), Ports: []int{80, 443}}
}

func (s Shell) validate() error {
	if err := s.Targets().Check(); err != nil {
		return corebot.WithHint(fmt.Errorf("tools.shell.domains: %w", err),
			"a domain is a name without scheme, port and path")
	}
	return nil
}

// Modes of an [OpenRoot].
const (
	RootRead  = "read"
	RootWrite = "write"
)

// OpenRoot is one entry of tools.roots: a directory that tools reach beside the workspace.
type OpenRoot struct {
	Path string `mapstructure:"path"`
	Mode string `mapstructure:"mode" oneof:"read,write"`
}

// standard implements [entry].
func (OpenRoot) standard() OpenRoot { return OpenRoot{Mode: RootRead} }

// validate implements [entry]. The meaning of a path is decided where directories are opened.
func (r OpenRoot) validate(where string) error {
	if !strings.HasPrefix(r.Path, "/") && r.Path != "~" && !strings.HasPrefix(r.Path, "~/") {
		return corebot.WithHint(fmt.Errorf("%s.path is %q, which is no absolute path", where, r.Path),
			"write the whole path, such as /home/me/project or ~/project")
	}
	return nil
}

// Isolation is how the worker processes are kept in which programs run.
type Isolation struct {
	Tools      List[string] `mapstructure:"tools" oneof:"fs.edit,fs.list,fs.read,fs.write,web.fetch"`
	MaxWorkers int          `mapstructure:"max_workers" min:"1"`
	UID        int          `mapstructure:"uid" min:"1"`
	Readable   List[string] `mapstructure:"readable"`
}

func defaultIsolation() Isolation { return Isolation{MaxWorkers: 4, UID: 65534} }

// Web is what the tools web.fetch and web.search may do.
type Web struct {
	AllowedDomains List[string]  `mapstructure:"allowed_domains"`
	AllowedPorts   List[int]     `mapstructure:"allowed_ports"`
	AllowPrivate   List[string]  `mapstructure:"allow_private"`
	Timeout        time.Duration `mapstructure:"timeout" min:"1ns"`
	MaxBodyBytes   int64         `mapstructure:"max_body_bytes" min:"1"`
	Search         string        `mapstructure:"search" oneof:"auto,brave,searxng,mcp"`
	BraveKey       Secret        `mapstructure:"brave_key"`
	SearXNGURL     string        `mapstructure:"searxng_url"`
	SearchTool     string        `mapstructure:"search_tool"`
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
	case w.SearchTool != "" && (!strings.HasPrefix(w.SearchTool, "mcp__") || strings.Count(w.SearchTool, "__") < 2):
		return corebot.WithHint(fmt.Errorf("tools.web.search_tool %q is not the name of a tool of an MCP server",
			w.SearchTool), "write it as `corebot mcp list` does, such as mcp__kagi__search")
	case w.Search == "mcp" && w.SearchTool == "":
		return corebot.WithHint(errors.New("tools.web.search is mcp, and tools.web.search_tool is not set"),
			"name the tool, or let tools.web.search be auto")
	case w.Search == "searxng" && w.SearXNGURL == "":
		return corebot.WithHint(errors.New("tools.web.search is searxng, and tools.web.searxng_url is not set"),
			"set the address, or let tools.web.search be auto")
	}
	return nil
}

// SearchEngine is who answers web.search: "mcp", "brave", "searxng", or nobody.
func (w Web) SearchEngine() string {
	switch {
	case w.Search != "auto":
		return w.Search
	case w.SearchTool != "":
		return "mcp"
	case w.BraveKey != (Secret{}):
		return "brave"
	case w.SearXNGURL != "":
		return "searxng"
	}
	return ""
}
