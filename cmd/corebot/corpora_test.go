package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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
	"unicode/utf8"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/load"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/mcp"
)

var (
	corporaItems = long.Int("corpora.items", 24, 150,
		"items of bad input that are sent through every door; scripts/corpora has 27000")
	corporaDoor = flag.String("corpora.door", "", "the door of this name, or the doors whose names have this in them")
	corporaFile = flag.String("corpora.file", "",
		"a JSON list of further items in base64; scripts/corpora has it be public corpora")
)

// TestBadInputThroughEveryDoor sends every item through every door of a running Corebot whose model does all that it is
// told. The doors for people are the webhook's body, headers and query, the arguments of an admin's tools, the
// terminal, the editing of dead letters, and each chat network. The doors for files are the settings, the file of MCP
// servers and pages of skills. The doors of MCP are clients over HTTP and as hosts of programs, and the listing and
// results of a server. Nothing crashes, and no door answers with a 5xx but 503. Nothing outside the workspace is read
// or changed, and nothing is fetched from this machine. The model is shown nothing that is hidden or forged.
func TestBadInputThroughEveryDoor(t *testing.T) {
	t.Parallel()
	items := badItems(t, *corporaFile, corporaItems())
	f, opened := openFort(t, items, (*fort).openNetworks), 0
	type door struct {
		name string
		send func()
	}
	all := []door{
		{"webhook body", f.each(f.asBody)},
		{"webhook fields", f.each(f.asField)},
		{"webhook headers", f.each(f.asHeader)},
		{"webhook query", f.each(f.asQuery)},
		{"observability", f.each(f.asScrape)},
		{"settings", f.each(f.asSettings)},
		{"file of MCP servers", f.each(f.asServers)},
		{"dead letters", f.asEdits},
		{"control socket", f.each(f.asOperation)},
		{"tool arguments", f.asArguments},
		{"skills", f.asSkills},
		{"terminal", f.atTheTerminal},
		{"MCP over HTTP", f.fromWebClients},
		{"MCP over stdio", f.fromHosts},
		{"MCP server", f.fromAServer},
	}
	for _, name := range doors {
		all = append(all, door{name, f.fromNetwork(name)})
	}
	parts, err := os.ReadFile(filepath.Join("..", "..", "scripts", "corpora"))
	if err != nil {
		t.Fatal(err)
	}
	named := slices.ContainsFunc(all, func(d door) bool { return d.name == *corporaDoor })
	for _, door := range all {
		if !strings.Contains(string(parts), "\n  \""+door.name+"\"\n") {
			t.Errorf("scripts/corpora does not play the door %q", door.name)
		}
		if !strings.Contains(door.name, *corporaDoor) || named && door.name != *corporaDoor {
			continue
		}
		opened++
		began := time.Now()
		door.send()
		t.Logf("%-16s %d items in %v", door.name, len(items), time.Since(began).Round(time.Millisecond))
	}
	if opened == 0 {
		t.Errorf("no door has %q in its name", *corporaDoor)
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
	home2   string // of settings that are only read

	networks map[string]*crier
	before   map[string]string // the operator's files
}

// theSecret is in the operator's files and in what this machine answers.
const theSecret = "SECRET-OF-THE-OPERATOR"

func openFort(t *testing.T, items []string, furnished ...func(*fort)) *fort {
	t.Helper()
	f := &fort{items: items, fetched: new(atomic.Int64), http: &http.Client{
		Timeout:   2 * patience,
		Transport: &http.Transport{MaxIdleConnsPerHost: 16},
	}, home2: t.TempDir()}
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f.fetched.Add(1)
		_, _ = io.WriteString(w, theSecret)
	}))
	t.Cleanup(private.Close)
	_, port, err := net.SplitHostPort(private.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	f.puppet = &puppet{items: items, addresses: long.Every(12, addresses(port)), private: private.URL}
	endpoint := httptest.NewServer(llmtest.New(f.answer))
	t.Cleanup(endpoint.Close)
	f.service = &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0",
		env: []string{
			"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + endpoint.URL + "/v1", "OPENAI_MODEL=scripted",
			"OPENAI_API_KEY=none", "COREBOT_LOG_LEVEL=error",
			"COREBOT_TOOLS_SHELL_ENABLED=true", "COREBOT_TOOLS_SHELL_ALLOW=echo", "COREBOT_APPROVALS_MODE=never",
			"COREBOT_TOOLS_WEB_ALLOWED_PORTS=80,443," + port,
			"COREBOT_BUS_MAX_ATTEMPTS=1", "COREBOT_LOG_LEVEL=info", "COREBOT_MCP_SERVE_HTTP=true",
			"COREBOT_MCP_SERVE_MAX_WAIT=10s",
		},
	}
	f.output("init", "--webhook")
	for _, furnish := range furnished {
		furnish(f)
	}
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

var settingsTurn sync.Mutex

// asSettings reads an item as a settings file and as a value in one. A panic ends the test.
func (f *fort) asSettings(item string, i int) {
	settingsTurn.Lock()
	defer settingsTurn.Unlock()
	name := filepath.Join(f.home2, []string{"corebot.yaml", "corebot.json", "corebot.toml"}[i%3])
	quoted, _ := json.Marshal(item)
	for _, text := range []string{item, `{"llm":{"model":` + string(quoted) + `},"webhook":{"addr":` + string(quoted) +
		`}}`, string(quoted)} {
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

// asServers reads an item as a .mcp.json, and as a value everywhere in one. A panic ends the test.
func (f *fort) asServers(item string, i int) {
	name := filepath.Join(f.home2, fmt.Sprintf("servers-%d.json", i))
	quoted, _ := json.Marshal(item)
	entry := strings.ReplaceAll([]string{
		`{"command":ITEM,"args":[ITEM],"env":{"A":ITEM},"timeout":ITEM}`, `{"command":"x","env":{ITEM:"x"},"cwd":ITEM}`,
		`{"type":ITEM,"url":ITEM,"headers":{"A":ITEM}}`,
		`{"url":"http://127.0.0.1","headers":{ITEM:"x"},"timeout":ITEM}`,
	}[i%4], "ITEM", string(quoted))
	for _, text := range []string{
		item, `{"mcpServers":{"a":` + entry + `}}`,
		`{"mcpServers":{` + string(quoted) + `:` + entry + `}}`, `{"mcpServers":{"a":` + item + `}}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			f.t.Error(err)
		}
		variable := func(string) (string, bool) { return theSecret, true }
		if _, err := mcp.ReadFile(name, variable); err != nil && (strings.Contains(err.Error(), theSecret) ||
			len(err.Error()) > 4<<10) {
			f.t.Errorf("%.100q: an error of %d bytes: %.300v", item, len(err.Error()), err)
		}
	}
	if err := os.Remove(name); err != nil {
		f.t.Error(err)
	}
}

// asEdits edits dead letters again and again, a hundred in the wide form, which die of it each time.
func (f *fort) asEdits() {
	for i := range long.Or(12, 100) {
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
			_, err := control.Call[operate.Done](f.t.Context(), f.control, operate.EditDeadLetter.Name,
				operate.Edit{
					ID: letter.ID, NewID: []string{fmt.Sprint("edit ", next), item}[next%2],
					Text: "die " + item,
				})
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
	_, err := control.Call[operate.Done](f.t.Context(), f.control, name, map[string]string{item: item})
	f.requireOrdinary(err, item)
}

// requireOrdinary: the daemon may refuse, and has to answer.
func (f *fort) requireOrdinary(err error, item string) {
	if err != nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.ECONNREFUSED)) {
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

// batchTime is how long no batch of calls can end before the daemon counts as stuck. Eight turns run beside each other,
// and a machine can be as slow as it likes as long as they go on.
const batchTime = 6 * patience

// makeCalls has an admin's turns make calls, and says how many results of them the model was shown.
func (f *fort) makeCalls(calls []llmtest.Call) (results int) {
	from, to := f.learn(calls)
	for batch := from; batch < to; batch++ {
		id := fmt.Sprint("call batch ", batch)
		if _, err := f.load.Post(f.t.Context(), load.Message{
			ID: id, ChatID: fmt.Sprint("calls ", batch%8),
			Sender: "root", Content: id,
		}); err != nil {
			f.t.Fatal(err)
		}
	}
	ended := 0
	for moved := time.Now(); ended < to-from; time.Sleep(50 * time.Millisecond) {
		before := ended
		if ended, results = f.done(from); ended > before {
			moved = time.Now()
		}
		if time.Since(moved) > batchTime {
			f.t.Fatalf("%d of %d batches of calls are answered, and none more in %v", ended, to-from, batchTime)
		}
	}
	return results
}

// atTheTerminal types the items, a few hundred in a session.
func (f *fort) atTheTerminal() {
	drives := regexp.MustCompile(`[^\PC\n\t]`)
	for part, items := range slices.Collect(slices.Chunk(f.items, 300)) {
		lines, refused := make([]string, len(items)), 0
		for i, item := range items {
			lines[i] = strings.NewReplacer("\n", " ", "\r", " ").Replace(item[:min(len(item), 2_000)])
			if !utf8.ValidString(lines[i]) {
				refused++
			}
		}
		ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Minute)
		cmd := f.command(ctx, "chat", "--chat", fmt.Sprint("terminal ", part))
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
		out, err := cmd.CombinedOutput()
		cancel()
		if (err != nil) != (refused > 0) || refused > 0 && !strings.Contains(string(out),
			fmt.Sprintf("corebot: %d messages were refused", refused)) {
			f.t.Errorf("the terminal ended with %v, %d lines are not UTF-8: %.300q", err, refused,
				out[max(0, len(out)-300):])
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
	if _, err := f.load.Post(f.t.Context(), load.Message{
		ID: "after all", ChatID: "after", Sender: "ann",
		Content: "still there?",
	}); err != nil {
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
	f.requireOrdinaryLog(f.log)
}

// requireOrdinaryLog: a log has neither a panic nor what a terminal obeys, and no secret.
func (f *fort) requireOrdinaryLog(path string) {
	f.t.Helper()
	log, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	if at := regexp.MustCompile(`(?m)^panic:|^fatal error:|DATA RACE|"panic":|a tool panicked`).Find(log); at != nil {
		f.t.Errorf("the log has %q", at)
	}
	if strings.ContainsFunc(string(log), func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
		f.t.Error("the log has what a terminal obeys")
	}
	if strings.Contains(string(log), f.token) || strings.Contains(string(log), theSecret) {
		f.t.Error("the log has a secret")
	}
}
