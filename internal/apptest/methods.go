package apptest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Answer is what a handler answered, in the process of the test.
type Answer struct{ *httptest.ResponseRecorder }

// SetReadDeadline does nothing: nobody waits.
func (Answer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: the test takes every byte.
func (Answer) SetWriteDeadline(time.Time) error { return nil }

// Ask has a handler answer a request of a program. Each pair of words is a header.
func Ask(h http.Handler, method, path, body string, headers ...string) Answer {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	r.Header.Set("Accept", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a := Answer{httptest.NewRecorder()}
	h.ServeHTTP(a, r)
	return a
}

// PathOf is a path that a pattern of [http.ServeMux] takes.
func PathOf(pattern string) string {
	return regexp.MustCompile(`\{[^}]*\}`).ReplaceAllStringFunc(pattern, func(wild string) string {
		if wild == "{$}" {
			return ""
		}
		return "1"
	})
}

// WantMethods asks a handler for every method at the path of every pattern, such as "GET /status". The handler must
// serve each method that a mux would serve by the patterns. It refuses others with 405, and Allow names those that it
// serves. With problems, the refusal is the JSON of RFC 9457.
func WantMethods(t *testing.T, h http.Handler, problems bool, patterns ...string) {
	t.Helper()
	if len(patterns) < 2 {
		t.Fatalf("there are only the patterns %q", patterns)
	}
	mux := http.NewServeMux()
	for _, p := range patterns {
		mux.Handle(p, http.NotFoundHandler())
	}
	for _, p := range patterns {
		_, path, is := strings.Cut(p, " ")
		if path = PathOf(path); !is {
			t.Errorf("the pattern %q takes every method", p)
			continue
		}
		var served, others []string
		for _, method := range []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"} {
			if _, pattern := mux.Handler(httptest.NewRequest(method, path, http.NoBody)); pattern != "" {
				served = append(served, method)
			} else {
				others = append(others, method)
			}
		}
		for _, method := range served {
			if a := Ask(h, method, path, ""); a.Code == http.StatusMethodNotAllowed || a.Code == http.StatusNotFound {
				t.Errorf("%s %s is %d: %s", method, path, a.Code, a.Body)
			}
		}
		for _, method := range others {
			wantRefused(t, Ask(h, method, path, ""), method+" "+path, served, problems)
		}
	}
}

func wantRefused(t *testing.T, a Answer, what string, methods []string, problems bool) {
	t.Helper()
	allow := strings.Split(a.Header().Get("Allow"), ", ")
	slices.Sort(allow)
	if a.Code != http.StatusMethodNotAllowed || !slices.Equal(allow, methods) {
		t.Errorf("%s is %d, and Allow is %q, want 405 and %q", what, a.Code, allow, methods)
	}
	var problem struct{ Status int }
	if problems && (a.Header().Get("Content-Type") != "application/problem+json" ||
		json.Unmarshal(a.Body.Bytes(), &problem) != nil || problem.Status != a.Code) {
		t.Errorf("%s is refused with %s, no problem: %s", what, a.Header().Get("Content-Type"), a.Body)
	}
}
