package app_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// api is a caller of the HTTP API of a daemon.
type api struct {
	t     testing.TB
	base  string
	token string
}

// newAPI makes a token with a scope, and a caller that holds it.
func newAPI(t testing.TB, a *app.App, name string, scope corebot.Scope) api {
	t.Helper()
	made, err := operate.AddToken.Call(t.Context(), a.Caller(),
		operate.NewToken{Name: name, Scopes: []corebot.Scope{scope}})
	if err != nil {
		t.Fatal(err)
	}
	return api{t, "http://" + a.ConsoleAddr(), made.Secret}
}

// ask makes a request and gives status and answer. An answer that is no JSON of the announced kind ends the test.
func (a api) ask(method, path, body string) (status int, answer []byte) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.base+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	answer, err = io.ReadAll(resp.Body)
	kind := "application/json"
	if resp.StatusCode >= 400 {
		kind = "application/problem+json"
	}
	if err != nil || resp.Header.Get("Content-Type") != kind || !json.Valid(answer) {
		a.t.Fatalf("%s %s: %d, %s, %.200s: %v", method, path, resp.StatusCode, resp.Header.Get("Content-Type"), answer,
			err)
	}
	return resp.StatusCode, answer
}

// get reads a path that must be there.
func (a api) get(path string, into any) {
	a.t.Helper()
	status, answer := a.ask("GET", path, "")
	if err := json.Unmarshal(answer, into); err != nil || status != http.StatusOK {
		a.t.Fatalf("GET %s: %d, %s: %v", path, status, answer, err)
	}
}

// described is what the tests read of the API's description of itself.
type described struct {
	Paths map[string]map[string]struct {
		Responses map[string]struct {
			Content map[string]struct{ Schema *jsonschema.Schema }
		}
	}
	Components struct {
		Schemas map[string]*jsonschema.Schema
	}
}

func TestTheAPIIsAsItDescribesItself(t *testing.T) {
	t.Parallel()
	home, letter := deadHome(t)
	a := daemon(t, home)
	in := channels.Incoming{ID: "m1", Chat: "home", SenderID: "7", Parts: corebot.TextPart("hello there")}
	if _, err := a.Accept(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	lives, err := storage.NewLives(a.Store).Find(t.Context(), "m1")
	if err != nil || len(lives) != 1 {
		t.Fatalf("the message has %d lives: %v", len(lives), err)
	}
	ended(t, a.Store, lives[0].ID)
	operator := newAPI(t, a, "operator", corebot.ScopeOperate)
	status, made := operator.ask("POST", "/api/schedules", `{"chat": "main:webhook::work", "kind": "daily",
		"spec": "08:30", "prompt": "the news", "timeZone": "Europe/Berlin"}`)
	var task operate.TaskRow
	if err := json.Unmarshal(made, &task); err != nil || status != http.StatusOK {
		t.Fatalf("the task is %s: %v", made, err)
	}
	values := strings.NewReplacer("{agent}", "main", "{chat}", "main:cli:local:home", "{id}", "m1")
	ids := map[string]int64{
		"/api/deadletters/{id}": letter, "/api/schedules/{id}": task.ID, "/api/jobs/{id}": 1, "/api/approvals/{id}": 1,
		"/api/facts/{id}": 1,
	}
	var doc described
	operator.get("/api/openapi.json", &doc)
	failure := resolved(t, doc.Components.Schemas["problem"])
	looked := 0
	for path, methods := range doc.Paths {
		get, there := methods["get"]
		if !there {
			continue
		}
		if strings.Contains(path, "{hash}") {
			continue // its answer is the bytes of a file
		}
		looked++
		want := resolved(t, get.Responses["200"].Content["application/json"].Schema)
		at := path
		if id, known := ids[path]; known {
			at = strings.Replace(path, "{id}", strconv.FormatInt(id, 10), 1)
		}
		status, answer := operator.ask("GET", values.Replace(at), "")
		missing := strings.Contains(path, "{skill}") || strings.Contains(path, "{server}") ||
			ids[path] == 1 && path != "/api/schedules/{id}"
		if path == "/api/memory" {
			at += "?text=tea"
			status, answer = operator.ask("GET", at, "")
		}
		if status == http.StatusNotFound && missing {
			want = failure // there is no job, approval or fact, no skill and no MCP server
		} else if status != http.StatusOK {
			t.Errorf("GET %s: %d, %s", at, status, answer)
		}
		var value any
		if err := json.Unmarshal(answer, &value); err != nil {
			t.Fatal(err)
		}
		if err := want.Validate(value); err != nil {
			t.Errorf("GET %s: %v\n%s", at, err, answer)
		}
	}
	if looked < 20 {
		t.Errorf("%d paths were looked at", looked)
	}
	var said operate.Page[corebot.Said]
	operator.get("/api/chats/main:cli:local:home/history", &said)
	if len(said.Rows) != 2 || corebot.TextOf(said.Rows[1].Parts) != "hello there" {
		t.Errorf("the history is %+v", said)
	}
}

func resolved(t *testing.T, s *jsonschema.Schema) *jsonschema.Resolved {
	t.Helper()
	if s == nil {
		t.Fatal("the description has no schema")
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestATokenOpensItsScopeForAsLongAsItIsInForce(t *testing.T) {
	t.Parallel()
	home, letter := deadHome(t)
	a := daemon(t, home)
	reader, operator := newAPI(t, a, "reader", corebot.ScopeRead), newAPI(t, a, "operator", corebot.ScopeOperate)
	expired := api{t, reader.base, "corebot_expired"}
	old := corebot.Token{
		Name: "old", Scopes: []corebot.Scope{corebot.ScopeOperate}, ExpiresAt: time.Now().Add(-time.Millisecond),
	}
	if _, err := storage.NewTokens(a.Store).Add(t.Context(), old, sha256.Sum256([]byte(expired.token))); err != nil {
		t.Fatal(err)
	}
	var doc described
	reader.get("/api/openapi.json", &doc)
	sender := newSender(t, a, "sender", "*")
	strangers := map[string]api{
		"nobody": {t, reader.base, ""}, "a guess": {t, reader.base, operator.token + "x"}, "an expired token": expired,
	}
	tried := 0
	for path, methods := range doc.Paths {
		at := strings.NewReplacer("{id}", strconv.FormatInt(letter, 10), "{agent}", "main", "{chat}",
			"main:webhook::work", "{code}", "ABCDEFGH").Replace(path)
		for method := range methods {
			method = strings.ToUpper(method)
			for who, caller := range strangers {
				if status, answer := caller.ask(method, at, "{}"); status != http.StatusUnauthorized {
					t.Errorf("%s: %s %s is %d, %s", who, method, at, status, answer)
				}
			}
			if !strings.HasSuffix(path, "/messages") && !strings.HasSuffix(path, "{agent}/history") &&
				!strings.HasSuffix(path, "/files/{hash}") {
				if status, answer := sender.ask(method, at, "{}"); status != http.StatusForbidden {
					t.Errorf("the scope send: %s %s is %d, %s", method, at, status, answer)
				}
			} else if status, answer := operator.ask(method, at, "{}"); method == "POST" &&
				status != http.StatusForbidden {
				t.Errorf("the scope operate: %s %s is %d, %s", method, at, status, answer)
			}
			if method == "GET" {
				continue
			}
			tried++
			if status, answer := reader.ask(method, at, "{}"); status != http.StatusForbidden {
				t.Errorf("the scope read: %s %s is %d, %s", method, at, status, answer)
			}
		}
	}
	if tried < 8 {
		t.Errorf("%d changes were tried", tried)
	}
	if status, answer := operator.ask("GET", "/api/deadletters", ""); status != http.StatusOK {
		t.Errorf("who operates cannot read: %d, %s", status, answer)
	}
	if _, err := operate.RevokeToken.Call(t.Context(), a.Caller(), operate.TokenName{Name: "operator"}); err != nil {
		t.Fatal(err)
	}
	if status, answer := operator.ask("GET", "/api/status", ""); status != http.StatusUnauthorized {
		t.Errorf("a revoked token is %d, %s", status, answer)
	}
}

func TestAChangeThroughTheAPIHappensOnceAndNamesItsToken(t *testing.T) {
	t.Parallel()
	home, letter := deadHome(t)
	a := daemon(t, home)
	operator := newAPI(t, a, "operator", corebot.ScopeOperate)
	at := "/api/deadletters/" + strconv.FormatInt(letter, 10) + "/replay"
	if status, answer := operator.ask("POST", at, ""); status != http.StatusOK {
		t.Fatalf("the replay is %d, %s", status, answer)
	}
	if l := ended(t, a.Store, letter); l.Run != 2 {
		t.Errorf("the message ended in run %d", l.Run)
	}
	if status, answer := operator.ask("POST", at, ""); status == http.StatusOK {
		t.Errorf("the second replay is %d, %s", status, answer)
	}
	var trail operate.Page[operate.AuditRow]
	operator.get("/api/audit?limit=50", &trail)
	found := 0
	for _, e := range trail.Rows {
		if e.Entry == string(corebot.EntryToken) {
			found++
			if e.Event != "dead_letter.replay" && e.Event != "dlq.replay" || e.SenderID != "1" {
				t.Errorf("the trail says %+v", e)
			}
		}
	}
	if found != 1 {
		t.Errorf("the trail has %d changes by a token: %+v", found, trail.Rows)
	}
}

func TestTheAPIRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	home, _ := deadHome(t)
	operator := newAPI(t, daemon(t, home), "operator", corebot.ScopeOperate)
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/api/nothing", "", http.StatusNotFound},
		{"GET", "/api/../api/nothing", "", http.StatusNotFound},
		{"PUT", "/api/schedules", "{}", http.StatusMethodNotAllowed},
		{"GET", "/api/deadletters?limit=ten", "", http.StatusBadRequest},
		{"GET", "/api/deadletters?limit=99999999999999999999", "", http.StatusBadRequest},
		{"GET", "/api/deadletters?since=yesterday", "", http.StatusBadRequest},
		{"GET", "/api/deadletters?reasn=x", "", http.StatusBadRequest},
		{"GET", "/api/deadletters?reason=x&reason=y", "", http.StatusBadRequest},
		{"GET", "/api/deadletters?after=forged", "", http.StatusUnprocessableEntity},
		{"GET", "/api/approvals?all=perhaps", "", http.StatusBadRequest},
		{"GET", "/api/deadletters/one", "", http.StatusBadRequest},
		{"GET", "/api/deadletters/-1", "", http.StatusNotFound},
		{"GET", "/api/chats/here/history", "", http.StatusUnprocessableEntity},
		{"GET", "/api/agents/nobody", "", http.StatusNotFound},
		{"DELETE", "/api/schedules/99", "", http.StatusNotFound},
		{"POST", "/api/schedules", "", http.StatusBadRequest},
		{"POST", "/api/schedules", "{", http.StatusBadRequest},
		{"POST", "/api/schedules", "[]", http.StatusBadRequest},
		{"POST", "/api/schedules", `{"chta": "x"}`, http.StatusBadRequest},
		{"POST", "/api/schedules", `{} {}`, http.StatusBadRequest},
		{
			"POST", "/api/schedules", `{"chat": "main:webhook::work", "kind": "yearly", "spec": "x", "prompt": "y"}`,
			http.StatusUnprocessableEntity,
		},
		{
			"POST", "/api/schedules", `{"prompt": "` + strings.Repeat("x", 1<<20) + `"}`,
			http.StatusRequestEntityTooLarge,
		},
		{"POST", "/api/approvals/1", `{"state": "perhaps"}`, http.StatusUnprocessableEntity},
		{"POST", "/api/pairings/AAAA", `{"state": "paired"}`, http.StatusUnprocessableEntity},
	} {
		status, answer := operator.ask(c.method, c.path, c.body)
		var p struct{ Title, Detail string }
		if err := json.Unmarshal(answer, &p); err != nil || status != c.want || p.Title == "" || p.Detail == "" {
			t.Errorf("%s %s %.60s: %d, want %d: %s", c.method, c.path, c.body, status, c.want, answer)
		}
	}
}

func TestNoWebPageReachesTheAPI(t *testing.T) {
	t.Parallel()
	home, _ := deadHome(t)
	reader := newAPI(t, daemon(t, home), "reader", corebot.ScopeRead)
	for name, change := range map[string]func(*http.Request){
		"of another origin":   func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"of a site elsewhere": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"of a rebound name":   func(r *http.Request) { r.Host = "evil.example" },
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", reader.base+"/api/status", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+reader.token)
		change(r)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read
		if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusMisdirectedRequest ||
			bytes.Contains(answer, []byte("queue")) {
			t.Errorf("a page %s gets %d, %s", name, resp.StatusCode, answer)
		}
	}
}
