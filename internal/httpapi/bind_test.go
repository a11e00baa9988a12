package httpapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

// FuzzARequestIsReadOrRefused binds what anybody can send to the type of every route. The route reads the request, or
// refuses it as a mistake of the caller.
func FuzzARequestIsReadOrRefused(f *testing.F) {
	for _, s := range [][3]string{
		{"1", "limit=10&after=x", `{"state": "approved"}`},
		{"-1", "since=2026-12-24T18:00:00Z&all=true", `{"chat": "main:webhook::ops", "kind": "daily"}`},
		{"1", "limit=0", `{}`},
		{"%00", "limit=1e3", `{"a": 1, "a": 2}`},
		{"9223372036854775808", "limit=%zz&;", "\xff{"},
		{"main", "fresh=true&fresh=false", `[[[[`},
	} {
		f.Add(s[0], s[1], []byte(s[2]))
	}
	all := routes()
	f.Fuzz(func(t *testing.T, value, query string, body []byte) {
		for _, r := range all {
			req := httptest.NewRequest(r.method, "/", strings.NewReader(string(body)))
			req.Header.Set("Content-Type", "application/json")
			req.URL.RawQuery = query
			for _, name := range []string{"id", "agent", "chat", "code"} {
				req.SetPathValue(name, value)
			}
			c := &call{request: req, writer: httptest.NewRecorder()}
			err := c.bind(reflect.New(r.in).Elem())
			if err != nil && !errors.Is(err, errMalformed) && !errors.Is(err, corebot.ErrTooLarge) &&
				!errors.Is(err, corebot.ErrInvalid) {
				t.Errorf("%s %s with %q, %q, %q: %v", r.method, r.path, value, query, body, err)
			}
			if p := problemOf(err); err != nil && (p.Status >= http.StatusInternalServerError || p.Detail == "") {
				t.Errorf("the refusal is %+v", p)
			}
		}
	})
}

func TestEveryRouteIsDescribedAndNamesItsOwnPath(t *testing.T) {
	ids := map[string]bool{}
	for _, r := range routes() {
		if ids[r.id()] || r.summary == "" {
			t.Errorf("%s %s has the id %s, and the summary %q", r.method, r.path, r.id(), r.summary)
		}
		ids[r.id()] = true
		for _, f := range fieldsOf(r.in) {
			if f.from == "path" && !strings.Contains(r.path, "{"+f.name+"}") {
				t.Errorf("%s reads {%s}, which is not in its path", r.path, f.name)
			}
		}
		if r.method == http.MethodGet != (r.scope == corebot.ScopeRead) {
			t.Errorf("%s %s needs the scope %s", r.method, r.path, r.scope)
		}
	}
	if _, err := document("dev"); err != nil {
		t.Error(err)
	}
}

// A proxy or a log in front of Corebot may read the other of two names.
func TestABodyWithADoubledOrMisspeltNameIsRefused(t *testing.T) {
	in := struct {
		Body struct {
			Content string `json:"content"`
		} `body:""`
	}{}
	for body, want := range map[string]string{
		`{"content":"a"}`:                                  "",
		`{"content":"a","content":"b"}`:                    "stands there twice",
		`{"content":"a","c\u006fntent":"b"}`:               "stands there twice",
		`{"content":"a","Content":"b"}`:                    "spelt",
		`{"CONTENT":"a"}`:                                  "spelt",
		`{"content":"\ud800"}`:                             "half a character",
		`{"content":"a"} {}`:                               "goes on behind its JSON",
		`{"content":"a","more":1}`:                         `there is no field "more"`,
		`{"content":true}`:                                 "content must be a string, and is true or false",
		"{\"content\":\"a\xff\"}":                          "UTF-8",
		`{"content":` + strings.Repeat("[", 200_000) + `}`: "nested deeper",
	} {
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		err := (&call{request: req, writer: httptest.NewRecorder()}).bind(reflect.ValueOf(&in).Elem())
		switch {
		case want == "" && (err != nil || in.Body.Content != "a"):
			t.Errorf("%s: %v", body, err)
		case want != "" && (!errors.Is(err, errMalformed) || !strings.Contains(err.Error(), want)):
			t.Errorf("%.60s: %v; want %q", body, err, want)
		}
	}
}

// An empty text comes from a variable that was not set. It must not mean the default, such as another chat.
func TestAnEmptyTextStandsForNoDefault(t *testing.T) {
	for _, c := range []struct{ query, body, want string }{
		{"", `{"content":"a"}`, ""},
		{"", `{"sessionKey":"","content":"a"}`, "sessionKey is empty"},
		{"", `{"id":"","content":"a"}`, "id is empty"},
		{"", `{"content":"a","wait":true}`, "wait must be a whole number, and is true or false"},
		{"sessionKey=", `{}`, "there is no parameter"},
	} {
		req := httptest.NewRequest(http.MethodPost, "/?"+c.query, strings.NewReader(c.body))
		req.Header.Set("Content-Type", "application/json")
		err := (&call{request: req, writer: httptest.NewRecorder()}).bind(reflect.ValueOf(new(newMessage)).Elem())
		if c.want == "" && err != nil || c.want != "" && (err == nil || problemOf(err).Status != 400 ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", c.body, err, c.want)
		}
	}
	for query, want := range map[string]string{
		"sessionKey=":         "the parameter sessionKey is empty",
		"sessionId=&limit=1":  "the parameter sessionId is empty",
		"after=&sessionKey=a": "", // the first page
	} {
		req := httptest.NewRequest(http.MethodGet, "/?"+query, nil)
		err := (&call{request: req, writer: httptest.NewRecorder()}).bind(reflect.ValueOf(new(sessionQuery)).Elem())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", query, err, want)
		}
	}
}

func TestAFrameOfASocketIsReadAsStrictlyAsABody(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"send","agentId":"main","message":"a","more":1}`:        "", // of a client of another server
		`{"type":"subscribe","sessionKey":"","sessionId":"main:cli::a"}`: "",
		`{"type":"unsubscribe","sessionKey":""}`:                         "",
		`{"type":"send","type":"unsubscribe"}`:                           "stands there twice",
		`{"type":"send","t\u0079pe":"unsubscribe"}`:                      "stands there twice",
		`{"type":"send","sessionKey":"","message":"a"}`:                  "sessionKey is empty",
		`{"type":"subscribe","sessionKey":""}`:                           "sessionKey is empty",
		`{"type":"resume","after":true}`:                                 "after must be a whole number",
		`{"type":7}`:                                                     "type must be a string, and is a number",
		`{"type":"send"} {}`:                                             "cannot be read",
		`{`:                                                              "cannot be read",
		"{\"type\":\"se\xffnd\"}":                                        "UTF-8",
	} {
		_, err := readFrame([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "json")) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}
