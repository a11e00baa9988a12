package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// halves stands between a browser and the console. It sends the page of the audit trail in two halves, the second when
// it is told to.
type halves struct {
	proxy  *httputil.ReverseProxy
	second chan struct{}
}

func (h *halves) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/audit" {
		h.proxy.ServeHTTP(w, r)
		return
	}
	whole := httptest.NewRecorder()
	r.Header.Del("Accept-Encoding")
	h.proxy.ServeHTTP(whole, r)
	first, second, _ := strings.Cut(whole.Body.String(), "</main>")
	for name, values := range whole.Header() {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	_, _ = io.WriteString(w, first) // the browser sees what is missing
	_ = http.NewResponseController(w).Flush()
	select {
	case <-h.second:
	case <-r.Context().Done():
	}
	_, _ = io.WriteString(w, "</main>"+second)
}

// showWhole opens a page that comes in two halves. The browser shows the first frame when the page is whole: the lower
// half would move the bars and the upper half.
func showWhole(b *browsing, p *tab) {
	to, err := url.Parse(b.base)
	if err != nil {
		p.t.Fatal(err)
	}
	h := &halves{second: make(chan struct{}), proxy: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}, ErrorLog: log.New(io.Discard, "", 0)}} // the browser leaves streams
	web := httptest.NewServer(h)
	p.t.Cleanup(web.Close)
	far := newTab(p.t, b.browser, web.URL, false)
	link := strings.TrimSpace(b.output("console"))
	far.run(chromedp.Navigate(strings.Replace(link, b.base, web.URL, 1)))
	far.until(`location.pathname === "/" && document.querySelector("h1")?.innerText === "Now"`)
	far.eval(`location.assign("/audit")`)
	far.until(`location.pathname === "/audit" && document.querySelector("h1")?.innerText === "Audit"`)
	far.eval(`requestAnimationFrame(() => { window.whole = !!document.getElementById("help"); })`)
	time.Sleep(300 * time.Millisecond) // for a frame that the browser must not show
	close(h.second)
	far.until(`window.whole !== undefined && document.readyState === "complete"`)
	if far.eval("window.whole") != true {
		p.t.Error("the browser has shown a half of the page")
	}
}
