package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corebot/corebot"
)

// A filter that nobody knows finds nothing. A script would take that for good news.
func TestTheAPIRefusesAValueThatAParameterDoesNotTake(t *testing.T) {
	t.Parallel()
	reader := newAPI(t, daemon(t, t.TempDir()), "reader", corebot.ScopeRead)
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema *jsonschema.Schema
			}
		}
	}
	reader.get("/api/openapi.json", &doc)
	values := strings.NewReplacer("{agent}", "main", "{chat}", "main:cli:local:home")
	sets, limits := map[string]bool{}, 0
	for path, methods := range doc.Paths {
		for _, p := range methods["get"].Parameters {
			at := values.Replace(path) + "?" + p.Name + "="
			if p.Name == "limit" {
				limits++
				if p.Schema.Minimum == nil || *p.Schema.Minimum != 1 {
					t.Errorf("%s: the limit is described as %v", path, p.Schema)
				}
				reader.refuses(at+"0", "limit is 0", http.StatusUnprocessableEntity)
				reader.refuses(at+"-1", "limit is -1", http.StatusUnprocessableEntity)
			}
			if len(p.Schema.Enum) == 0 {
				continue
			}
			sets[p.Name] = true
			want := http.StatusUnprocessableEntity
			if p.Name == "view" || p.Name == "by" {
				want = http.StatusBadRequest
			}
			reader.refuses(at+"nope", p.Name, want)
			for _, value := range p.Schema.Enum {
				status, answer := reader.ask("GET", at+url.QueryEscape(fmt.Sprint(value)), "")
				if status != http.StatusOK {
					t.Errorf("%s%v: %d, %s", at, value, status, answer)
				}
			}
		}
	}
	if limits < 20 {
		t.Errorf("%d limits were looked at", limits)
	}
	for _, name := range []string{"state", "outcome", "reason", "view", "by"} {
		if !sets[name] {
			t.Errorf("the parameter %s does not tell its values", name)
		}
	}
}

// refuses wants a problem that names the parameter.
func (a api) refuses(path, says string, want int) {
	a.t.Helper()
	status, answer := a.ask("GET", path, "")
	var p struct{ Detail string }
	if err := json.Unmarshal(answer, &p); err != nil || status != want || !strings.Contains(p.Detail, says) {
		a.t.Errorf("%s: %d, want %d and %q: %s", path, status, want, says, answer)
	}
}
