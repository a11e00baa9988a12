package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

// A cursor that is forged, or of another list, is refused with a reason by every list of the API. No list fails with an
// error of Corebot itself.
func TestEveryListRefusesCursorsThatAreNotItsOwn(t *testing.T) {
	t.Parallel()
	home, _ := deadHome(t)
	operator := newAPI(t, daemon(t, home), "operator", corebot.ScopeOperate)
	for range 2 { // so that lists have a second page
		operator.ask("POST", "/api/schedules",
			`{"chat": "main:webhook::work", "kind": "daily", "spec": "08:30", "prompt": "x"}`)
	}
	var doc struct {
		Paths map[string]map[string]struct{ Parameters []struct{ Name string } }
	}
	operator.get("/api/openapi.json", &doc)
	values := strings.NewReplacer("{agent}", "main", "{chat}", "main:webhook::work", "{id}", "1")
	var lists []string
	cursors := map[string]string{ // of which list
		"forged": "", "1": "", "-1": "", "0": "", "99999999999999999999": "", "' OR 1=1 --": "", "WyJkZWFkIiw3XQ": "",
		"WyJ0YXNrIiwtMV0": "", "W10": "", "bnVsbA": "", "\x00": "", strings.Repeat("A", 10_000): "",
	}
	for path, methods := range doc.Paths {
		for _, p := range methods["get"].Parameters {
			if p.Name == "after" && !strings.Contains(path, "{id}") {
				lists = append(lists, values.Replace(path))
			}
		}
	}
	for _, path := range lists {
		var page struct{ Next string }
		if _, answer := operator.ask("GET", path+"?limit=1&text=x", ""); json.Unmarshal(answer, &page) == nil &&
			page.Next != "" {
			cursors[page.Next] = path
		}
		if _, answer := operator.ask("GET", path+"?limit=1", ""); json.Unmarshal(answer, &page) == nil &&
			page.Next != "" {
			cursors[page.Next] = path
		}
	}
	if len(lists) < 10 || len(cursors) < 13 {
		t.Fatalf("there are %d lists and %d cursors", len(lists), len(cursors))
	}
	numbers := map[string]bool{"/api/audit/records": true, "/api/memory": true} // whose cursors are plain numbers
	for _, path := range lists {
		for cursor, of := range cursors {
			query := "?after=" + url.QueryEscape(cursor)
			if path == "/api/memory" {
				query += "&text=x"
			}
			status, answer := operator.ask("GET", path+query, "")
			if status >= 500 {
				t.Errorf("GET %s with the cursor %.30q: %d, %s", path, cursor, status, answer)
			}
			if of == "" && !numbers[path] && len(cursor) > 6 && status == http.StatusOK {
				t.Errorf("GET %s takes the cursor %.30q: %.200s", path, cursor, answer)
			}
			if of == path && status != http.StatusOK {
				t.Errorf("GET %s refuses its own cursor: %d, %s", path, status, answer)
			}
		}
	}
}

// A client can resume behind any number. It is told that it has missed something, and never the same event twice.
func TestASocketResumesBehindAnyNumber(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	app := newSender(t, a, "app", "main")
	w := app.dial()
	tell(t, w, map[string]any{"type": "subscribe", "agentId": "main", "sessionKey": "main"})
	tell(t, w, map[string]any{"type": "nonsense"})
	readTo(t, w, "error")
	tell(t, w, map[string]any{"type": "send", "agentId": "main", "id": "m1", "message": "hello there"})
	_, all := readTo(t, w, "history_updated")
	last := all[len(all)-1].Seq
	for name, after := range map[string]any{
		"an old one": 1, "a negative one": -7, "one beyond the end": last + 1_000_000, "the largest": int64(1<<63 - 1),
		"the smallest": int64(-1 << 63),
	} {
		conn := app.dial()
		tell(t, conn, map[string]any{"type": "resume", "agentId": "main", "sessionKey": "main", "after": after})
		tell(t, conn, map[string]any{"type": "nonsense"})
		_, told := readTo(t, conn, "error")
		if len(told) != 2 || told[0].Type != "history_updated" {
			t.Errorf("behind %s it is told %+v", name, told)
		}
	}
	for name, after := range map[string]any{"a text": "1", "a fraction": 1.5, "a number without end": 1e300} {
		conn := app.dial()
		tell(t, conn, map[string]any{"type": "resume", "agentId": "main", "sessionKey": "main", "after": after})
		if _, told := readTo(t, conn, "error"); len(told) != 1 {
			t.Errorf("behind %s it is told %+v", name, told)
		}
	}
}

// Many browsers send one login code at once: one of them is logged in.
func TestOneOfManyBrowsersUsesALoginCode(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	code := codeOf(t, a)
	var in atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		b := newBrowser(t, a)
		all.Go(func() {
			if status, _ := b.post("/login", url.Values{"code": {code}}); status == http.StatusOK {
				in.Add(1)
			} else if status != http.StatusForbidden {
				t.Errorf("a browser gets %d", status)
			}
		})
	}
	all.Wait()
	sessions, err := operate.ListSessions.Call(t.Context(), a.Caller(), operate.SessionQuery{})
	if err != nil || in.Load() != 1 || len(sessions.Rows) != 1 {
		t.Errorf("%d browsers are logged in, and there are %d sessions: %v", in.Load(), len(sessions.Rows), err)
	}
}

// A cookie that was changed opens nothing, and one of a session that was logged out neither.
func TestOnlyTheWholeCookieOfASessionInForceOpensTheConsole(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	b := loggedIn(t, a)
	at, err := url.Parse(b.base)
	if err != nil {
		t.Fatal(err)
	}
	cookies := b.client.Jar.Cookies(at)
	if len(cookies) != 1 {
		t.Fatalf("there are %d cookies", len(cookies))
	}
	name, secret := cookies[0].Name, cookies[0].Value
	opens := func(value string) bool {
		r := b.request(http.MethodGet, "/settings", nil, "Accept", "application/json", "Cookie", value)
		status, _ := newBrowser(t, a).do(r)
		return status == http.StatusOK
	}
	if !opens(name + "=" + secret) {
		t.Fatal("the cookie itself opens nothing")
	}
	for _, forged := range []string{
		name + "=" + secret[:len(secret)-1], name + "=" + secret + "A", name + "=" + strings.ToUpper(secret),
		name + "=" + secret[1:] + secret[:1], name + "=\"\"",
		name + "=x; " + name + "=" + secret, "__Host-" + name + "=" + secret,
		"corebot=" + secret, name + "=" + strings.Repeat("A", 4000),
	} {
		if opens(forged) {
			t.Errorf("the cookie %.60q opens the settings", forged)
		}
	}
	b.post("/logout", nil)
	if opens(name + "=" + secret) {
		t.Error("after the logout its cookie opens the settings")
	}
}

// A page of another site can send a form of any type without asking. Neither the console nor the API takes it.
func TestNoContentTypeCarriesAPostOfAnotherSite(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	b := loggedIn(t, a)
	operator := newAPI(t, a, "operator", corebot.ScopeOperate)
	for _, kind := range []string{
		"application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "application/json",
		"text/html", "", "application/json; charset=utf-7", "text/plain; application/json",
	} {
		for path, body := range map[string]string{
			"/chats/main:console:local:x/send": "text=hello&id=forged",
			"/api/schedules": `{"chat": "main:webhook::x", "kind": "once", "spec": "1h",
				"prompt": "forged"}`,
		} {
			for _, origin := range []string{"https://evil.example", "null", "http://127.0.0.1:1"} {
				r, err := http.NewRequestWithContext(t.Context(), "POST", b.base+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header = http.Header{
					"Content-Type": {kind}, "Origin": {origin}, "Authorization": {"Bearer " + operator.token},
				}
				if status, text := b.do(r); status != http.StatusForbidden {
					t.Errorf("%s as %q from %s is %d, %.100s", path, kind, origin, status, text)
				}
			}
		}
	}
	var tasks operate.Page[json.RawMessage]
	if operator.get("/api/schedules", &tasks); len(tasks.Rows) > 0 {
		t.Errorf("tasks were made: %s", tasks.Rows)
	}
	if status, answer := operator.ask("GET", "/api/messages/forged", ""); status == http.StatusOK &&
		strings.Contains(string(answer), `"direction"`) {
		t.Errorf("a message was sent: %s", answer)
	}
}

// No spelling of a foreign name as Host reaches anything, also not one that begins or ends as a name of the listener.
// An address is no name that somebody could lead elsewhere, and no browser leaves Host out.
func TestNoSpellingOfAForeignHostReachesThePages(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	addr := a.ConsoleAddr()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(head string) (line string) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprint(conn, head+"Connection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		line, _ = bufio.NewReader(conn).ReadString('\n') // a refused request has one, too
		return line
	}
	if line := ask("GET /login HTTP/1.1\r\nHost: localhost:" + port + "\r\n"); !strings.Contains(line, " 200 ") {
		t.Fatalf("its own name gets %q", line)
	}
	for _, host := range []string{
		"evil.example", "evil.example:" + port, "127.0.0.1.evil.example:" + port, "localhost.evil.example",
		"127.0.0.1@evil.example", "127.0.0.1:" + port + "@evil.example", "evil.example#127.0.0.1",
		"127.0.0.1:" + port + ", evil.example", "localhost\x00.evil.example", "xlocalhost:" + port,
		"2130706433:" + port, "0x7f.1:" + port,
	} {
		for _, path := range []string{"/login", "/api/status"} {
			line := ask("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n")
			if !strings.Contains(line, " 421 ") && !strings.Contains(line, " 400 ") {
				t.Errorf("the host %q gets %q at %s", host, line, path)
			}
		}
	}
	for name, head := range map[string]string{
		"an address in the request":  "GET http://evil.example/login HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\n",
		"two hosts":                  "GET /login HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nHost: evil.example\r\n",
		"a forwarded one beside its": "GET /login HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\n",
		"no host":                    "GET /login HTTP/1.1\r\n",
	} {
		if line := ask(head); !strings.Contains(line, " 421 ") && !strings.Contains(line, " 400 ") {
			t.Errorf("%s gets %q", name, line)
		}
	}
}
