package console

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/apptest"
)

// quiet is a console in which nobody is logged in.
func quiet() *Console {
	return New(Options{Log: zerolog.Nop(), Redact: func(s string) string { return s }})
}

func TestAMethodThatAPageDoesNotHaveIsRefusedWithThoseThatItHas(t *testing.T) {
	c := quiet()
	patterns := slices.Collect(maps.Keys(c.patterns()))
	// "1" is no hash of a file, and so the address of files is not found
	patterns = slices.DeleteFunc(patterns, func(p string) bool { return strings.HasPrefix(p, "GET /static/") })
	apptest.WantMethods(t, c.Handler(), true, patterns...)
	if a := apptest.Ask(c.Handler(), "PUT", assetPath("icon.svg"), ""); a.Code != http.StatusMethodNotAllowed {
		t.Errorf("PUT of a file is %d", a.Code)
	}
	if a := apptest.Ask(c.Handler(), "GET", "/nowhere", ""); a.Code != http.StatusUnauthorized {
		t.Errorf("an address that is none is %d for somebody who is not logged in", a.Code)
	}
}

func TestABodyThatIsNoFormIsRefusedByEveryAction(t *testing.T) {
	c := quiet()
	for pattern := range c.patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		if method != http.MethodPost {
			continue
		}
		for _, kind := range []string{"", "text/plain", "application/json", "multipart/form-data; boundary=x"} {
			a := apptest.Ask(c.Handler(), method, apptest.PathOf(path), "text=a", "Content-Type", kind)
			if a.Code != http.StatusUnsupportedMediaType {
				t.Errorf("%s with the type %q is %d: %s", pattern, kind, a.Code, a.Body)
			}
		}
		form := "application/x-www-form-urlencoded; charset=UTF-8"
		if a := apptest.Ask(c.Handler(), method, apptest.PathOf(path), "text=a", "Content-Type", form); a.Code ==
			http.StatusUnsupportedMediaType {
			t.Errorf("%s refuses a form", pattern)
		}
	}
}
