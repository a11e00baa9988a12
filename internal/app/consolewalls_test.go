package app_test

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// once is a browser that follows no redirect.
func (b browser) once(r *http.Request) *http.Response {
	b.t.Helper()
	client := *b.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	_ = resp.Body.Close() // the headers count
	return resp
}

// A form names the page behind it. No spelling of another site is one.
func TestNoFormLeadsToAnotherSite(t *testing.T) {
	t.Parallel()
	b := loggedIn(t, daemon(t, t.TempDir()))
	for back, want := range map[string]string{
		"/": "/", "/approvals?after=x": "/approvals?after=x", // pages of the console
		"//evil.example": "/audit", "https://evil.example": "/audit", "/\\evil.example": "/audit",
		"\\\\evil.example": "/audit", "/\t/evil.example": "/audit", "/\n/evil.example": "/audit",
		"/\r\nX-Evil: 1":  "/audit",
		" //evil.example": "/audit", "javascript:alert(1)": "/audit", "evil.example": "/audit",
		"/\x00/evil.example": "/audit",
	} {
		resp := b.once(b.request(http.MethodPost, "/audit/verify", url.Values{"back": {back}}))
		if got := resp.Header.Get("Location"); resp.StatusCode != http.StatusSeeOther || got != want ||
			resp.Header.Get("X-Evil") != "" {
			t.Errorf("behind %q comes %d, %q, want %q", back, resp.StatusCode, got, want)
		}
	}
	for _, back := range []string{"/.//evil.example", "/x/..//evil.example", "/%2f/evil.example", "/%5cevil.example"} {
		resp := b.once(b.request(http.MethodPost, "/audit/verify", url.Values{"back": {back}}))
		to, err := url.Parse(b.base)
		if err == nil {
			to, err = to.Parse(resp.Header.Get("Location"))
		}
		if err != nil || "http://"+to.Host != b.base || strings.HasPrefix(to.EscapedPath(), "//") {
			t.Errorf("behind %q comes %v: %v", back, to, err)
		}
	}
}

// A login gives a cookie with a new secret, whatever the browser had before. Scripts and other sites never get it, and
// behind a proxy it goes over TLS only. A login that fails gives none.
func TestALoginGivesACookieThatNobodyElseChose(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir(), func(c *config.Config) { c.Console.AllowedHosts = config.NewList("bot.example.com") })
	seen := map[string]bool{}
	for _, host := range []string{a.ConsoleAddr(), "localhost:1", "bot.example.com", "[::1]:3211", "10.1.2.3:80"} {
		tls := !strings.Contains(host, "127.0.0.1") && !strings.Contains(host, "localhost") && host[0] != '['
		name := "corebot-" + regexp.MustCompile(`:(\d+)$|$`).FindStringSubmatch(host)[1]
		if tls {
			name = "__Host-" + name
		}
		const planted = "chosen-by-somebody-else"
		b := newBrowser(t, a)
		login := func(code string) []*http.Cookie {
			r := b.request(http.MethodPost, "/login", url.Values{"code": {code}}, "Cookie", name+"="+planted)
			r.Host = host
			return b.once(r).Cookies()
		}
		if got := login("forged"); len(got) > 0 {
			t.Errorf("a login at %s that fails gives %v", host, got)
		}
		got := login(codeOf(t, a))
		if len(got) != 1 {
			t.Fatalf("a login at %s gives %v", host, got)
		}
		c := got[0]
		if c.Name != name || c.Secure != tls || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" ||
			c.Domain != "" || len(c.Value) < 40 || seen[c.Value] {
			t.Errorf("at %s the cookie is %v", host, c)
		}
		seen[c.Value] = true
		for value, want := range map[string]int{planted: http.StatusUnauthorized, c.Value: http.StatusNoContent} {
			r := b.request(http.MethodGet, "/session", nil, "Accept", "application/json", "Cookie", name+"="+value)
			r.Host = host
			if resp := b.once(r); resp.StatusCode != want {
				t.Errorf("at %s the cookie %.10s… is answered with %d, want %d", host, value, resp.StatusCode, want)
			}
		}
	}
}

// A browser that is logged in and opens a login address goes to the first page. The address of that has an empty part
// behind its #: without one a browser keeps the code there, which still works.
func TestACodeLeavesTheAddressOfABrowserThatIsLoggedIn(t *testing.T) {
	t.Parallel()
	b := loggedIn(t, daemon(t, t.TempDir()))
	resp := b.once(b.request(http.MethodGet, "/login", nil))
	if to := resp.Header.Get("Location"); resp.StatusCode != http.StatusSeeOther || to != "/#" {
		t.Errorf("it goes to %q with %d", to, resp.StatusCode)
	}
}

// longField is the text that the field of a page has.
func longField(t *testing.T, page string) string {
	t.Helper()
	_, field, _ := strings.Cut(page, "<textarea")
	_, field, found := strings.Cut(field, ">\n") // a browser leaves out the first line break of a field
	field, _, ended := strings.Cut(field, "</textarea>")
	if !found || !ended {
		t.Fatalf("the page has no field: %.2000s", page)
	}
	return html.UnescapeString(field)
}

// A dead letter of more than 64 KiB is whole where a person changes it, and its page is small until then.
func TestALongDeadLetterIsChangedWhole(t *testing.T) {
	t.Parallel()
	long := "\n" + strings.Repeat(`<b>"lang"</b> ü世🙂 `, 8000) + "the end" // some 200 KB
	home, letter := deadHomeOf(t, long)
	a := daemon(t, home)
	b := loggedIn(t, a)
	at := fmt.Sprintf("/deadletters/%d", letter)
	k := corebot.Key{Agent: corebot.DefaultAgent, Channel: "webhook", Chat: "work"}
	if _, err := operate.ShowChat.Call(t.Context(), a.Caller(), operate.ChatQuery{Key: k}); !errors.Is(err,
		corebot.ErrNotFound) {
		t.Fatalf("the chat has a row, and its page shows nothing: %v", err)
	}
	if status, text := b.get("/chats/" + k.String()); status != http.StatusOK {
		t.Errorf("the chat of the dead letter is %d, %s", status, text)
	}
	_, text := b.get(at)
	if len(text) > 40_000 || !strings.Contains(text, `href="?edit=yes#edit"`) {
		t.Errorf("the page has %d bytes, and leads to no field: %.300s", len(text), text)
	}
	_, text = b.get(at + "?edit=yes")
	field := longField(t, text)
	if field != long {
		t.Errorf("the field has %d bytes of %d", len(field), len(long))
	}
	sent := strings.ReplaceAll(field, "\n", "\r\n") + " changed" // as a browser sends it
	status, text := b.post(at+"/edit", url.Values{"newId": {"lost-edited"}, "text": {sent}})
	if status != http.StatusOK || !strings.Contains(text, "The edited message is in the queue.") {
		t.Fatalf("the edit is answered with %d, %.2000s", status, text)
	}
	lives, err := storage.NewLives(a.Store).Find(t.Context(), "lost-edited")
	if err != nil || len(lives) != 1 {
		t.Fatalf("the edited message has %d lives: %v", len(lives), err)
	}
	ended(t, a.Store, lives[0].ID)
	var history struct {
		Rows []corebot.Said
	}
	newAPI(t, a, "reader", corebot.ScopeRead).get("/api/chats/main:webhook::work/history", &history)
	for _, e := range history.Rows {
		if e.Speaker == corebot.SpeakerUser && corebot.TextOf(e.Parts) == long+" changed" {
			return
		}
	}
	t.Errorf("the history has no such message among %d", len(history.Rows))
}

// A message of 1 MB arrives whole in every script, although a form spells most of its bytes with three. A form that is
// larger, or that cannot be read, is refused with its reason.
func TestAFormCarriesAMessageOfOneMegabyte(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	b := loggedIn(t, a)
	const chat = "/chats/main:console:local:large"
	long := strings.Repeat("Ж", 500_000)
	if status, text := b.post(chat+"/send", url.Values{"text": {long}, "id": {"large"}}); status != http.StatusOK {
		t.Fatalf("the message is answered with %d, %.2000s", status, text)
	}
	lives, err := storage.NewLives(a.Store).Find(t.Context(), "large")
	if err != nil || len(lives) != 1 {
		t.Fatalf("the message has %d lives: %v", len(lives), err)
	}
	ended(t, a.Store, lives[0].ID)
	_, text := b.get(chat + "?edit=large")
	if field := longField(t, text); field != long {
		t.Errorf("the field has %d bytes of %d", len(field), len(long))
	}
	if _, text := b.get(chat); len(text) > 40_000 {
		t.Errorf("the page of the chat has %d bytes", len(text))
	}
	for body, want := range map[string]int{
		"text=" + strings.Repeat("x", 4<<20): http.StatusRequestEntityTooLarge,
		"text=%zz":                           http.StatusUnprocessableEntity,
		"text=a;b=c":                         http.StatusUnprocessableEntity,
		"text=":                              http.StatusUnprocessableEntity,
		"text=%ff%fe":                        http.StatusUnprocessableEntity,
	} {
		for _, path := range []string{chat + "/send", "/approvals/1"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if status, text := b.do(r); status != want {
				t.Errorf("%s with %.20q is answered with %d, want %d: %.300s", path, body, status, want, text)
			}
		}
	}
}

// A message that waits is whole where a person changes it, however long it is, and what is sent takes its place.
func TestALongMessageThatWaitsIsChangedWhole(t *testing.T) {
	t.Parallel()
	model := httptest.NewServer(llmtest.New(llmtest.Always(llmtest.Text("It never ends.").Stall(1))))
	t.Cleanup(model.Close)
	b := loggedIn(t, daemon(t, t.TempDir(), func(c *config.Config) {
		c.LLM.Offline, c.LLM.Discover, c.Bus.Drain = false, false, time.Millisecond
		c.LLM.Providers = config.NewProviders(config.Provider{
			Name: "slow", Kind: "openai", BaseURL: model.URL + "/v1", Models: []string{"m"},
		})
	}))
	const chat = "/chats/main:console:local:waits"
	if status, text := b.post(chat+"/send", url.Values{"text": {"go"}, "id": {"first"}}); status != http.StatusOK {
		t.Fatalf("the first message is answered with %d, %.2000s", status, text)
	}
	b.eventually(chat, ">running<")                                       // so the next one waits
	long := "\n" + strings.Repeat(`<b>"lang"</b> ü世🙂 `, 8000) + "the end" // some 200 KB
	if status, text := b.post(chat+"/send", url.Values{"text": {long}, "id": {"second"}}); status != http.StatusOK {
		t.Fatalf("the second message is answered with %d, %.2000s", status, text)
	}
	if _, text := b.get(chat); len(text) > 60_000 || !strings.Contains(text, "?edit=second") {
		t.Errorf("the page has %d bytes, or no link to change the message", len(text))
	}
	_, text := b.get(chat + "?edit=second")
	field := longField(t, text)
	if field != long {
		t.Errorf("the field has %d bytes of %d", len(field), len(long))
	}
	sent := url.Values{"text": {field + " changed"}, "id": {"third"}, "edit": {"second"}}
	if status, text := b.post(chat+"/send", sent); status != http.StatusOK {
		t.Fatalf("the change is answered with %d, %.2000s", status, text)
	}
	if _, text := b.get(chat); strings.Contains(text, "?edit=second") || !strings.Contains(text, "?edit=third") {
		t.Error("the changed message does not wait in the place of the first")
	}
	_, text = b.get(chat + "?edit=third")
	if field := longField(t, text); field != long+" changed" {
		t.Errorf("then the message that waits has %d bytes, want %d", len(field), len(long)+8)
	}
}
