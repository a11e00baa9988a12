package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/load"
)

var (
	corporaItems = flag.Int("corpora.items", 400, "items of bad input that are sent through every door; the long form is 27000")
	corporaDoor  = flag.String("corpora.door", "", "only the doors whose names have this in them")
	corporaFile  = flag.String("corpora.file", "", "a JSON list of further items in base64; scripts/corpora has it be public corpora")
)

// TestBadInputThroughEveryDoor sends every item through every door of a running Corebot whose model does all that it is told: the body, headers and
// query of the webhook, the arguments of every tool in the hands of an admin, the terminal, the settings, the editing of dead letters, and what an MCP
// server says. Nothing crashes, no door answers with a 5xx but 503, nothing outside the workspace is read or changed, nothing on this machine is
// fetched from, and the model is shown nothing that is hidden or forged.
func TestBadInputThroughEveryDoor(t *testing.T) {
	items := badItems(t, *corporaFile, *corporaItems)
	f := openFort(t, items)
	for _, door := range []struct {
		name string
		send func()
	}{
		{"webhook body", f.each(f.asBody)},
		{"webhook fields", f.each(f.asField)},
		{"webhook headers", f.each(f.asHeader)},
		{"webhook query", f.each(f.asQuery)},
		{"observability", f.each(f.asScrape)},
		{"settings", f.each(f.asSettings)},
		{"dead letters", f.asEdits},
		{"control socket", f.each(f.asOperation)},
		{"tool arguments", f.asArguments},
		{"terminal", f.atTheTerminal},
		{"MCP server", f.fromAServer},
	} {
		if !strings.Contains(door.name, *corporaDoor) {
			continue
		}
		began := time.Now()
		door.send()
		t.Logf("%-16s %d items in %v", door.name, len(items), time.Since(began).Round(time.Millisecond))
	}
	f.requireUnharmed()
}

// fort is a daemon under attack.
type fort struct {
	*service
	*puppet
	items   []string
	token   string
	metrics string // the address of the listener of observability
	http    *http.Client
	load    *load.Client
	fetched *atomic.Int64 // requests to a listener of this machine
	control *control.Client
	home2   string            // of settings that are only read
	before  map[string]string // the operator's files
}

// theSecret is in the operator's files and in what this machine answers.
const theSecret = "SECRET-OF-THE-OPERATOR"

func openFort(t *testing.T, items []string) *fort {
	t.Helper()
	f := &fort{items: items, fetched: new(atomic.Int64), http: &http.Client{Timeout: 2 * patience}, home2: t.TempDir()}
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f.fetched.Add(1)
		_, _ = io.WriteString(w, theSecret)
	}))
	t.Cleanup(private.Close)
	_, port, err := net.SplitHostPort(private.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	f.puppet = &puppet{items: items, addresses: addresses(port), private: private.URL}
	endpoint := httptest.NewServer(llmtest.New(f.answer))
	t.Cleanup(endpoint.Close)
	f.service = &service{t: t, binary: faultyBinary(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0", env: []string{
		"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + endpoint.URL + "/v1", "OPENAI_MODEL=scripted", "OPENAI_API_KEY=none", "COREBOT_LOG_LEVEL=error",
		"COREBOT_TOOLS_SHELL_ENABLED=true", "COREBOT_TOOLS_SHELL_ALLOW=echo", "COREBOT_APPROVALS_MODE=never", "COREBOT_TOOLS_WEB_ALLOWED_PORTS=80,443," + port,
		"COREBOT_BUS_MAX_ATTEMPTS=1", "COREBOT_LOG_LEVEL=info",
	}}
	f.output("init", "--webhook")
	furnish(t, f.home)
	if err := os.WriteFile(filepath.Join(f.home, "secrets/key"), []byte(theSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	f.startAndWait()
	t.Cleanup(f.kill)
	f.findWebhook()
	log, err := os.ReadFile(f.log)
	if f.metrics = addressOf(log, "observability"); err != nil || f.metrics == "" {
		t.Fatalf("observability does not listen: %v", err)
	}
	f.output("admin", "grant", "webhook::root")
	token, err := os.ReadFile(filepath.Join(f.home, "webhook.token"))
	if err != nil {
		t.Fatal(err)
	}
	f.token, f.load = strings.TrimSpace(string(token)), f.client()
	f.dial()
	f.before = operatorFiles(t, f.home)
	return f
}

// dial connects to the daemon's control socket.
func (f *fort) dial() {
	f.t.Helper()
	var running bool
	var err error
	if f.control, running, err = control.Dial(f.t.Context(), app.DataDir(f.home)); err != nil || !running {
		f.t.Fatalf("the control socket: %v %v", running, err)
	}
}

// each sends all items through a door, several at a time.
func (f *fort) each(send func(string, int)) func() {
	return func() {
		var wg sync.WaitGroup
		var next atomic.Int64
		for range 8 {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(f.items); i = int(next.Add(1)) - 1 {
					send(f.items[i], i)
				}
			})
		}
		wg.Wait()
	}
}

func (f *fort) asBody(item string, _ int) { f.post(item, nil) }

func (f *fort) asField(item string, i int) {
	m := map[string]any{"id": fmt.Sprint("field ", i), "chatId": fmt.Sprint("fields ", i%200), "senderId": "eve", "content": "die " + item}
	name := []string{"content", "id", "chatId", "senderId", "metadata", item}[i%6]
	m[name] = item
	if name == "metadata" {
		m[name] = map[string]string{item: item}
	}
	body, err := json.Marshal(m)
	if err != nil {
		f.t.Errorf("%q: %v", item, err)
	}
	f.post(string(body), nil)
}

// post sends a body and tries again as a caller should.
func (f *fort) post(body string, header http.Header) {
	for tries := 0; ; tries++ {
		r, err := http.NewRequest(http.MethodPost, "http://"+f.addr+"/webhook", strings.NewReader(body))
		if err != nil {
			f.t.Error(err)
			return
		}
		r.Header.Set("Authorization", "Bearer "+f.token)
		r.Header.Set("Content-Type", "application/json")
		maps.Copy(r.Header, header)
		status := f.do(r, body)
		if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable || tries > 400 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (f *fort) do(r *http.Request, item string) int {
	answer, err := f.http.Do(r)
	if err != nil {
		f.t.Errorf("%.100q: %v", item, err)
		return 0
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	f.judge(answer.StatusCode, string(text), item, err)
	return answer.StatusCode
}

func (f *fort) judge(status int, text, item string, err error) {
	if err != nil || status >= 500 && status != http.StatusServiceUnavailable || strings.Contains(text, theSecret) || strings.Contains(text, f.token) || strings.Contains(text, "goroutine ") {
		f.t.Errorf("%.100q is answered %d %.300q, %v", item, status, text, err)
	}
}

// asHeader writes an item into a request byte for byte, in one of its headers or its first line.
func (f *fort) asHeader(item string, i int) {
	item = item[:min(len(item), 8<<10)]
	head := func(target, host, authorization string, more ...string) string {
		return "POST " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\nAuthorization: " + authorization + "\r\n" + strings.Join(more, "\r\n") + "\r\nContent-Length: 2\r\n\r\n{}"
	}
	bearer := "Bearer " + f.token
	request := []string{
		head("/webhook", f.addr, item),
		head("/webhook", item, bearer),
		head("/webhook", f.addr, bearer, "Content-Type: "+item),
		head("/webhook", f.addr, "x", "webhook-id: "+item, "webhook-timestamp: "+item, "webhook-signature: "+item),
		head("/webhook", f.addr, bearer, "X-Forwarded-For: "+item, "Forwarded: "+item, "Origin: "+item),
		head(item, f.addr, bearer),
		head("/webhook", f.addr, bearer, "Content-Encoding: "+item, "Last-Event-ID: "+item, item+": x"),
	}[i%7]
	f.write(f.addr, request, item, true)
}

// write sends bytes to a listener and reads what it answers. Where nothing else can come, it says so.
func (f *fort) write(addr, request, item string, whole bool) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		f.t.Error(err)
		return
	}
	defer c.Close() //nolint:errcheck // only read
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	_, _ = io.WriteString(c, request) // it may be refused before it is whole
	if tcp, ok := c.(*net.TCPConn); ok && whole {
		_ = tcp.CloseWrite()
	}
	answer, err := io.ReadAll(io.LimitReader(c, 1<<20))
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		f.t.Errorf("%.100q in a header is not answered", item)
	}
	for line := range strings.Lines(string(answer)) {
		var status int
		if n, _ := fmt.Sscanf(line, "HTTP/1.1 %d", &status); n == 1 && status != http.StatusNotImplemented { // net/http's word for a transfer coding
			f.judge(status, string(answer), item, nil)
		}
	}
}

// asScrape asks the listener of observability, by path, query and headers.
func (f *fort) asScrape(item string, i int) {
	item = item[:min(len(item), 8<<10)]
	get := func(target, host, header string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + header + "\r\n\r\n"
	}
	page := []string{"/status", "/metrics", "/ready", "/health"}[i%4]
	f.write(f.metrics, []string{
		get(page+"?"+url.QueryEscape(item), f.metrics, "Accept: "+item),
		get("/"+url.PathEscape(item), f.metrics, "Accept-Encoding: "+item),
		get(item, f.metrics, "Origin: "+item),
		get(page, item, "X-Forwarded-Host: "+item),
		get(page, f.metrics, "Authorization: "+item),
	}[i%5], item, false) // to /status, a caller who says no more has gone
}

func (f *fort) asQuery(item string, i int) {
	escaped := url.QueryEscape(item[:min(len(item), 3<<10)])
	query := []string{"chatId=" + escaped, "chatId=a&after=" + escaped, "chatId=a&limit=" + escaped, "chatId=a&" + escaped + "=1", escaped, "chatId=" + escaped + "&chatId=b"}[i%6]
	for _, path := range []string{"/webhook/outbound?", "/webhook?"} {
		r, err := http.NewRequest(http.MethodGet, "http://"+f.addr+path+query, nil)
		if err != nil {
			f.t.Error(err)
			return
		}
		r.Header.Set("Authorization", "Bearer "+f.token)
		f.do(r, item)
	}
}

var settingsTurn sync.Mutex

// asSettings reads an item as a settings file and as a value in one. A panic ends the test.
func (f *fort) asSettings(item string, i int) {
	settingsTurn.Lock()
	defer settingsTurn.Unlock()
	name := filepath.Join(f.home2, []string{"corebot.yaml", "corebot.json", "corebot.toml"}[i%3])
	quoted, _ := json.Marshal(item)
	for _, text := range []string{item, `{"llm":{"model":` + string(quoted) + `},"webhook":{"addr":` + string(quoted) + `}}`, string(quoted)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			f.t.Error(err)
		}
		if _, err := config.Load(f.home2); err != nil && strings.Contains(err.Error(), theSecret) {
			f.t.Errorf("%.100q: %v", item, err)
		}
	}
	if err := os.Remove(name); err != nil {
		f.t.Error(err)
	}
}

// asEdits edits a hundred dead letters again and again, which die of it each time.
func (f *fort) asEdits() {
	for i := range 100 {
		f.post(fmt.Sprintf(`{"id":"letter %d","chatId":"letters %d","content":"die now"}`, i, i), nil)
	}
	edited := 0
	for next, deadline := 0, time.Now().Add(time.Hour); next < len(f.items); {
		for line := range strings.Lines(f.output("dlq", "list", "--json", "--limit", "100")) {
			var letter struct{ ID int64 }
			if err := json.Unmarshal([]byte(line), &letter); err != nil {
				f.t.Fatalf("%v: %s", err, line)
			}
			if next == len(f.items) {
				break
			}
			item := f.items[next]
			_, err := control.Call[app.Done](f.t.Context(), f.control, app.OpEdit, app.Edit{ID: letter.ID, NewID: []string{fmt.Sprint("edit ", next), item}[next%2], Text: "die " + item})
			f.requireOrdinary(err, item)
			if next++; err == nil {
				edited++
			}
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d of %d items are edits", next, len(f.items))
		}
	}
	f.t.Logf("%d edits were made, the others were refused", edited)
	if edited < len(f.items)/3 {
		f.t.Error("most edits were refused: the test is broken")
	}
}

// asOperation asks the control socket for what is no operation.
func (f *fort) asOperation(item string, _ int) {
	name := item[:min(len(item), 1<<10)] // a longer one is over the cap on headers, and refused by a closed connection
	_, err := control.Call[app.Done](f.t.Context(), f.control, name, map[string]string{item: item})
	f.requireOrdinary(err, item)
}

// requireOrdinary: the daemon may refuse, and has to answer.
func (f *fort) requireOrdinary(err error, item string) {
	if err != nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED)) {
		f.t.Errorf("%.100q: %v", item, err)
	}
}

// asArguments has an admin's turns call every tool with every item.
func (f *fort) asArguments() {
	results := f.makeCalls(f.plan(f.t))
	f.t.Logf("%d calls with %d arguments of tools", results, len(f.fields))
	if results < len(f.items) {
		f.t.Errorf("%d calls had a result", results)
	}
}

// makeCalls has an admin's turns make calls, and says how many results of them the model was shown.
func (f *fort) makeCalls(calls []llmtest.Call) (results int) {
	from, to := f.learn(calls)
	for batch := from; batch < to; batch++ {
		id := fmt.Sprint("call batch ", batch)
		if _, err := f.load.Post(f.t.Context(), load.Message{ID: id, ChatID: fmt.Sprint("calls ", batch%8), Sender: "root", Content: id}); err != nil {
			f.t.Fatal(err)
		}
	}
	ended := 0
	for deadline := time.Now().Add(patience + time.Duration(to-from)*5*time.Second); ended < to-from; time.Sleep(50 * time.Millisecond) {
		if ended, results = f.done(from); time.Now().After(deadline) {
			f.t.Fatalf("%d of %d batches of calls are answered", ended, to-from)
		}
	}
	return results
}

// atTheTerminal types the items, a few hundred in a session.
func (f *fort) atTheTerminal() {
	drives := regexp.MustCompile(`[^\PC\n\t]`)
	for part, items := range slices.Collect(slices.Chunk(f.items, 300)) {
		lines := make([]string, len(items))
		for i, item := range items {
			lines[i] = strings.NewReplacer("\n", " ", "\r", " ").Replace(item[:min(len(item), 2_000)])
		}
		ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Minute)
		cmd := f.command(ctx, "chat", "--chat", fmt.Sprint("terminal ", part))
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			f.t.Errorf("the terminal ended with %v: %.300q", err, out[max(0, len(out)-300):])
		}
		for _, at := range drives.FindAllString(string(out), -1) {
			if r := []rune(at)[0]; unicode.IsControl(r) {
				f.t.Errorf("the terminal is sent %q", at)
				break
			}
		}
	}
}

func (f *fort) requireUnharmed() {
	f.t.Helper()
	compare(f.t, f.before, operatorFiles(f.t, f.home))
	if n := f.fetched.Load(); n != 0 {
		f.t.Errorf("%d requests came to a listener of this machine", n)
	}
	if leaked := f.leaked.Load(); leaked != nil {
		f.t.Errorf("a tool has shown the operator's secret: %.300q", *leaked)
	}
	if odd := f.odd.Load(); odd != nil {
		f.t.Errorf("the model was shown %.300q", *odd)
	}
	if _, err := f.load.Post(f.t.Context(), load.Message{ID: "after all", ChatID: "after", Sender: "ann", Content: "still there?"}); err != nil {
		f.t.Errorf("afterwards: %v", err)
	}
	f.endCleanly()
	if out := f.output("db", "check"); !strings.HasPrefix(out, "ok") {
		f.t.Errorf("the database: %s", out)
	}
}

// endCleanly ends the daemon, which has logged no panic, and nothing that a terminal obeys.
func (f *fort) endCleanly() {
	f.t.Helper()
	f.terminate()
	log, err := os.ReadFile(f.log)
	if err != nil {
		f.t.Fatal(err)
	}
	if at := regexp.MustCompile(`(?m)^panic:|^fatal error:|DATA RACE|"panic":|a tool panicked`).Find(log); at != nil {
		f.t.Errorf("the log has %q", at)
	}
	if strings.ContainsFunc(string(log), func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
		f.t.Error("the log has what a terminal obeys")
	}
}
