package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/corebot/corebot/internal/long"
)

// TestTheWallsOfTheConsoleHoldInABrowser attacks a person who is logged in to the real program in a real browser.
func TestTheWallsOfTheConsoleHoldInABrowser(t *testing.T) {
	long.Only(t, "TestStories")
	t.Parallel()
	b := startBrowsing(t)
	p := newTab(t, b.browser, b.base, true)
	b.logIn(p)
	const chat = "/chats/main:console:local:garden"
	p.open(chat)
	p.say("hello there")
	b.play(p, chat, []story{
		{"a stream is cut in the middle of a character", cutInACharacter},
		{"pages of other sites", refuseOthers},
		{"links on pages of other sites", followLinks},
		{"files that are scripts", keepFiles},
		{"a page that comes in halves", showWhole},
		{"a browser that is logged out", leaveNothing},
	})
}

// forgeries is what a page of another site tries. It has the cookie of the console, a token, and a login code that
// works. Each forgery that could have been carried out is named in got.
const forgeries = `(async () => {
	const base = %q, send = base + %q + "/send", token = %q, code = %q, n = %d, got = window.got = {};
	const form = "application/x-www-form-urlencoded";
	const post = (url, type, body, mode) => fetch(url, { method: "POST", mode, credentials: "include", body,
		headers: { "Content-Type": type } }).then((r) => r.type, () => "refused");
	for (const type of [form, "text/plain"]) {
		await post(send, type, "text=forged&id=a" + n + type, "no-cors");
		got["post as " + type] = await post(send, type, "text=forged&id=b" + n + type, "cors");
	}
	const task = JSON.stringify({ chat: "main:console:local:garden", kind: "once", spec: "1h", prompt: "forged" });
	await post(base + "/api/schedules", "text/plain", task, "no-cors");
	got.api = await fetch(base + "/api/schedules", { method: "POST", body: task,
		headers: { "Content-Type": "application/json", Authorization: "Bearer " + token },
	}).then(() => "made", () => "refused");
	navigator.sendBeacon(send, new Blob(["text=forged&id=c" + n], { type: form }));
	for (const [action, name, value] of [[send, "text", "forged"], [base + "/login", "code", code]]) {
		for (const type of [form, "text/plain", "multipart/form-data"]) {
			const [f, into, field] = ["form", "iframe", "input"].map((tag) => document.createElement(tag));
			Object.assign(f, { action, method: "post", enctype: type, target: "into" });
			into.name = "into";
			Object.assign(field, { name, value });
			f.append(field);
			document.body.append(into, f);
			await new Promise((done) => { into.onload = done; f.submit(); });
			into.remove();
		}
	}
	const opened = (o) => new Promise((done) => { o.onopen = () => done("open"); o.onerror = () => done("refused"); });
	got.socket = await opened(new WebSocket(base.replace("http", "ws") + "/ws", ["corebot", "bearer." + token]));
	got.stream = await opened(new EventSource(base + "/now/stream", { withCredentials: true }));
	got.page = await fetch(base + "/settings", { credentials: "include" }).then(() => "read", () => "refused");
	got.script = await new Promise((done) => {
		const s = document.createElement("script");
		Object.assign(s, { src: base + "/audit/export", onload: () => done("loaded") });
		s.onerror = () => done("refused");
		document.head.append(s);
	});
	window.tried = true;
})()`

// refuseOthers opens pages of other sites, which try to act for the person who is logged in. One is of another host.
// The other is of another port: the browser sends the cookie with its requests.
func refuseOthers(b *browsing, p *tab) {
	chat := p.eval("location.pathname").(string)
	token := strings.TrimSpace(b.output("tokens", "add", "stolen", "--scope", "operate"))
	link := strings.TrimSpace(b.output("console"))
	_, code, _ := strings.Cut(link, "#")
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>evil</title><body>") // or the tab has no title
	}))
	p.t.Cleanup(evil.Close)
	for n, origin := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
		other := newTab(p.t, b.browser, origin, true)
		other.run(chromedp.Navigate(origin))
		other.until(`document.title === "evil"`)
		other.eval(fmt.Sprintf(forgeries, b.base, chat, token, code, n))
		other.until(`window.tried === true`)
		if got := other.eval(`Object.entries(window.got).filter(([, v]) => v !== "refused").join(" ")`); got != "" {
			p.t.Errorf("a page of %s gets %v", origin, got)
		}
	}
	// The page itself can do it.
	p.eval(fmt.Sprintf(`fetch(%q, { method: "POST", body: new URLSearchParams({ text: "from the page itself" }) })`,
		chat+"/send"))
	p.shows("from the page itself")
	p.until(`document.querySelectorAll("#waiting .entry").length === 0`)
	p.open(chat)
	if text := p.text(); strings.Contains(text, "forged") {
		p.t.Errorf("a message was forged: %s", text)
	}
	if tasks := b.output("tasks", "list", "--json"); strings.Contains(tasks, "forged") {
		p.t.Errorf("a task was forged: %s", tasks)
	}
	// Nobody has used the code. A browser that is logged in does not use it either, and shows it nowhere.
	p.run(chromedp.Navigate(link))
	p.until(`location.pathname === "/" && !location.hash && document.querySelector("h1").innerText === "Now"`)
	fresh := newTab(p.t, b.browser, b.base, true, chromedp.WithNewBrowserContext())
	fresh.run(chromedp.Navigate(link))
	fresh.until(`location.pathname === "/" && !location.hash && document.querySelector("h1").innerText === "Now"`)
}

// keepFiles opens files that are scripts, as a page that was taken over would. No file becomes a page, a frame or a
// script.
func keepFiles(b *browsing, p *tab) {
	const script = `document.title = "broken"; top.document.title = "broken";`
	for name, content := range map[string]string{
		"evil.html": "<script>" + script + "</script>",
		"evil.svg":  `<svg xmlns="http://www.w3.org/2000/svg"><script>` + script + `</script></svg>`,
		"evil.js":   script,
	} {
		if err := os.WriteFile(filepath.Join(b.home, "workspace", name), []byte(content), 0o600); err != nil {
			p.t.Fatal(err)
		}
		p.say("UPLOAD " + name)
		p.until(fmt.Sprintf(`[...document.querySelectorAll("#log .file a")].some((a) => a.innerText === %q)`, name))
		p.until(`document.querySelectorAll("#waiting .entry").length === 0`)
	}
	at := p.eval("location.href")
	p.eval(`(async () => {
		const files = [...document.querySelectorAll("#log .file a")].map((a) => a.href);
		window.files = files.length;
		window.ran = [];
		for (const href of files) {
			for (const tag of ["iframe", "embed", "script"]) { // whether a script runs is known
				await new Promise((done) => {
					const e = document.createElement(tag);
					e.onload = () => { if (tag === "script") window.ran.push(href); done(); };
					e.onerror = done;
					e.src = href;
					document.body.append(e);
					if (tag !== "script") done();
				});
			}
			window.open(href);
			location.assign(href);
		}
		window.tried = true;
	})()`)
	p.until(`window.tried === true`)
	got := p.eval(`window.files + " " + window.ran.join(" ") + document.title.includes("broken")`)
	if got != "3 false" {
		p.t.Errorf("of the files these have run: %v", got)
	}
	if now := p.eval("location.href"); now != at {
		p.t.Errorf("a file has become the page %v", now)
	}
	if framed := p.eval(`[...document.querySelectorAll("iframe")]` +
		`.map((f) => f.contentDocument?.body?.innerHTML).join("")`); framed != "" {
		p.t.Errorf("a frame shows %v", framed)
	}
	// No page of the console stands in a frame, not even in one of its own.
	p.open("/approvals")
	p.eval(`(() => {
		const f = document.createElement("iframe");
		f.onload = () => { window.framed = String(f.contentDocument?.body?.innerText); };
		f.src = "/settings";
		document.body.append(f);
	})()`)
	p.until(`window.framed !== undefined`)
	if framed := p.eval("window.framed"); strings.Contains(fmt.Sprint(framed), "Settings") {
		p.t.Errorf("a frame shows %v", framed)
	}
}

// wideAnswer has a character of four bytes in its middle.
const wideAnswer = "größer als 世界 sind nur wenige Worte 🙂 und danach kommt noch ein langes Ende"

// cutter stands between a browser and the console. It cuts connections in the middle of a character.
type cutter struct {
	net.Listener
	to   string
	left atomic.Int64 // how many connections are still to be cut
}

func (c *cutter) serve() {
	for {
		from, err := c.Accept()
		if err != nil {
			return
		}
		go c.pass(from)
	}
}

func (c *cutter) pass(from net.Conn) {
	defer from.Close() //nolint:errcheck // either side may have cut it
	to, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer to.Close() //nolint:errcheck // as above
	go func() {
		_, _ = io.Copy(to, from) // until either side cuts
		_ = to.Close()
	}()
	room := make([]byte, 64<<10)
	for {
		n, err := to.Read(room)
		if at := strings.Index(string(room[:n]), "🙂"); at >= 0 && c.left.Load() > 0 {
			c.left.Add(-1)
			_, _ = from.Write(room[:at+2]) // half of the character
			return
		}
		if _, failed := from.Write(room[:n]); failed != nil || err != nil {
			return
		}
	}
}

// cutInACharacter cuts the stream of a page twice in the middle of a character: first in an answer that grows, then in
// the answer as it is stored. The page shows the character whole, and once.
func cutInACharacter(b *browsing, p *tab) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	c := &cutter{Listener: l, to: strings.TrimPrefix(b.base, "http://")}
	p.t.Cleanup(func() { _ = l.Close() })
	go c.serve()
	base := "http://" + l.Addr().String()
	far := newTab(p.t, b.browser, base, true)
	link := strings.TrimSpace(b.output("console"))
	far.run(chromedp.Navigate(strings.Replace(link, b.base, base, 1)))
	far.until(`location.pathname === "/" && document.querySelector("h1").innerText === "Now"`)
	far.open(p.eval("location.pathname").(string))
	far.say("first words") // which come again if the page does not say what it has
	far.until(`[...document.querySelectorAll("#log .from-user")].some((e) => e.innerText.includes("first words"))`)
	c.left.Store(2)
	far.say("WIDE please")
	far.until(fmt.Sprintf(`document.getElementById("log").innerText.includes(%q)`, wideAnswer))
	far.until(`!document.querySelector(".offline") && document.getElementById("draft").hidden`)
	if left := c.left.Load(); left != 0 {
		p.t.Errorf("%d connections were not cut", left)
	}
	far.once(wideAnswer)
	far.once("WIDE please")
	far.once("first words")
	if far.eval(`document.body.innerText.includes("\ufffd")`) == true {
		p.t.Errorf("half a character is shown: %s", far.text())
	}
}

// leaveNothing logs a browser out. None of its tabs shows anything any more, whether it goes back, or its page was
// open.
func leaveNothing(b *browsing, p *tab) {
	chat := p.eval("location.pathname").(string)
	first := newTab(p.t, b.browser, b.base, true, chromedp.WithNewBrowserContext())
	b.logIn(first)
	var others []*tab
	for _, path := range []string{"/", chat, "/audit"} {
		other := newTab(p.t, first.ctx, b.base, true)
		other.open(path)
		other.until(`!!document.querySelector("header.top")`)
		others = append(others, other)
	}
	first.open(chat)
	first.shows("hello there")
	first.open("/settings")
	first.eval("window.before = true")
	first.click(`//nav//button[normalize-space()="Log out"]`)
	first.until(`location.pathname === "/login" && !window.before`)
	others[2].eval(`document.dispatchEvent(new Event("visibilitychange"))`) // as if somebody looked at it
	for _, other := range others {
		other.until(`location.pathname === "/login"`)
	}
	for range 2 {
		first.eval(`window.before = true, setTimeout(() => history.back()), 0`)
		first.until(`location.pathname === "/login" && !window.before`)
	}
	// A session that somebody else ends leaves the cookie, so that the browser can bring back what it has kept.
	b.logIn(first)
	first.open(chat)
	first.run(chromedp.Navigate("about:blank"))
	p.open("/settings")
	p.click(`(//main//form[contains(@action, "/sessions/")]//button)[last()]`)
	p.shows("logged out")
	first.eval(`setTimeout(() => history.back()), 0`)
	first.until(`location.pathname === "/login"`)
}
