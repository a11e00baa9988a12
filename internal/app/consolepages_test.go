package app_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// browser is what a person without JavaScript has: a client with cookies.
type browser struct {
	t      testing.TB
	base   string
	client *http.Client
}

func newBrowser(t testing.TB, a *app.App) browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return browser{t, "http://" + a.ConsoleAddr(), &http.Client{Jar: jar}}
}

// loggedIn is a browser that has used a login address.
func loggedIn(t testing.TB, a *app.App) browser {
	t.Helper()
	b := newBrowser(t, a)
	if status, text := b.post("/login", url.Values{"code": {codeOf(t, a)}}); status != http.StatusOK ||
		!strings.Contains(text, "<h1>Now</h1>") {
		t.Fatalf("the login ends with %d, %s", status, text)
	}
	return b
}

func codeOf(t testing.TB, a *app.App) string {
	t.Helper()
	login, err := operate.AddLogin.Call(t.Context(), a.Caller(), struct{}{})
	if err != nil || login.Address != "http://"+a.ConsoleAddr()+"/login#"+login.Code {
		t.Fatalf("the login address is %+v: %v", login, err)
	}
	return login.Code
}

func (b browser) do(r *http.Request) (status int, text string) {
	b.t.Helper()
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (b browser) request(method, path string, form url.Values, headers ...string) *http.Request {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func (b browser) get(path string, headers ...string) (int, string) {
	b.t.Helper()
	return b.do(b.request(http.MethodGet, path, nil, headers...))
}

func (b browser) post(path string, form url.Values, headers ...string) (int, string) {
	b.t.Helper()
	return b.do(b.request(http.MethodPost, path, form, headers...))
}

// eventually waits until a page has a text.
func (b browser) eventually(path, want string) string {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		status, text := b.get(path)
		if strings.Contains(text, want) {
			return text
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s never has %q: %d, %s", path, want, status, text)
		}
	}
}

var pagePaths = []string{
	"/", "/chats", "/approvals", "/deadletters", "/tasks", "/jobs", "/cost", "/health", "/audit", "/why", "/channels",
	"/mcp", "/skills", "/memory", "/settings",
}

var ownCode = regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:`)

func TestEveryPageIsThereInHTMLAndInJSON(t *testing.T) {
	t.Parallel()
	home, letter := deadHome(t)
	a := daemon(t, home)
	b := loggedIn(t, a)
	lives, err := storage.NewLives(a.Store).Get(t.Context(), letter)
	if err != nil {
		t.Fatal(err)
	}
	paths := append([]string{
		"/deadletters/1", "/deadletters?action=replay", "/why?id=" + lives.MessageID, "/chats/main:console:local:new",
		"/deadletters?text=nothing-has-this", "/audit?tool=fs.read&since=2026-01-01", "/cost?from=2026-01-01",
		"/jobs?all=yes", "/chats?channel=webhook",
		"/memory?superseded=yes&chat=main:webhook::work", "/memory?find=news",
	}, pagePaths...)
	for _, path := range paths {
		started := time.Now()
		status, text := b.get(path)
		if status != http.StatusOK || !strings.Contains(text, "</html>") || strings.Contains(text, "/static/missing/") {
			t.Errorf("%s is %d, %s", path, status, text)
		}
		if strings.Contains(text, "<h1") != strings.Contains(text, "</h1>") || !strings.Contains(text, "<h1") {
			t.Errorf("%s has no heading", path)
		}
		if took := time.Since(started); len(text) > 100_000 {
			t.Errorf("%s has %d bytes, and took %v", path, len(text), took)
		}
		// No page has a script or a style of its own: the browser would refuse them.
		if found := ownCode.FindString(text); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		status, text = b.get(path, "Accept", "application/json")
		if status != http.StatusOK || !json.Valid([]byte(text)) {
			t.Errorf("%s in JSON is %d, %s", path, status, text)
		}
	}
	b.wantHeads(append(pagePaths, "/now/stream", "/chats/main:console:local:new/stream"))
	for path, want := range map[string]int{
		"/nothing": 404, "/deadletters/99": 404, "/deadletters/x": 404, "/chats/nonsense": 422, "/tasks/9": 404,
		"/chats/main:webhook::nobody": 404, "/audit?since=never": 422,
		"/memory?after=x": 422, "/static/x/console.js": 404,
	} {
		if status, text := b.get(path); status != want {
			t.Errorf("%s is %d, want %d: %s", path, status, want, text)
		}
	}
}

// wantHeads asks for pages with HEAD. No stream goes on behind one, and what an action has said is still to be shown.
func (b browser) wantHeads(paths []string) {
	b.t.Helper()
	stays := *b.client
	stays.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if status, text := (browser{b.t, b.base, &stays}).post("/settings/reload", nil); status != http.StatusSeeOther {
		b.t.Errorf("the settings are read again with %d, %s", status, text)
	}
	for _, path := range paths {
		if status, text := b.do(b.request(http.MethodHead, path, nil)); status != http.StatusOK || text != "" {
			b.t.Errorf("HEAD %s is %d, %s", path, status, text)
		}
	}
	if _, text := b.get("/settings"); !strings.Contains(text, "In force now: ") {
		b.t.Errorf("nobody is told what is in force: %s", text)
	}
}

func TestNothingIsShownBeforeALogin(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	b := newBrowser(t, a)
	for _, path := range pagePaths {
		if status, text := b.get(path); status != http.StatusOK || !strings.Contains(text, "Log in to Corebot") {
			t.Errorf("%s is %d, %s", path, status, text)
		}
		if status, text := b.get(path, "Accept", "application/json"); status != http.StatusUnauthorized {
			t.Errorf("%s in JSON is %d, %s", path, status, text)
		}
	}
	for _, path := range []string{"/chats/main:console:local:x/send", "/approvals/1", "/logout", "/audit/verify"} {
		if status, _ := b.post(path, url.Values{"text": {"hello"}}); status != http.StatusUnauthorized {
			t.Errorf("a post to %s is %d", path, status)
		}
	}
	for _, cookie := range []string{"", "x", strings.Repeat("A", 43), "' OR 1=1 --"} {
		r := b.request(http.MethodGet, "/settings", nil, "Accept", "application/json")
		r.AddCookie(&http.Cookie{Name: "corebot-" + r.URL.Port(), Value: cookie})
		if status, _ := b.do(r); status != http.StatusUnauthorized {
			t.Errorf("the cookie %q opens the settings", cookie)
		}
	}
}

func TestALoginAddressWorksOnce(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	a := daemon(t, home)
	code := codeOf(t, a)
	first := newBrowser(t, a)
	copied := url.Values{"code": {" " + strings.ToUpper(code) + "\n"}}
	if status, _ := first.post("/login", copied); status != http.StatusOK {
		t.Fatalf("the code, as a person copies it, is answered with %d", status)
	}
	for _, used := range []string{code, "", "forged", code + "a"} {
		if status, _ := newBrowser(t, a).post("/login", url.Values{"code": {used}}); status != http.StatusForbidden {
			t.Errorf("the code %q is answered with %d", used, status)
		}
	}
	sessions, err := operate.ListSessions.Call(t.Context(), a.Caller(), operate.SessionQuery{})
	if err != nil || len(sessions.Rows) != 1 {
		t.Fatalf("the sessions are %+v: %v", sessions, err)
	}
	jar, secret := first.client.Jar, ""
	at, err := url.Parse(first.base)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range jar.Cookies(at) {
		secret = c.Value
	}
	// The digest of the database does not open anything.
	if _, err := storage.NewConsole(a.Store).ByDigest(t.Context(), sha256.Sum256([]byte(secret))); err != nil {
		t.Errorf("the session of the cookie: %v", err)
	}
	if _, err := operate.RevokeSessions.Call(t.Context(), a.Caller(),
		operate.ByRules{IDs: []int64{sessions.Rows[0].ID}}); err != nil {
		t.Fatal(err)
	}
	if status, _ := first.get("/settings", "Accept", "application/json"); status != http.StatusUnauthorized {
		t.Errorf("a session that was revoked is answered with %d", status)
	}
	if _, err := operate.RevokeSessions.Call(t.Context(), a.Caller(),
		operate.ByRules{IDs: []int64{sessions.Rows[0].ID}}); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("a second time it is %v", err)
	}
}

func TestOnlyTheConsoleItselfPostsToTheConsole(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	b := loggedIn(t, a)
	form := url.Values{"text": {"hello"}, "id": {"forged"}}
	for _, headers := range [][]string{
		{"Origin", "http://evil.example"},
		{"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Origin", "http://localhost:1"},
	} {
		if status, _ := b.post("/chats/main:console:local:x/send", form, headers...); status != http.StatusForbidden {
			t.Errorf("a post with %v is %d", headers, status)
		}
	}
	r := b.request(http.MethodGet, "/", nil)
	r.Host = "evil.example"
	if status, _ := b.do(r); status != http.StatusMisdirectedRequest {
		t.Errorf("another Host is %d", status)
	}
	found, err := storage.NewLives(a.Store).Find(t.Context(), "forged")
	if err != nil || len(found) > 0 {
		t.Errorf("a message was accepted: %+v, %v", found, err)
	}
	resp, err := b.client.Do(b.request(http.MethodGet, "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // only the headers count
	for name, want := range map[string]string{
		"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if csp := resp.Header.Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") ||
		!strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
		t.Errorf("the policy is %s", csp)
	}
}

func TestAPersonTalksInTheConsoleWithoutJavaScript(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	b := loggedIn(t, a)
	const chat = "/chats/main:console:local:garden"
	if status, text := b.post("/chats", url.Values{"name": {"garden"}}); status != http.StatusOK ||
		!strings.Contains(text, "Nothing was said here yet") {
		t.Fatalf("a new chat is %d, %s", status, text)
	}
	form := url.Values{"text": {`/tool fs.list {"path": "."}`}, "id": {"m1"}}
	for range 2 { // a form that is sent again is no other message
		if status, text := b.post(chat+"/send", form); status != http.StatusOK || !strings.Contains(text, "fs.list") {
			t.Fatalf("the message is answered with %d, %s", status, text)
		}
	}
	text := b.eventually(chat+"?view=full", `class="entry from-tool`)
	if n := strings.Count(text, `class="entry from-user mine"`); n != 1 {
		t.Errorf("the message is shown %d times: %s", n, text)
	}
	if simple := b.eventually(chat, "from-assistant"); strings.Contains(simple, "from-tool") {
		t.Errorf("the simple view has results of tools: %s", simple)
	}
	life, err := storage.NewLives(a.Store).Find(t.Context(), "m1")
	if err != nil || len(life) != 1 || life[0].Sender.Channel != corebot.ConsoleChannel {
		t.Fatalf("the message has the lives %+v: %v", life, err)
	}
	role, err := storage.NewGrants(a.Store).RoleOf(context.Background(), life[0].Sender, life[0].Key)
	if err != nil || role != corebot.RoleAdmin {
		t.Errorf("the person at the console is %s: %v", role, err)
	}
	b.eventually("/why?id=m1", "fs.list")
	b.eventually("/audit?tool=fs.list", "console")
	for kind, spec := range map[string]string{
		"once": "10m", "interval": "90m", "daily": "08:30", "cron": "30 8 * * 1-5",
	} {
		task := url.Values{"prompt": {"water"}, "kind": {kind}, "spec": {spec}, "chat": {"main:console:local:garden"}}
		if status, text := b.post("/tasks", task); status != http.StatusOK || !strings.Contains(text, "runs next at") {
			t.Errorf("a task %s %s is answered with %d, %s", kind, spec, status, text)
		}
	}
	if status, text := b.post("/chats/main:cli:local:x/send", form); status != http.StatusUnprocessableEntity ||
		!strings.Contains(text, "answer there") {
		t.Errorf("a message into a chat of the terminal is %d, %s", status, text)
	}
}

// A file of a chat can be saved from its page, and from no other page. A fork opens as another chat.
func TestTheConsoleGivesFilesAndOpensForks(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	b := loggedIn(t, a)
	const chat = "/chats/main:console:local:garden"
	content := "<script>alert(1)</script>"
	b.post("/chats", url.Values{"name": {"garden"}})
	for _, text := range []string{
		`/tool fs.write {"path": "x.html", "content": "` + content + `"}`, `/tool message.upload {"path": "x.html"}`,
	} {
		b.post(chat+"/send", url.Values{"text": {text}, "id": {"m" + text}})
	}
	page := b.eventually(chat, " download>x.html")
	_, rest, _ := strings.Cut(page, `<a href="`+chat+`/files/`)
	hash, _, _ := strings.Cut(rest, `"`)
	resp, err := b.client.Do(b.request("GET", chat+"/files/"+hash, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // of a test
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != content {
		t.Errorf("the file %s is %q: %v", hash, text, err)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff",
		"Content-Disposition": "attachment; filename=x.html", "Content-Security-Policy": "default-src 'none'; sandbox",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	for _, path := range []string{"/chats/main:console:local:other/files/" + hash, chat + "/files/x"} {
		if status, _ := b.get(path); status != http.StatusNotFound {
			t.Errorf("%s is %d", path, status)
		}
	}
	b.post(chat+"/send", url.Values{"text": {"/fork copy"}, "id": {"m3"}})
	const fork = "/chats/main:console:local:copy"
	b.eventually(chat, `<a href="`+fork+`">Open the chat</a>`)
	if text := b.eventually(fork, "x.html"); strings.Contains(text, "corebot chat --chat") {
		t.Errorf("the fork is %s", text)
	}
}
