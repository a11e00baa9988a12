package main

import (
	"time"

	"github.com/chromedp/chromedp"
)

func (p *tab) key(keys string) {
	p.t.Helper()
	p.run(chromedp.KeyEvent(keys))
}

// useKeys goes through a list, to its search, and approves a call, with keys alone.
func useKeys(_ *browsing, p *tab) {
	p.say("WRITE by a key")
	p.shows("May it call")
	p.open("/audit")
	const chosen = `[...document.querySelectorAll("main [data-row]")].findIndex(r => r.classList.contains("chosen"))`
	for _, step := range []struct{ key, want string }{
		{"j", "0"}, {"j", "1"}, {"j", "2"}, {"k", "1"}, {"k", "0"}, {"k", "0"},
	} {
		p.key(step.key)
		p.until(chosen + " === " + step.want)
	}
	p.until(`document.activeElement.closest("[data-row]") === document.querySelector("main [data-row]")`)
	p.key("/")
	p.until(`document.activeElement.matches("main [data-search]") && !!document.activeElement.offsetParent`)
	p.key("j") // is a letter there, and no key
	p.until(`document.activeElement.value.endsWith("j") && ` + chosen + ` === 0`)
	p.open("/approvals")
	p.shows("notes/a.md")
	p.key("a")
	p.shows("is approved")
	p.until(`!document.querySelector("[data-approve]")`)
	p.open("/approvals")
	p.key("a") // nothing is left to approve
	p.calm()
}

// moveNothing holds that no part of a page moves once it is shown, on a desktop and on a phone.
func moveNothing(_ *browsing, p *tab) {
	chat := p.eval("location.pathname").(string)
	for _, width := range []int64{1200, 390} {
		p.run(chromedp.EmulateViewport(width, 860))
		for _, path := range []string{
			"/", "/chats", chat, chat + "?view=full", "/approvals", "/deadletters", "/tasks", "/jobs", "/cost",
			"/health",
			"/audit", "/why?id=m1", "/channels", "/mcp", "/skills", "/memory", "/settings",
		} {
			p.open(path)
			p.still()
		}
	}
	p.run(chromedp.EmulateViewport(1200, 900))
}

// still holds that nothing on the page has moved since it was first shown, and moves.
func (p *tab) still() {
	p.t.Helper()
	p.eval(`(() => {
		window.moved = [];
		new PerformanceObserver(list => {
			for (const e of list.getEntries()) if (!e.hadRecentInput) window.moved.push(e.value + " " +
				e.sources.map(s => s.node && (s.node.id || s.node.className || s.node.nodeName)).join(" "));
		}).observe({ type: "layout-shift", buffered: true });
	})()`)
	time.Sleep(300 * time.Millisecond)
	if moved := p.eval(`window.moved.join("\n")`); moved != "" {
		p.t.Errorf("on %v, %v pixels wide, something moves: %v", p.eval("location.pathname"), p.eval("innerWidth"),
			moved)
	}
}

// showWork sends a form whose answer never comes, as that of long work: the policy of the page refuses its address. The
// page says that it is busy, once the work takes longer than a moment, and no more when an answer is there.
func showWork(b *browsing, p *tab) {
	strict := newTab(p.t, b.browser, b.base, false)
	strict.open("/audit")
	strict.until(`!document.body.ariaBusy`)
	strict.eval(`document.querySelector("form[action='/audit/verify']").action = "http://127.0.0.1:1/"`)
	strict.press("Verify the whole trail")
	strict.until(`document.body.ariaBusy === "true" && getComputedStyle(document.body, "::before").height === "3px"`)
	p.open("/audit")
	p.press("Verify the whole trail")
	p.shows("The audit trail is whole")
	p.until(`!document.body.ariaBusy`)
}
