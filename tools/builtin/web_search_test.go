package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/egress"
	"github.com/corebot/corebot/tools/builtin"
)

const braveKey = "brave-key-0123456789"

// brave is the search tool in front of a server that stands for Brave's.
func brave(t *testing.T, handler http.HandlerFunc) *toolBox {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	client, err := egress.New(egress.Targets{
		Domains: []string{"127.0.0.1"}, Ports: []int{s.Listener.Addr().(*net.TCPAddr).Port},
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}, egress.Options{Timeout: webTime})
	must(t, err)
	return &toolBox{t, builtin.NewBraveAt(s.URL+"/res/v1/web/search", braveKey, client)}
}

// searxng is the search tool in front of a server that stands for a SearXNG.
func searxng(t *testing.T, handler http.HandlerFunc) *toolBox {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	engine, err := builtin.NewSearXNG(s.URL+"/searx/", egress.Options{Timeout: webTime, Redirects: 5})
	must(t, err)
	return &toolBox{t, engine}
}

type toolBox struct {
	*testing.T
	engine builtin.SearchEngine
}

func (b *toolBox) search(args string) corebot.ToolResult {
	b.Helper()
	return use(b.T, webBox(b.T, builtin.WebSearch(b.engine, webTime)), step{}, "web.search", args)
}

func TestBraveIsAskedAndItsResultsAreListed(t *testing.T) {
	var asked *http.Request
	b := brave(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r
		answer("application/json", `{"type":"search","web":{"results":[
			{"title":"Bees &amp; <strong>wasps</strong>","url":"https://example.com/bees",
"description":"All about\n<b>bees</b>.","age":"2 days ago"},
			{"title":"","url":"https://example.org/","description":"","page_age":"2026-01-02T03:04:05"}]}}`)(w, r)
	})
	want := "1. Bees & wasps\n   https://example.com/bees\n   All about bees.\n   age: 2 days ago\n\n2. (no title)\n " +
		"  https://example.org/\n   age: 2026-01-02T03:04:05\n"
	if r := b.search(`{"query":" bees & wasps ","count":7}`); r.Outcome != corebot.OutcomeSuccess || r.Content != want {
		t.Errorf("got  %q\nwant %q", r.Content, want)
	}
	if q := asked.URL.Query(); asked.URL.Path != "/res/v1/web/search" || q.Get("q") != "bees & wasps" ||
		q.Get("count") != "7" || asked.Header.Get("X-Subscription-Token") != braveKey {
		t.Errorf("asked for %s with %v", asked.URL, asked.Header)
	}
}

func TestASearXNGIsAskedAndItsResultsAreListed(t *testing.T) {
	var asked *http.Request
	b := searxng(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r
		var results []map[string]any
		for i := range 30 {
			results = append(results, map[string]any{
				"title": fmt.Sprint("page ", i),
				"url":   fmt.Sprint("https://example.com/", i), "content": strings.Repeat("ü", 400),
				"publishedDate": nil,
			})
		}
		body, err := json.Marshal(map[string]any{"query": "x", "results": results})
		must(t, err)
		answer("application/json", string(body))(w, r)
	})
	for args, count := range map[string]int{
		`{"query":"x"}`: 5, `{"query":"x","count":1}`: 1,
		`{"query":"x","count":500}`: 20,
	} {
		r := b.search(args)
		if r.Outcome != corebot.OutcomeSuccess || strings.Count(r.Content, "https://example.com/") != count ||
			strings.Contains(r.Content, "age:") || !strings.Contains(r.Content, "…") {
			t.Errorf("%s: %s %.300q", args, r.Outcome, r.Content)
		}
	}
	if asked.URL.Path != "/searx/search" || asked.URL.Query().Get("format") != "json" ||
		asked.URL.Query().Get("q") != "x" {
		t.Errorf("asked for %s", asked.URL)
	}
}

func TestASearchThatFindsNothingSaysSo(t *testing.T) {
	for name, b := range map[string]*toolBox{
		"Brave":   brave(t, answer("application/json", `{"type":"search"}`)),
		"SearXNG": searxng(t, answer("application/json", `{"results":[]}`)),
	} {
		if r := b.search(`{"query":"x"}`); r.Outcome != corebot.OutcomeSuccess || r.Content != "[nothing was found]" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestASearchThatFailsSaysWhyAndNeverTellsTheKey(t *testing.T) {
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprintf(w, "your key %s is bad", r.Header.Get("X-Subscription-Token"))
		}
	}
	for name, c := range map[string]struct {
		handler        http.HandlerFunc
		brave, searxng string
	}{
		"a wrong key": {
			status(401), "does not take the key (the operator must set tools.web.brave_key",
			"does not answer in JSON",
		},
		"JSON is not enabled": {
			status(403), "does not take the key",
			"does not answer in JSON (the operator must add json to search.formats",
		},
		"too many": {
			status(429, "Retry-After", "7"),
			`429 Too Many Requests; it says to try again after "7"`, `try again after "7"`,
		},
		"too many, without time": {status(429), "429 Too Many Requests", "429 Too Many Requests"},
		"it is down":             {status(503), "503 Service Unavailable", "503 Service Unavailable"},
		"a redirect":             {status(302, "Location", "http://127.0.0.1:1/"), "302 Found", "302 Found"},
		"a page":                 {answer("text/html", "<p>hello"), "no list of results", "no list of results"},
		"broken JSON":            {answer("application/json", `{"web":`), "bad JSON", "bad JSON"},
		"another shape": {
			answer("application/json", `{"web":{"results":7},"results":7}`), "bad JSON",
			"bad JSON",
		},
		"too much": {answer("application/json", strings.Repeat(" ", 5<<20)), "too much", "too much"},
	} {
		for want, b := range map[string]*toolBox{c.brave: brave(t, c.handler), c.searxng + " ": searxng(t, c.handler)} {
			want = strings.TrimSpace(want)
			r := b.search(`{"query":"x"}`)
			if r.Outcome != corebot.OutcomeError || !strings.Contains(r.Content, want) ||
				strings.Contains(r.Content, braveKey) {
				t.Errorf("%s: %s %q, want %q", name, r.Outcome, r.Content, want)
			}
		}
	}
}

func TestAQueryThatIsNoneIsNotAsked(t *testing.T) {
	b := searxng(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	for _, args := range []string{
		`{"query":""}`, `{"query":" \n "}`, `{"query":"` + strings.Repeat("x", 401) + `"}`,
		`{"query":"x","count":-1}`, `{}`, `{"query":7}`, `{"query":"x","lang":"de"}`,
	} {
		if r := b.search(args); r.Outcome != corebot.OutcomeError && r.Outcome != corebot.OutcomeInvalidArgs {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

// TestTheClientOfASearXNGGoesNowhereElse: what is named in the settings may be private, and nothing else becomes
// reachable by that.
func TestTheClientOfASearXNGGoesNowhereElse(t *testing.T) {
	elsewhere := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere = true }))
	t.Cleanup(other.Close)
	b := searxng(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	if r := b.search(`{"query":"x"}`); r.Outcome != corebot.OutcomeError || elsewhere {
		t.Errorf("a redirect was followed: %+v", r)
	}
}

func TestAnEngineThatCannotBeAskedIsNotMade(t *testing.T) {
	for _, address := range []string{
		"", "127.0.0.1:8080", "ftp://host/", "http://user:pass@host/", "http://host/?q=x",
		"http://host:http/", "http://",
	} {
		if _, err := builtin.NewSearXNG(address, egress.Options{}); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := builtin.NewBrave("", egress.Options{}); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("Brave without a key: %v", err)
	}
	engine, err := builtin.NewBrave(braveKey, egress.Options{Timeout: time.Second})
	must(t, err)
	ended, stop := context.WithCancelCause(t.Context())
	cause := errors.New("stopped")
	stop(cause)
	if _, err := engine.Search(ended, "x", 1); !errors.Is(err, cause) {
		t.Errorf("Brave's own address is refused: %v", err)
	}
}
