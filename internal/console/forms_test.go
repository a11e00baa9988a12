package console

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

// readAs reads the form of a request that a mux has found the pattern of.
func readAs(pattern, query, form string) error {
	method, _, named := strings.Cut(pattern, " ")
	if !named {
		method = http.MethodPost
	}
	r := httptest.NewRequest(method, "/?"+query, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Pattern = pattern
	return readForm(r)
}

func wantInvalid(t *testing.T, err error, what, want string) {
	t.Helper()
	if !errors.Is(err, corebot.ErrInvalid) || !strings.Contains(err.Error(), want) || corebot.HintOf(err) == "" {
		t.Errorf("%s: %v, want %q and a hint", what, err, want)
	}
}

func TestEveryFormIsRefusedWithAFieldThatIsUnknownDoubledOrEmpty(t *testing.T) {
	actions := 0
	for pattern := range quiet().patterns() {
		fields, known := fieldsOf[pattern]
		if !strings.HasPrefix(pattern, http.MethodPost) {
			if known {
				t.Errorf("%s is no action, and has fields", pattern)
			}
			continue
		}
		actions++
		if !known {
			t.Errorf("nobody says which fields %s has", pattern)
		}
		wantInvalid(t, readAs(pattern, "", "typo=x"), pattern, `no field "typo"`)
		wantInvalid(t, readAs(pattern, "typo=x", ""), pattern, `no field "typo"`)
		for field := range strings.FieldsSeq(fields + backField) {
			name := strings.TrimRight(field, "?*")
			if err := readAs(pattern, "", name+"=a"); err != nil {
				t.Errorf("%s with %s: %v", pattern, name, err)
			}
			if strings.HasSuffix(field, "*") {
				if err := readAs(pattern, "", name+"=a&"+name+"=b"); err != nil {
					t.Errorf("%s with two of %s: %v", pattern, name, err)
				}
			} else {
				wantInvalid(t, readAs(pattern, "", name+"=a&"+name+"=b"), pattern, name+" stands there twice")
				wantInvalid(t, readAs(pattern, name+"=a", name+"=b"), pattern, name+" stands there twice")
			}
			if !strings.HasSuffix(field, "?") {
				wantInvalid(t, readAs(pattern, "", name+"="), pattern, name+" is empty")
			} else if err := readAs(pattern, "", name+"="); err != nil {
				t.Errorf("%s with an empty %s: %v", pattern, name, err)
			}
		}
	}
	if actions != len(fieldsOf) {
		t.Errorf("there are %d actions, and fields of %d", actions, len(fieldsOf))
	}
	if err := readAs("", "", "typo=x&typo=y"); err != nil {
		t.Errorf("a form for no page: %v", err)
	}
	wantInvalid(t, readAs("GET /audit", "tool=a&tool=b", ""), "a page", "tool stands there twice")
}

// Each of these could mean more than it says: a denial, a default, all lines for which nobody stands.
func TestAnActionWithoutItsChoiceChangesNothing(t *testing.T) {
	c := quiet()
	for form, do := range map[string]func(*visit) error{
		"answer=maybe":         c.decidePairing,
		"":                     c.decidePairing,
		"what=mode":            c.changeChat,
		"what=model":           c.changeChat,
		"what=name":            c.changeChat,
		"command=steer&text=+": c.command,
		"chat=main:console:local:x&fingerprint=a": c.changeMemory,
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetPathValue("chat", "main:console:local:x")
		r.SetPathValue("action", "forget")
		if err := r.ParseForm(); err != nil {
			t.Fatal(err)
		}
		c.opts.Service = nil // whatever asks for it would change something
		if err := do(&visit{console: c, w: httptest.NewRecorder(), r: r}); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%q is answered with %v", form, err)
		}
	}
}
