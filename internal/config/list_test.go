package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestAListIsReadFromFileAndEnvironment(t *testing.T) {
	for text, want := range map[string][]int{
		"[80, 8080]": {80, 8080}, "[]": {}, "80,8080": {80, 8080}, " 80 , 8080 ,": {80, 8080}, `["80"]`: {80},
		"80": {80},
	} {
		clean(t)
		t.Setenv("COREBOT_TOOLS_WEB_ALLOWED_PORTS", text)
		if got := load(t, t.TempDir()).Tools.Web.AllowedPorts.Values(); !slices.Equal(got, want) {
			t.Errorf("%q in the environment: got %v", text, got)
		}
	}
	clean(t)
	for content, want := range map[string][]string{
		"[example.com, '*.example.com']": {"example.com", "*.example.com"}, "[]": {}, "example.com": {"example.com"},
		"": {"*"},
	} {
		c := load(t, homeWith(t, "corebot.yaml", "tools: {web: {allowed_domains: "+content+"}}"))
		if got := c.Tools.Web.AllowedDomains.Values(); !slices.Equal(got, want) {
			t.Errorf("%q in the file: got %q", content, got)
		}
	}
}

func TestAListThatIsNoneIsRefused(t *testing.T) {
	clean(t)
	for content, says := range map[string]string{
		"allowed_domains: [1]":       "tools.web.allowed_domains is not a list of texts",
		"allowed_domains: [a.b, '']": "tools.web.allowed_domains is not a list of texts: text 2 is empty",
		"allowed_domains: {a: b}":    "tools.web.allowed_domains is not a list of texts",
		"allowed_domains: '[x'":      "tools.web.allowed_domains is not a list of texts",
		"allowed_ports: [http]":      "tools.web.allowed_ports is not a list of whole numbers",
		"allowed_ports: [80.5]":      "tools.web.allowed_ports is not a list of whole numbers",
		"allowed_ports: [80, [443]]": "tools.web.allowed_ports is not a list of whole numbers",
		"allowed_ports: 80":          "tools.web.allowed_ports is not a list of whole numbers",
		"allowed_ports: [0]":         "tools.web.allowed_domains, allowed_ports, allow_private: invalid: 0 is no port",
		"allowed_domains: ['a b']": "tools.web.allowed_domains, allowed_ports, allow_private: invalid: \"a b\" " +
			"is no domain",
		"allow_private: [10.0.0.1]":    "tools.web.allow_private has \"10.0.0.1\"",
		"allow_private: [intranet/24]": "tools.web.allow_private has \"intranet/24\"",
		"brave_key: abc":               "tools.web.brave_key has 3 bytes",
		"search: brave":                "tools.web.search is brave, and tools.web.brave_key is not set",
		"search: searxng":              "tools.web.search is searxng, and tools.web.searxng_url is not set",
		"searxng_url: 127.0.0.1:8080":  "tools.web.searxng_url is not the address",
		"searxng_url: http://a:b@c":    "tools.web.searxng_url is not the address",
		"searxng_url: 'http://c/?q=a'": "tools.web.searxng_url is not the address",
	} {
		_, err := Load(homeWith(t, "corebot.yaml", "tools: {web: {"+content+"}}"))
		if err == nil || !strings.Contains(err.Error(), says) || corebot.HintOf(err) == "" {
			t.Errorf("%s: got %v (hint %q), want %s", content, err, corebot.HintOf(err), says)
		}
	}
}

func TestTheSearchEngineIsBraveFirstUnlessAnotherIsNamed(t *testing.T) {
	key := NewSecret("0123456789abcdef")
	for _, c := range []struct {
		web  Web
		want string
	}{
		{Web{Search: "auto"}, ""},
		{Web{Search: "auto", BraveKey: key}, "brave"},
		{Web{Search: "auto", SearXNGURL: "http://s"}, "searxng"},
		{Web{Search: "auto", BraveKey: key, SearXNGURL: "http://s"}, "brave"},
		{Web{Search: "searxng", BraveKey: key, SearXNGURL: "http://s"}, "searxng"},
		{Web{Search: "auto", BraveKey: key, SearchTool: "mcp__kagi__search"}, "mcp"},
		{Web{Search: "brave", BraveKey: key, SearchTool: "mcp__kagi__search"}, "brave"},
	} {
		if got := c.web.SearchEngine(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.web, got, c.want)
		}
	}
}

func TestAListShowsItsValuesAndIsComparable(t *testing.T) {
	if a, b := NewList("x", "y"), NewList("x", "y"); a != b || a == NewList("y", "x") || fmt.Sprint(a) != `["x","y"]` {
		t.Errorf("%v and %v", a, b)
	}
	var none List[int]
	if fmt.Sprint(none) != "[]" || none.Values() == nil || len(none.Values()) != 0 || none != NewList[int]() {
		t.Errorf("the empty list is %v", none)
	}
}
