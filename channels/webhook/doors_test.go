package webhook

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// askTo sends a request with the token to a webhook on a real port.
func askTo(t *testing.T, w *Webhook, method, path, body string, headers map[string]string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.Addr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	r.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	got, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * headerTime}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{got.StatusCode, got.Header, string(b)}
}

func TestAWebPageGetsNothingEvenWithTheToken(t *testing.T) {
	w, d := listening(t, Options{}), new(door)
	serve(t, w, d)
	for what, c := range map[string]struct {
		header, value string
		status        int
	}{
		"a name that was made to resolve here": {"Host", "evil.example:8788", 421},
		"a page of another origin":             {"Origin", "https://evil.example", 403},
		"a page without an origin":             {"Origin", "null", 403},
		"an image of another site":             {"Sec-Fetch-Site", "cross-site", 403},
	} {
		for path, method := range map[string]string{
			pathPost: "POST", pathOutbound + "?chatId=c": "GET",
			pathStream + "?chatId=c": "GET", "/": "GET",
		} {
			body := goodBody
			if method == "GET" {
				body = ""
			}
			got := askTo(t, w, method, path, body, map[string]string{c.header: c.value})
			wantProblem(t, got, c.status, "")
			requireNoCORS(t, what, got)
		}
	}
	if d.count() != 0 {
		t.Error("something came in")
	}
	preflight := askTo(t, w, "OPTIONS", pathPost, "", map[string]string{"Access-Control-Request-Method": "POST"})
	requireNoCORS(t, "a preflight", preflight)
	if preflight.status != http.StatusMethodNotAllowed {
		t.Errorf("a preflight is answered %d", preflight.status)
	}
	for _, host := range []string{w.Addr(), "localhost:" + fmt.Sprint(w.listener.Addr().(*net.TCPAddr).Port)} {
		if got := askTo(t, w, "POST", pathPost, goodBody, map[string]string{"Host": host}); got.status != 202 {
			t.Errorf("a program that calls it %s is answered %d", host, got.status)
		}
	}
}

func requireNoCORS(t *testing.T, what string, got response) {
	t.Helper()
	for name := range got.header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s: %s is set", what, name)
		}
	}
	if got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: a browser may guess what the answer is", what)
	}
}

func TestAForwardedHeaderChangesNothing(t *testing.T) {
	w, d := listening(t, Options{}), new(door)
	serve(t, w, d)
	forged := map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https",
		"X-Real-Ip": "127.0.0.1", "X-Forwarded-User": "admin",
		"Forwarded": `for=127.0.0.1;host=evil.example`, "X-Original-Url": "/webhook/outbound",
		"X-Http-Method-Override": "GET", "True-Client-Ip": "127.0.0.1",
	}
	bodies := []string{goodBody, strings.Replace(goodBody, `"id":"`, `"id":"2`, 1)}
	plain, with := askTo(t, w, "POST", pathPost, bodies[0], nil), askTo(t, w, "POST", pathPost, bodies[1], forged)
	if plain.status != 202 || with.status != 202 {
		t.Fatalf("answered %d and %d", plain.status, with.status)
	}
	a, b := d.in[0], d.in[1]
	if a.ID = b.ID; a.Text() != b.Text() || a.SenderID != b.SenderID || a.SenderName != b.SenderName ||
		a.Chat != b.Chat || !maps.EqualFunc(a.Metadata, b.Metadata, slices.Equal) {
		t.Errorf("what came in is %+v, and with forged headers %+v", a, b)
	}
	forged["Authorization"] = "Bearer not-the-right-one"
	wantProblem(t, askTo(t, w, "POST", pathPost, goodBody, forged), 401, "")
}

func TestTwoHundredSlowCallersKeepNobodyWaiting(t *testing.T) {
	w, d := listening(t, Options{}), new(door)
	serve(t, w, d)
	for i := range 200 {
		c, err := net.Dial("tcp", w.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // gone with the test
		sent := []string{
			"P", "POST /webhook HTTP/1.1\r\nHost: localhost\r\nX-A: b",
			postHead + "Content-Length: 100\r\n\r\n{", "",
		}[i%4]
		if _, err := io.WriteString(c, strings.Replace(sent, "Host: h\r", "Host: localhost\r", 1)); err != nil {
			t.Fatal(err)
		}
	}
	slowest := time.Duration(0)
	for i := range 20 {
		began := time.Now()
		if got := askTo(t, w, "POST", pathPost, fmt.Sprintf(`{"id":"m%d","chatId":"c","content":"x"}`, i),
			nil); got.status != 202 {
			t.Errorf("message %d is answered %d", i, got.status)
		}
		slowest = max(slowest, time.Since(began))
	}
	if slowest >= headerTime || d.count() != 20 {
		t.Errorf("%d came in, the slowest after %v", d.count(), slowest)
	}
}
