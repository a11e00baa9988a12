package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/chromedp/chromedp"
)

// followLinks follows links on pages of two other sites, with the mouse: one of another host, and one of another port
// whose requests have the cookie. A frame with the console in it stays empty.
func followLinks(b *browsing, p *tab) {
	link := strings.TrimSpace(b.output("console"))
	wiki := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><title>wiki</title>
<a id="audit" href="%s/audit?tool=fs.list#main">audit</a>
<a id="login" href="%s">log in</a><iframe src="%s/" onload="document.title = 'framed'"></iframe>`, b.base, link, b.base)
	}))
	p.t.Cleanup(wiki.Close)
	elsewhere := strings.Replace(wiki.URL, "127.0.0.1", "localhost", 1)
	for _, site := range []string{wiki.URL, elsewhere} {
		in := newTab(p.t, b.browser, site, false)
		in.run(chromedp.Navigate(site))
		in.until(`document.title === "framed"`)
		in.click("#audit")
		in.until(`document.querySelector("h1")?.innerText === "Audit" && location.search === "?tool=fs.list"`)
		in.eval(`history.back()`) // the page on the way is no entry of its own
		in.until(`document.title === "framed"`)
		if n := in.eval(`document.querySelector("iframe").contentDocument?.body.innerText ?? ""`); n != "" {
			p.t.Errorf("a page of %s has a frame with %v", site, n)
		}
	}
	out := newTab(p.t, b.browser, elsewhere, false, chromedp.WithNewBrowserContext())
	out.run(chromedp.Navigate(elsewhere))
	out.until(`document.title === "framed"`)
	out.click("#audit")
	out.until(`location.pathname === "/login" && !!document.querySelector("[data-login]")`)
	// A program that looks at the address in advance does not use the code up.
	for range 2 {
		resp, err := http.Get(link)
		if err != nil {
			p.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close() // only that it was asked for counts
	}
	out.run(chromedp.Navigate(elsewhere))
	out.until(`document.title === "framed"`)
	out.click("#login")
	out.until(`location.pathname === "/" && !location.hash && document.querySelector("h1")?.innerText === "Now"`)
}
