package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/needs"
)

// hostile are texts that would run a script, or load something from elsewhere, if a page took them for markup. Each
// would change the title of the page.
var hostile = []string{
	`<script>document.title='broken'</script>`,
	`<img src=x onerror="document.title='broken'">`,
	`"><svg onload=document.title='broken'>`,
	`' onmouseover='document.title="broken"' x='`,
	"`</code><script>document.title='broken'</script>`",
	`[x](javascript:document.title='broken')`,
	`![x](http://127.0.0.1:1/x.png "onerror=document.title='broken'")`,
	`</textarea><script>document.title='broken'</script>`,
	`</title><script>document.title='broken'</script>`,
	`<iframe srcdoc="<script>parent.document.title='broken'</script>"></iframe>`,
	"<details open ontoggle=document.title='broken'>",
	"```\n</pre><script>document.title='broken'</script>\n```",
	"{{.Secret}} ${document.title='broken'}",
}

// pagesModel is the model of the browser tests. The first word of a message says what it does.
type pagesModel struct{ refuses atomic.Bool }

const slowAnswer = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen " +
	"sixteen end"

func (m *pagesModel) answer(r llmtest.Request) llmtest.Answer {
	said, results := lastUser(r), toolResults(r)
	switch {
	case strings.Contains(said, "REFUSE") && m.refuses.Load():
		return llmtest.Fail(401, "no key "+hostile[1])
	case strings.Contains(said, "SLOW"):
		return llmtest.Text(slowAnswer).Every(100*time.Millisecond).Usage(1200, 34)
	case strings.Contains(said, "HANG"):
		return llmtest.Text("I never end").Stall(2)
	case results > 0:
		return llmtest.Text("The call has ended.").Usage(1000, 10)
	case strings.Contains(said, "WIDE"):
		return llmtest.Text(wideAnswer).Every(60 * time.Millisecond)
	case strings.Contains(said, "UPLOAD"):
		_, name, _ := strings.Cut(said, "UPLOAD ")
		return llmtest.ToolCalls(llmtest.Call{
			ID: "c", Name: "message_upload", Args: fmt.Sprintf(`{"path":%q}`, strings.Fields(name)[0]),
		})
	case strings.Contains(said, "LIST"):
		return llmtest.ToolCalls(llmtest.Call{ID: "a", Name: "fs_search", Args: `{"pattern":"."}`})
	case strings.Contains(said, "WRITE"):
		return llmtest.ToolCalls(llmtest.Call{
			ID: "b", Name: "fs_write", Args: fmt.Sprintf(`{"path":"notes/a.md","content":%q}`, hostile[0]),
		})
	case strings.Contains(said, "MARKUP"):
		return llmtest.Text(strings.Join(hostile, "\n\n"))
	}
	return llmtest.Text("I have read it.").Usage(1000, 10)
}

// chromium starts one browser for all tests. Without one they are skipped.
func chromium(t *testing.T) context.Context {
	t.Helper()
	path := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); path == "" && err == nil {
			path = found
		}
	}
	if path == "" {
		needs.Missing(t, "chromium", "the console in a browser is not tried")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1200, 900))
	ctx, cancel := context.WithTimeout(context.Background(), 40*patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return ctx
}

// tab is one page of the console in the browser.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu    sync.Mutex
	wrong []string // what no page may do: dialogs, and errors of scripts
}

// newTab opens a tab. With bare, the browser does not obey the policy of the page: then nothing but the escaping of
// texts keeps them from being scripts.
func newTab(t *testing.T, browser context.Context, base string, bare bool, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, options...)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, base: base}
	listening := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *page.EventJavascriptDialogOpening:
			p.note("a dialog: " + e.Message)
			go func() {
				_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
			}()
		case *cdpruntime.EventExceptionThrown:
			p.note("an error of a script: " + fmt.Sprint(e.ExceptionDetails))
		}
	})
	_, err := chromedp.Call(ctx, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: bare})
	if err := errors.Join(listening, err); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, w := range p.wrong {
			t.Error(w)
		}
	})
	return p
}

func (p *tab) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = append(p.wrong, what)
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 4*patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("the browser: %v\n%s", err, p.text())
	}
}

// open goes to a page, and looks whether a text of it has become a script.
func (p *tab) open(path string) {
	p.t.Helper()
	p.run(chromedp.Navigate(p.base + path))
	p.calm()
}

// calm holds that no text of the page is markup of it.
func (p *tab) calm() {
	p.t.Helper()
	if p.eval(`document.title === "broken" || !!document.querySelector("main script, main img, main iframe, " +
		"main svg, main [onload], main [onerror], main [onmouseover], main [ontoggle], main a[href^=javascript]")`,
	) == true {
		p.t.Errorf("a text has become markup:\n%s", p.eval("document.querySelector('main').outerHTML"))
	}
}

// click presses what an XPath or a selector names, with the mouse.
func (p *tab) click(what string) {
	p.t.Helper()
	p.run(chromedp.Click(what, chromedp.NodeVisible))
}

// press presses the newest button or link with a text.
func (p *tab) press(label string) {
	p.t.Helper()
	p.click(fmt.Sprintf(`(//main//*[self::button or self::a or self::summary][normalize-space()=%q])[last()]`, label))
}

// write types a text into a field. A long one is pasted, because chromium draws a page three times for each key.
func (p *tab) write(field, text string) {
	p.t.Helper()
	p.click(field)
	if len(text) < 100 {
		p.run(chromedp.SendKeys(field, text))
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, 4*patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: text}); err != nil {
		p.t.Fatalf("paste into %s: %v", field, err)
	}
}

// full shows every step of the turns in the chat that is open.
func (p *tab) full() {
	p.t.Helper()
	p.press("Full")
	p.until(`document.getElementById("log").classList.contains("full")`)
}

// say sends a message in the chat that is open, and waits until the page has it. The field is empty before the stream
// has told of the message. The test keeps the ids that the page had before, because a page can be replaced in between.
func (p *tab) say(text string) {
	p.t.Helper()
	p.until(`document.readyState === "complete" && !!document.getElementById("compose")`)
	const entries = `[...document.querySelectorAll("#log .entry, #waiting .entry")].map(e => e.id)`
	had, is := p.eval(`JSON.stringify(` + entries + `)`).(string)
	if !is {
		p.t.Fatalf("the page does not tell its entries:\n%s", p.text())
	}
	p.write("#text", text)
	p.press("Send")
	p.until(`document.getElementById("text").value === "" && ` + entries + `.some(id => !` + had + `.includes(id))`)
}

func (p *tab) eval(js string) (value any) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, _ = chromedp.Run(ctx, chromedp.Evaluate[any](js)) // a page that is being replaced has no value
	return value
}

func (p *tab) text() string {
	ctx, cancel := context.WithTimeout(p.ctx, patience/4)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// until waits until a condition holds on the page.
func (p *tab) until(js string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); p.eval(js) != true; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("it never holds that %s:\n%s", js, p.text())
		}
	}
}

// shows waits until the page shows a text.
func (p *tab) shows(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, text))
}

// once holds that the log of a chat shows a text once, and no entry twice.
func (p *tab) once(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.getElementById("log").innerText.includes(%q)`, text))
	n := p.eval(fmt.Sprintf(`document.querySelector("main").innerText.split(%q).length - 1`, text))
	ids := p.eval(`(all => all.length - new Set(all).size)` +
		`([...document.querySelectorAll("#log .entry")].map(e => e.id))`)
	if n != 1.0 || ids != 0.0 {
		p.t.Errorf("%q stands there %v times, and %v elements are there twice:\n%s", text, n, ids, p.text())
	}
}

// browsing is a Corebot with a scripted model, and a browser that is logged in.
type browsing struct {
	*service
	model   *pagesModel
	browser context.Context
	base    string
}

func startBrowsing(t *testing.T) *browsing {
	t.Helper()
	if long.RaceDetector {
		t.Skip("a browser and the real program have nothing of this process in them")
	}
	b := &browsing{browser: chromium(t), model: &pagesModel{}}
	provider := httptest.NewServer(llmtest.New(b.model.answer))
	t.Cleanup(provider.Close)
	addr := freeAddr(t)
	b.base = "http://" + addr
	b.service = startService(t, "COREBOT_CONSOLE_ENABLED=true", "COREBOT_CONSOLE_ADDR="+addr,
		"COREBOT_LLM_OFFLINE=false",
		"OPENAI_BASE_URL="+provider.URL+"/v1", "OPENAI_MODEL=scripted", "OPENAI_API_KEY=none",
		"COREBOT_APPROVALS_ALWAYS=fs.write")
	for _, name := range []string{hostile[1], "plain.txt"} {
		file := filepath.Join(b.home, "workspace", strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// logIn has a tab use a login address.
func (b *browsing) logIn(p *tab) {
	b.t.Helper()
	p.run(chromedp.Navigate(strings.TrimSpace(b.output("console"))))
	p.until(`location.pathname === "/" && !location.hash && document.querySelector("h1").innerText === "Now"`)
}

// story is what somebody does in the browser. It begins in a chat.
type story struct {
	name string
	test func(b *browsing, p *tab)
}

// play plays stories, one behind another.
func (b *browsing) play(p *tab, chat string, stories []story) {
	t := b.t
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			p.t, b.t = t, t
			p.open(chat)
			s.test(b, p)
			p.calm()
		})
		if p.t, b.t = t, t; t.Failed() {
			return // a later story would begin on the page that this one has left
		}
	}
}
