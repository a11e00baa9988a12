package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/corebot/corebot/internal/long"
)

// TestANewUserDoesEverythingWithTheMouse drives the real program in a real browser: an empty home, a scripted model,
// and a person who knows nothing but the login address. The short form has an answer and a decision. It also has what
// only a browser can show: texts that a page could take for markup, and the requests of pages of other sites.
func TestANewUserDoesEverythingWithTheMouse(t *testing.T) {
	long.Only(t, "TestStories")
	t.Parallel()
	b := startBrowsing(t)
	p := newTab(t, b.browser, b.base, true)
	b.logIn(p)
	p.click(`//nav//a[normalize-space()="Chats"]`)
	p.write(`//input[@name="name"]`, "garden")
	p.press("Begin")
	p.shows("Nothing was said here yet")
	chat := p.eval("location.pathname").(string)
	b.play(p, chat, long.Or([]story{
		{"an answer is shown while it is made", watchAnAnswer},
		{"a call is approved, and another denied", decideCalls},
		{"hostile texts stay texts", stayTexts},
		{"pages of other sites", refuseOthers}, // a wall that no other test shows
	}, []story{
		{"an answer is shown while it is made", watchAnAnswer},
		{"a call is watched", watchACall},
		{"a call is approved, and another denied", decideCalls},
		{"two tabs approve one call", decideTwice},
		{"keys move, search and approve", useKeys},
		{"a turn is stopped", stopATurn},
		{"a dead letter is replayed", replayALetter},
		{"a reminder is made", remind},
		{"the cost is shown", seeTheCost},
		{"nothing moves while a page loads", moveNothing},
		{"long work shows that it goes on", showWork},
		{"a server that is killed in the middle of an answer", killInTheMiddle},
		{"hostile texts stay texts", stayTexts},
		{"a session that is revoked", revokeASession},
	}))
}

func watchAnAnswer(_ *browsing, p *tab) {
	p.say("SLOW please")
	p.until(`(d => !d.hidden && d.innerText.includes("one two") && !d.innerText.includes("sixteen"))` +
		`(document.getElementById("draft"))`)
	p.shows("fifteen sixteen end")
	p.until(`document.querySelectorAll("#waiting .entry").length === 0 && document.getElementById("draft").hidden`)
	p.once("fifteen sixteen end")
	p.once("SLOW please")
}

func watchACall(_ *browsing, p *tab) {
	p.full()
	p.say("LIST please")
	p.shows("The call has ended.")
	p.click(`(//*[@id="log"]//details[summary[contains(., "Result")]]/summary)[last()]`)
	p.shows("plain.txt")
	p.once("LIST please")
}

func decideCalls(b *browsing, p *tab) {
	note := filepath.Join(b.home, "workspace", "notes", "a.md")
	p.say("WRITE and I deny it")
	p.press("Deny")
	p.shows("is denied") // by the page behind this one
	p.until(`document.querySelectorAll("#waiting .entry").length === 0`)
	if _, err := os.Stat(note); err == nil {
		p.t.Error("a denied call has run")
	}
	p.say("WRITE and I approve it")
	p.shows("May it call")
	p.shows("notes/a.md")
	p.press("Approve once")
	p.shows("is approved")
	p.until(`document.querySelectorAll("#waiting .entry").length === 0`)
	if text, err := os.ReadFile(note); err != nil || string(text) != hostile[0] {
		p.t.Errorf("the approved call has written %q: %v", text, err)
	}
}

func decideTwice(b *browsing, p *tab) {
	p.say("WRITE once more")
	p.shows("May it call")
	other := newTab(p.t, b.browser, b.base, true)
	other.open("/approvals")
	other.shows("notes/a.md")
	p.open("/approvals")
	p.shows("notes/a.md")
	// The second tab shows what it showed, as if it had been offline.
	other.eval(`document.getElementById("live").outerHTML = document.getElementById("live").outerHTML` +
		`.replace(/hx-[a-z]+="[^"]*"/g, "")`)
	p.press("Approve once")
	p.shows("is approved")
	other.press("Approve once")
	other.shows("Somebody was faster")
	other.calm()
	calls := 0
	for line := range strings.Lines(b.output("audit", "--json")) {
		if strings.Contains(line, `"event":"approval.approve"`) {
			calls++
		}
	}
	if calls != 2 { // this one and that of the story before
		p.t.Errorf("the trail has %d approvals", calls)
	}
}

func stopATurn(_ *browsing, p *tab) {
	p.say("HANG on")
	p.until(`document.getElementById("draft").innerText.includes("I never")`)
	p.press("Stop")
	p.until(`document.querySelectorAll("#waiting .entry").length === 0`)
	p.once("HANG on")
}

func replayALetter(b *browsing, p *tab) {
	b.model.refuses.Store(true)
	p.say("REFUSE me")
	p.until(`document.querySelectorAll("#waiting .entry").length === 0`)
	p.click(`//nav//a[starts-with(normalize-space(), "Dead letters")]`)
	p.shows("no key")
	p.calm()
	b.model.refuses.Store(false)
	p.click(`//main//li[@data-row]//a`)
	p.calm()
	p.press("Replay")
	p.shows("The message is back in its queue.")
	p.until(`document.querySelectorAll("main li[data-row]").length === 0`)
	p.open("/chats")
	p.click(`//main//a[contains(., "garden")]`)
	p.shows("I have read it.")
	p.once("REFUSE me")
}

func remind(b *browsing, p *tab) {
	p.click(`//nav//a[normalize-space()="Tasks"]`)
	p.write(`#prompt`, "water the plants")
	p.write(`#spec`, "10m")
	p.press("Make the task")
	p.shows("runs next at")
	if tasks := b.output("tasks", "list", "--json"); strings.Count(tasks, "water the plants") != 1 {
		p.t.Errorf("the tasks are %s", tasks)
	}
}

func seeTheCost(_ *browsing, p *tab) {
	p.click(`//nav//a[normalize-space()="Cost"]`)
	p.shows("scripted")
	p.until(`/[1-9][\d,.\u202f ]*/.test(document.querySelector("main table, main .rows, main").innerText)`)
}

// killInTheMiddle kills the program in the middle of a word. The page goes on by itself, and shows nothing twice.
func killInTheMiddle(b *browsing, p *tab) {
	p.say("SLOW again")
	p.until(`(d => !d.hidden && d.innerText.includes("two three"))(document.getElementById("draft"))`)
	b.restart()
	p.until(`!document.querySelector(".offline") && document.querySelectorAll("#waiting .entry").length === 0`)
	// The story before has such an answer, too.
	p.until(`document.querySelector("main").innerText.split("fifteen sixteen end").length === 3`)
	p.until(`document.getElementById("draft").hidden`)
	p.once("SLOW again")
	p.say("are you there?")
	p.until(`[...document.querySelectorAll("#log .entry")].at(-1).innerText.includes("I have read it.")`)
	p.once("are you there?")
	if got := b.output("chats", "list", "--json"); !strings.Contains(got, "garden") {
		p.t.Errorf("the chats are %s", got)
	}
}

// stayTexts shows texts that are scripts if a page takes them for markup. They come from people, the model and tools,
// and stand in names of chats, senders and files, and in errors.
func stayTexts(b *browsing, p *tab) {
	p.full()
	line := strings.ReplaceAll(strings.Join(hostile, " "), "\n", " ")
	for _, text := range []string{"MARKUP please", line, "LIST please"} {
		p.say(text)
		p.until(`document.querySelectorAll("#waiting .entry").length === 0`)
		p.calm()
	}
	token, err := os.ReadFile(filepath.Join(b.home, "webhook.token"))
	if err != nil {
		p.t.Fatal(err)
	}
	for i, text := range hostile {
		body, _ := json.Marshal(map[string]string{
			"id": fmt.Sprint("m", i), "chatId": text, "senderId": text, "senderName": text, "content": text,
		})
		r, err := http.NewRequestWithContext(p.t.Context(), "POST", "http://"+b.addr+"/webhook",
			strings.NewReader(string(body)))
		if err != nil {
			p.t.Fatal(err)
		}
		r.Header = http.Header{
			"Authorization": {"Bearer " + strings.TrimSpace(string(token))}, "Content-Type": {"application/json"},
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			p.t.Fatal(err)
		}
		_ = resp.Body.Close() // an odd name can be refused
	}
	b.model.refuses.Store(true)
	p.say("REFUSE " + hostile[2])
	p.until(`document.querySelectorAll("#waiting .entry").length === 0`)
	p.click(`//summary[normalize-space()="This chat"]`)
	p.run(chromedp.SetValue("#name", hostile[1]))
	p.press("Name it")
	p.until(`document.querySelector("h1").innerText.includes("onerror")`)
	p.calm()
	for _, path := range long.Or([]string{
		"/deadletters", "/audit", "/why?id=m1", "/why?id=%3Cimg%20src=x%3E",
	}, []string{
		"/", "/chats", "/chats?channel=webhook", "/approvals", "/deadletters", "/deadletters?action=replay", "/tasks",
		"/cost", "/health", "/audit", "/why?id=m1", "/channels", "/memory", "/settings",
		"/why?id=%3Cimg%20src=x%3E", "/%3Csvg%3E",
	}) {
		p.open(path)
	}
	chats := make([]int, len(hostile))
	for i := range chats {
		chats[i] = i
	}
	for _, i := range long.Every(len(chats), chats) {
		p.open("/chats?channel=webhook")
		if link := fmt.Sprintf(`(//main//li//a)[%d]`, i+1); p.eval(fmt.Sprintf(
			`document.querySelectorAll("main li a").length > %d`, i)) == true {
			p.click(link)
			p.until(`location.pathname !== "/chats"`)
			p.calm()
		}
	}
	// The policy alone holds, too: a tab that obeys it runs nothing that stands in a page.
	strict := newTab(p.t, b.browser, b.base, false)
	strict.open("/")
	strict.eval(`document.querySelector("main").innerHTML = ` +
		`"<img src=x onerror=\"document.title='broken'\">` +
		`<a id=x href=\"javascript:document.title='broken'\">x</a>"`)
	strict.click("#x")
	strict.eval(`const s = document.createElement("script");` +
		`s.textContent = "document.title='broken'"; document.body.append(s)`)
	if title := strict.eval("document.title"); title != "Now · Corebot" {
		p.t.Errorf("the page of a text that became a script is called %v", title)
	}
}

// revokeASession logs one browser out from another. Its open page ends at once, and asks for a login.
func revokeASession(b *browsing, p *tab) {
	at := p.eval("location.pathname").(string)
	other := newTab(p.t, b.browser, b.base, true, chromedp.WithNewBrowserContext())
	b.logIn(other)
	other.open(at)
	other.shows("SLOW again")
	p.open("/settings")
	p.click(`(//main//form[contains(@action, "/sessions/")]//button)[last()]`)
	other.until(`!!document.querySelector(".offline") || location.pathname === "/login"`)
	p.shows("is logged out") // or this page could come after the next
	p.open(at)
	p.say("not for the other one")
	p.until(`document.querySelectorAll("#waiting .entry").length === 0`)
	if text := other.text(); strings.Contains(text, "not for the other one") {
		p.t.Errorf("a browser that is logged out is shown %s", text)
	}
	other.open(at)
	other.until(`location.pathname === "/login"`)
}
