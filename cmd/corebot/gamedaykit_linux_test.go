package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/needs"
)

const (
	dayToken = "a-token-of-more-than-sixteen-bytes"
	dayKey   = "sk-the-key-of-the-game-day"
)

// Times within which an alert must be seen, and be gone after the repair: less than two hours each with the shipped
// rules. Some parts of Corebot look once a minute.
const (
	seenWithin = 100 * time.Second
	goneWithin = 2 * time.Minute
)

// day is a game day that is held: a home with its program under a supervisor, a model, and a Prometheus.
type day struct {
	t          *testing.T
	game       gameDay
	dir, home  string
	binary     string
	posts, url string // addresses of the webhook and of the metrics
	prometheus string
	model      atomic.Pointer[http.Handler]
	modelURL   string
	super      supervisor
	holds      *exec.Cmd // another program that holds the database
	pages      map[string]string

	mu      sync.Mutex
	fired   map[string]time.Duration // alerts, by how long after the fault they fired
	firing  []string                 // now
	broken  time.Time
	mended  time.Time
	damaged bool     // some pages stay unreadable, which db check says
	seen    []string // signals with their times
	cleared []string
	did     []string
	sent    int
}

func newDay(t *testing.T, g gameDay) *day {
	t.Helper()
	d := &day{t: t, game: g, dir: t.TempDir(), binary: realProgram(t), pages: runbook(t)}
	d.fired = map[string]time.Duration{}
	if g.clock {
		var err error
		if d.binary, err = steppedProgram(); err != nil {
			t.Fatal(err)
		}
	}
	d.home = filepath.Join(d.dir, ".corebot")
	d.posts, d.url = "http://"+freeAddr(t), "http://"+freeAddr(t)
	d.answer(llmtest.Always(llmtest.Text("done")))
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*d.model.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		model.CloseClientConnections()
		model.Close()
	})
	d.modelURL = model.URL
	if err := os.MkdirAll(d.home, 0o700); err != nil {
		t.Fatal(err)
	}
	if g.root {
		d.mount()
	}
	d.write("key", dayKey)
	d.configure("")
	d.scrape()
	return d
}

// mount puts a small file system where the home is.
func (d *day) mount() {
	if err := syscall.Mount("tmpfs", d.home, "tmpfs", 0, "size=96m,mode=0700"); err != nil {
		needs.Missing(d.t, "mounts", err)
	}
	d.t.Cleanup(func() {
		d.super.stop()
		_ = syscall.Unmount(d.home, syscall.MNT_DETACH)
	})
}

// answer makes the model answer by a script.
func (d *day) answer(script llmtest.Script) {
	d.serveModel(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		llmtest.New(script).ServeHTTP(w, r)
	}))
}

func (d *day) serveModel(h http.Handler) { d.model.Store(&h) }

// write puts a file beside the home.
func (d *day) write(name, text string) {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// configure writes the settings of the home: a model and the webhook, and what a game day needs beside.
func (d *day) configure(more string) {
	d.t.Helper()
	d.write(".corebot/corebot.yaml", more+`
webhook: {enabled: true, token: "`+dayToken+`", addr: "`+strings.TrimPrefix(d.posts, "http://")+`"}
observability: {addr: "`+strings.TrimPrefix(d.url, "http://")+`", stuck_after: 2s}
`)
}

const dayBus = "bus: {backoff_base: 100ms, backoff_max: 500ms, max_attempts: 4}\n"

func (d *day) llm(more string) string {
	return fmt.Sprintf("llm: {base_url: %q, model: m, api_key: %q%s}\n", d.modelURL+"/v1", "file:"+d.dir+"/key", more)
}

func (d *day) env() []string {
	return []string{
		"HOME=" + d.dir, "PATH=" + filepath.Dir(d.binary) + ":" + os.Getenv("PATH"),
		"GAMEDAY_CLOCK=" + d.dir + "/clock",
	}
}

// start begins the program under a supervisor, and waits until it is ready.
func (d *day) start() {
	d.t.Helper()
	d.super.begin(d)
	d.t.Cleanup(d.super.stop)
	d.ready()
	// A counter that has risen before Prometheus saw it for the first time has no increase.
	d.until("Prometheus has seen it well", goneWithin, func() bool {
		query := url.QueryEscape(`sum_over_time(up{job="corebot"}[1m]) > 2`)
		text, _ := d.get(d.prometheus+"/api/v1/query?query="+query, "")
		return strings.Contains(text, `"value"`)
	})
}

func (d *day) ready() {
	d.t.Helper()
	d.until("it is ready", 40*time.Second, func() bool { return strings.HasPrefix(d.ask("/ready"), "ready") })
}

// step sets the program's clock ahead.
func (d *day) clockAhead(by time.Duration) {
	d.write("clock", strconv.Itoa(int(by.Seconds())))
	time.Sleep(200 * time.Millisecond)
}

func (d *day) until(what string, limit time.Duration, holds func() bool) {
	d.t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			d.t.Fatalf("not within %v: %s\nfiring: %v; fired: %v\n/ready: %s\n%s", limit, what, d.firing, d.fired,
				d.ask("/ready"), d.lastLog())
		}
	}
}

func (d *day) lastLog() string {
	log, _ := os.ReadFile(filepath.Join(d.dir, "log"))
	return string(log[max(0, len(log)-1500):])
}

// ask gets a page of the program, whatever its status.
func (d *day) ask(page string) string {
	text, _ := d.get(d.url+page, "")
	return text
}

func (d *day) get(url, body string) (string, int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err.Error(), 0
	}
	r.Header.Set("Authorization", "Bearer "+dayToken)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error(), 0
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	text, _ := io.ReadAll(answer.Body)
	return string(text), answer.StatusCode
}

// say posts a message to a chat, and gives the status of the answer.
func (d *day) say(chat, text string) int {
	d.mu.Lock()
	d.sent++
	id := fmt.Sprint("m", d.sent)
	d.mu.Unlock()
	body := mustJSON(map[string]string{"id": id, "chatId": chat, "senderId": "ann", "content": text})
	_, status := d.get(d.posts+"/webhook", body)
	return status
}

// accepted posts messages to as many chats, and wants all of them accepted.
func (d *day) accepted(n int, text string) {
	d.t.Helper()
	for i := range n {
		if status := d.say(fmt.Sprint("chat", i), text); status != http.StatusAccepted {
			d.t.Fatalf("message %d: %d", i, status)
		}
	}
}

// breaks begins the fault.
func (d *day) breaks(fault func()) {
	fault()
	d.mu.Lock()
	d.broken, d.fired = time.Now(), map[string]time.Duration{}
	d.mu.Unlock()
}

// alert waits until the alerts fire, while something goes on.
func (d *day) alert(names ...string) { d.alertWhile(func() {}, names...) }

func (d *day) alertWhile(goesOn func(), names ...string) {
	d.t.Helper()
	for _, name := range names {
		d.until("the alert "+name+" fires", seenWithin, func() bool {
			goesOn()
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.fired[name] > 0
		})
		d.seen = append(d.seen, fmt.Sprintf("%s=%.0f", name, d.fired[name].Seconds()))
	}
}

// runs carries out a command of the runbook, in a shell, with the words in place of those in capitals.
func (d *day) runs(command string, words ...string) string {
	d.t.Helper()
	d.stands(command)
	d.begins(command)
	command = strings.Trim(command, "`")
	command = strings.NewReplacer(words...).Replace(command)
	if verb, is := strings.CutPrefix(command, "systemctl "); is {
		d.systemctl(strings.Fields(verb)[0])
		return ""
	}
	cmd := exec.CommandContext(d.t.Context(), "sh", "-c", command)
	cmd.Env = d.env()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	// these exit with 1 for what they find
	finds := regexp.MustCompile(`^corebot (doctor|config check|db check|audit verify)`).MatchString(command)
	if err != nil && !finds {
		d.t.Fatalf("%s: %v\n%s%s\n%s", command, err, stdout.String(), stderr.String(), d.lastLog())
	}
	if strings.HasPrefix(command, "fuser ") {
		return stdout.String() // stderr has what fuser could not look at
	}
	return stdout.String() + stderr.String()
}

// mends does what a sentence of the runbook says, where that is no command.
func (d *day) mends(sentence string, mend func()) {
	d.t.Helper()
	d.stands(sentence)
	d.begins(sentence)
	mend()
}

func (d *day) stands(text string) {
	d.t.Helper()
	for _, s := range d.game.repair {
		if s.text == text && strings.Contains(d.pages[s.alert], text) {
			return
		}
	}
	d.t.Fatalf("%q is not a step of the repair that stands in the runbook", text)
}

func (d *day) begins(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mended.IsZero() {
		d.mended = time.Now()
	}
	d.did = append(d.did, text)
}

func (d *day) systemctl(verb string) {
	switch verb {
	case "stop":
		d.super.stop()
	case "start":
		d.super.begin(d)
	case "restart":
		d.super.stop()
		d.super.begin(d)
	default:
		d.t.Fatalf("systemctl %s", verb)
	}
}

// over waits until the alerts of the game day have ended.
func (d *day) over() { d.overWhile(func() {}) }

func (d *day) overWhile(goesOn func()) {
	d.t.Helper()
	for _, name := range d.game.alerts {
		d.until("the alert "+name+" ends", goneWithin, func() bool {
			goesOn()
			d.mu.Lock()
			defer d.mu.Unlock()
			return !slices.Contains(d.firing, name)
		})
		d.cleared = append(d.cleared, fmt.Sprintf("%s=%.0f", name, time.Since(d.mended).Seconds()))
	}
}

// wellAgain wants a program that answers, nothing that waits, and a whole database.
func (d *day) wellAgain() {
	d.t.Helper()
	d.over()
	if status := d.say("after", "hello"); status != http.StatusAccepted {
		d.t.Errorf("a message afterwards: %d", status)
	}
	d.until("everything is answered", seenWithin, func() bool {
		return strings.Contains(strings.Join(strings.Fields(d.ask("/status")), ""), `"queue":{}`)
	})
	for _, name := range d.game.alerts {
		if _, is := d.fired[name]; !is {
			d.t.Errorf("the alert %s did not fire", name)
		}
	}
	d.super.stop()
	cmd := exec.CommandContext(d.t.Context(), d.binary, "db", "check")
	cmd.Env = d.env()
	if out, err := cmd.CombinedOutput(); (err != nil) != d.damaged {
		d.t.Errorf("db check: %v\n%s", err, out)
	}
}

// line is the row of the table: each alert with its seconds, then those that fired beside.
func (d *day) line() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	seconds := func(all []string, name string) string {
		for _, s := range all {
			if v, is := strings.CutPrefix(s, name+"="); is {
				return v
			}
		}
		return "-"
	}
	for i, name := range d.game.alerts {
		did := ""
		if i == 0 {
			did = strings.Join(d.did, "; ")
		}
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%-20s %-28s %10s %10s  %s", d.game.name, name, seconds(d.seen, name),
			seconds(d.cleared, name), did)
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range d.fired {
			if !slices.Contains(d.game.alerts, name) && !yield(name) {
				return
			}
		}
	}) {
		fmt.Fprintf(&b, "\n%-20s %-28s %10.0f %10s  %s", d.game.name, name, d.fired[name].Seconds(), "", "fired beside")
	}
	if d.t.Failed() {
		b.WriteString("\n" + d.game.name + " FAILED")
	}
	return b.String()
}

// supervisor starts a program again when it ends, as systemd does.
type supervisor struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	ended  chan struct{}
	cmd    *exec.Cmd
}

func (s *supervisor) begin(d *day) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return
	}
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Error(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.ended = cancel, make(chan struct{})
	go func() {
		defer close(s.ended)
		defer log.Close() //nolint:errcheck // a log of a test
		for ctx.Err() == nil {
			cmd := exec.Command(d.binary, "serve") //nolint:noctx // signals end it
			cmd.Env, cmd.Stderr = d.env(), log
			if s.start(cmd) != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
			_ = cmd.Wait()
			stop()
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
}

func (s *supervisor) start(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = cmd
	return cmd.Start()
}

// kill ends the program as a crash does. The supervisor starts it again.
func (s *supervisor) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
	}
}

func (s *supervisor) stop() {
	s.mu.Lock()
	cancel, ended := s.cancel, s.ended
	s.cancel = nil
	s.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(40 * time.Second):
		s.kill()
		<-ended
	}
}

var (
	ruleTimes    = regexp.MustCompile(`(for: |\[)(\d+)([smhd])`)
	ruleProducts = regexp.MustCompile(`(\d+) \* (3600|86400)`)
	ruleSeconds  = regexp.MustCompile(`_seconds > (\d+)( \*)?`)
)

// shorten divides the times of alert rules: how long a rule waits, the windows, and what is compared with seconds.
func shorten(rules string, factor int) string {
	units := map[string]int{"s": 1, "m": 60, "h": 3600, "d": 86400}
	rules = ruleTimes.ReplaceAllStringFunc(rules, func(s string) string {
		m := ruleTimes.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[2])
		least := 1
		if m[1] == "[" {
			least = 5 // of scrapes each second
		}
		return fmt.Sprintf("%s%ds", m[1], max(n*units[m[3]]/factor, least))
	})
	rules = ruleSeconds.ReplaceAllStringFunc(rules, func(s string) string {
		m := ruleSeconds.FindStringSubmatch(s)
		if m[2] != "" {
			return s // a product, which comes next
		}
		n, _ := strconv.Atoi(m[1])
		if n == 0 {
			return s
		}
		return fmt.Sprintf("_seconds > %d", max(n/factor, 1))
	})
	return ruleProducts.ReplaceAllStringFunc(rules, func(s string) string {
		m := ruleProducts.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[1])
		unit, _ := strconv.Atoi(m[2])
		return strconv.Itoa(n * unit / factor)
	})
}

// scrape starts a Prometheus with the shipped settings and rules, and looks at its alerts until the test ends.
func (d *day) scrape() {
	d.t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("../../docs", name))
		if err != nil {
			d.t.Fatal(err)
		}
		return string(text)
	}
	factor := shortened
	if d.game.factor > 0 {
		factor = d.game.factor
	}
	d.write("prometheus/alerts/corebot.rules.yml", shorten(read("alerts/corebot.rules.yml"), factor))
	d.write("prometheus/prometheus.yml", strings.NewReplacer("127.0.0.1:3210", strings.TrimPrefix(d.url, "http://"),
		"scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s").Replace(read("prometheus.yml")))
	addr := freeAddr(d.t)
	d.prometheus = "http://" + addr
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "prometheus", "--config.file="+d.dir+"/prometheus/prometheus.yml",
		"--storage.tsdb.path="+d.dir+"/prometheus/tsdb", "--web.listen-address="+addr, "--log.level=error")
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			d.look()
			time.Sleep(200 * time.Millisecond)
		}
	}()
	d.t.Cleanup(func() {
		stop()
		<-ended
		_ = cmd.Wait()
	})
}

// look reads which alerts fire.
func (d *day) look() {
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	text, status := d.get(d.prometheus+"/api/v1/alerts", "")
	if status != http.StatusOK || json.Unmarshal([]byte(text), &answer) != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.firing = nil
	for _, a := range answer.Data.Alerts {
		if name := a.Labels["alertname"]; a.State == "firing" {
			d.firing = append(d.firing, name)
			if _, known := d.fired[name]; !known && !d.broken.IsZero() {
				d.fired[name] = max(time.Since(d.broken), 1)
			}
		}
	}
}
