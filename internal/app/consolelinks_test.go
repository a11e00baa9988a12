package app_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// followed are the headers of a browser in which somebody follows a link on a page of another site.
func followed(site string, more ...string) []string {
	return append([]string{
		"Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document",
	}, more...)
}

// answered is the answer to a request, with no redirect followed.
func (b browser) answered(r *http.Request) (int, string) {
	b.t.Helper()
	client := *b.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(text) + resp.Header.Get("Location")
}

// A link on a page of another site leads to a page that asks again by itself, since the browser keeps the cookie back
// from other sites. The page tells nobody anything, and leads to no other host.
func TestALinkOnAnotherSiteLeadsToThePageOrToTheLogin(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	in, out := loggedIn(t, a), newBrowser(t, a)
	for path, to := range map[string]string{
		"/": "/", "/audit?tool=a%20b&after=%22x": "/audit?tool=a%20b&amp;after=%22x",
		"//evil.example/x": "/evil.example/x", "/%5cevil.example": "/%5cevil.example",
		"///evil.example": "/evil.example", `/?x=";url=//evil.example`: "/?x=&#34;;url=//evil.example",
	} {
		for _, site := range []string{"cross-site", "same-site"} {
			for _, b := range []browser{in, out} {
				r := b.request(http.MethodGet, "/", nil, followed(site)...)
				r.URL.RawPath, r.URL.RawQuery, _ = strings.Cut(path, "?") // as it stands
				r.URL.Path, _ = url.PathUnescape(r.URL.RawPath)
				status, text := b.answered(r)
				want := `content="0;url=` + to + `"><p><a href="` + to + `">Go on to Corebot</a></p>`
				if status != http.StatusOK || !strings.HasSuffix(text, want) {
					t.Errorf("%s from %s is answered with %d, %s, want %s", path, site, status, text, want)
				}
			}
		}
	}
	same := followed("same-origin") // what the page asks for
	if status, text := in.answered(in.request(http.MethodGet, "/audit", nil, same...)); status != http.StatusOK ||
		!strings.Contains(text, "<h1>Audit") {
		t.Errorf("then it is %d, %.2000s", status, text)
	}
	status, text := out.answered(out.request(http.MethodGet, "/audit", nil, same...))
	if status != http.StatusSeeOther || !strings.HasSuffix(text, "/login?to=%2Faudit") {
		t.Errorf("who is logged out gets %d, %s", status, text)
	}
	// The page to log in is there at once: what is behind the # of its address would be lost on the way.
	if status, text := out.answered(out.request(http.MethodGet, "/login", nil, followed("cross-site")...)); status !=
		http.StatusOK || !strings.Contains(text, "data-login") {
		t.Errorf("the page to log in is %d, %s", status, text)
	}
}

// A login ends on the page that was asked for. It leads to no other site, whatever the address of the page to log in
// says.
func TestALoginEndsOnThePageThatWasAskedFor(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	for asked, want := range map[string]string{
		"/audit?tool=a%20b&chat=%22x": "/audit?tool=a%20b&chat=%22x", "/": "/", "": "/", "audit": "/",
		"//evil.example/x": "/", "///evil.example": "/", `/\evil.example`: "/", `\\evil.example`: "/",
		"https://evil.example/": "/",
		"/\t/evil.example":      "/", "/\n/evil.example": "/", "javascript:alert(1)": "/", "/x\r\nSet-Cookie: a=b": "/",
		"/" + strings.Repeat("x", 5000): "/",
	} {
		b := newBrowser(t, a)
		at := "/login?to=" + url.QueryEscape(asked)
		status, text := b.get(at)
		field := `<input type="hidden" name="to" value="` + html.EscapeString(asked) + `">`
		if status != http.StatusOK || strings.Contains(text, field) != (asked == want) {
			t.Errorf("the page to log in for %.80q is %d, %.2000s", asked, status, text)
		}
		post := func(code string) (int, string) {
			return b.answered(b.request(http.MethodPost, "/login", url.Values{"code": {code}, "to": {asked}}))
		}
		if status, text := post("wrong"); status != http.StatusForbidden ||
			strings.Contains(text, field) != (asked == want) {
			t.Errorf("with a wrong code it is %d, %.2000s", status, text)
		}
		if status, text := post(codeOf(t, a)); status != http.StatusSeeOther || !strings.HasSuffix(text, want) ||
			strings.Contains(text, "evil") {
			t.Errorf("the login for %.80q ends with %d, %.200s, want %s", asked, status, text, want)
		}
		if status, text := b.answered(b.request(http.MethodGet, at, nil)); status != http.StatusSeeOther ||
			text != want+"#" {
			t.Errorf("who is logged in gets %d, %.200s for %.80q, want %s#", status, text, asked, want)
		}
	}
	out := newBrowser(t, a)
	r := out.request(http.MethodGet, "/audit?tool=x", nil)
	if status, text := out.answered(r); status != http.StatusSeeOther ||
		!strings.HasSuffix(text, "/login?to=%2Faudit%3Ftool%3Dx") {
		t.Errorf("who is logged out gets %d, %s", status, text)
	}
}

// All else that a page of another site can ask for is refused, as it was.
func TestNothingButALinkOnAnotherSiteIsAnswered(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	b := loggedIn(t, a)
	for _, site := range []string{"cross-site", "same-site"} {
		for name, headers := range map[string][]string{
			"a frame":           followed(site, "Sec-Fetch-Dest", "iframe"),
			"a script":          followed(site, "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"),
			"a picture":         followed(site, "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"),
			"a fetch":           followed(site, "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"),
			"a page in advance": followed(site, "Sec-Purpose", "prefetch;prerender"),
			"an old browser":    {"Sec-Fetch-Site", site},
			"another origin":    followed(site, "Origin", "https://evil.example"),
		} {
			for _, path := range []string{"/", "/login", "/audit/export", "/now/stream", "/session"} {
				if status, text := b.answered(b.request(http.MethodGet, path, nil, headers...)); status !=
					http.StatusForbidden {
					t.Errorf("%s of %s that is %s gets %d: %.200s", name, path, site, status, text)
				}
			}
		}
		for _, path := range []string{"/login", "/logout", "/chats"} {
			r := b.request(http.MethodPost, path, map[string][]string{"code": {"x"}, "name": {"x"}}, followed(site)...)
			if status, text := b.answered(r); status != http.StatusForbidden {
				t.Errorf("a form to %s from %s gets %d: %.200s", path, site, status, text)
			}
		}
		for _, path := range []string{"/api/status", "/api/openapi.json", "/ws"} {
			if status, text := b.answered(b.request(http.MethodGet, path, nil, followed(site)...)); status !=
				http.StatusForbidden {
				t.Errorf("a link to %s from %s gets %d: %.200s", path, site, status, text)
			}
		}
	}
	r := b.request(http.MethodGet, "/", nil, followed("cross-site")...)
	r.Host = "evil.example"
	if status, _ := b.answered(r); status != http.StatusMisdirectedRequest {
		t.Errorf("a link to another Host gets %d", status)
	}
	if status, _ := b.get("/session", "Accept", "application/json"); status != http.StatusNoContent {
		t.Errorf("the browser is logged out: %d", status)
	}
}
