package app

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/config"
)

func web(change func(*config.Web)) config.Web {
	w := config.Defaults().Tools.Web
	change(&w)
	return w
}

func TestASearchToolIsOfferedOnlyWithAnEngine(t *testing.T) {
	key := config.NewSecret("0123456789abcdef")
	for name, c := range map[string]struct {
		web  config.Web
		want []string
	}{
		"nothing is set":  {web(func(*config.Web) {}), []string{"web.fetch"}},
		"a key for Brave": {web(func(w *config.Web) { w.BraveKey = key }), []string{"web.fetch", "web.search"}},
		"a SearXNG": {
			web(func(w *config.Web) { w.SearXNGURL = "http://127.0.0.1:8080" }),
			[]string{"web.fetch", "web.search"},
		},
		"both and a choice": {web(func(w *config.Web) {
			w.BraveKey, w.SearXNGURL, w.Search = key, "http://s",
				"searxng"
		}), []string{"web.fetch", "web.search"}},
	} {
		all, err := webTools(c.web, nil, nil)
		var got []string
		for _, tool := range all {
			got = append(got, tool.Name())
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestDoctorSaysWhoSearchesAndWhatIsOpen(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"results":[]}`))
	}))
	t.Cleanup(up.Close)
	noJSON := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(noJSON.Close)
	for name, c := range map[string]struct {
		web               config.Web
		level, what, hint string
	}{
		"nothing is set": {web(func(*config.Web) {}), "ok", "not offered", "tools.web.brave_key"},
		"a key for Brave": {
			web(func(w *config.Web) { w.BraveKey = config.NewSecret("0123456789abcdef") }), "ok",
			"asks Brave", "",
		},
		"a SearXNG": {
			web(func(w *config.Web) { w.SearXNGURL = up.URL }), "ok", "asks SearXNG, which answers",
			"",
		},
		"one without JSON": {
			web(func(w *config.Web) { w.SearXNGURL = noJSON.URL }), "fail",
			"does not answer in JSON", "search.formats",
		},
		"one that is not up": {
			web(func(w *config.Web) { w.SearXNGURL = "http://127.0.0.1:1" }), "fail",
			"connection refused", "",
		},
		"what is opened": {
			web(func(w *config.Web) { w.AllowPrivate = config.NewList("10.0.0.0/8") }), "warn",
			"10.0.0.0/8", "narrow",
		},
	} {
		f := checkWeb(t.Context(), c.web)[0]
		if f.Level != c.level || !strings.Contains(f.What, c.what) || !strings.Contains(f.Hint, c.hint) ||
			c.hint == "" && f.Hint != "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
