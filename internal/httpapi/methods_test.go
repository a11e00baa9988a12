package httpapi

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/listen"
)

func TestAMethodThatAPathDoesNotHaveIsRefusedWithThoseThatItHas(t *testing.T) {
	s := &Server{opts: Options{Log: zerolog.Nop(), Redact: func(s string) string { return s }}}
	h := s.handler(listen.Pages{})
	apptest.WantMethods(t, h, true, slices.Collect(maps.Keys(s.patterns()))...)
	for _, path := range []string{"/api/nowhere", "/api/status/1", "/api/facts/1/2", "/"} {
		a := apptest.Ask(h, "GET", path, "")
		if a.Code != http.StatusNotFound || a.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s is %d: %s", path, a.Code, a.Body)
		}
	}
}

func TestABodyOfAnotherTypeIsRefusedOnEveryRouteThatTakesOne(t *testing.T) {
	bodies := 0
	for _, r := range routes() {
		if !slices.ContainsFunc(fieldsOf(r.in), func(f field) bool { return f.from == "body" }) {
			continue
		}
		bodies++
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
			req := httptest.NewRequest(r.method, "/", strings.NewReader(`{}`))
			req.Header.Set("Content-Type", kind)
			for _, name := range []string{"id", "agent", "chat", "code", "server"} {
				req.SetPathValue(name, "1")
			}
			_, err := r.serve(&call{request: req, writer: httptest.NewRecorder()})
			if p := problemOf(err); p.Status != http.StatusUnsupportedMediaType || p.Hint == "" {
				t.Errorf("%s %s with the type %q is %+v", r.method, r.path, kind, p)
			}
		}
	}
	if bodies < 5 {
		t.Errorf("%d routes take a body", bodies)
	}
}
