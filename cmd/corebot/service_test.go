package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/corebot/corebot/internal/load"
	"github.com/corebot/corebot/internal/long"
)

// TestTheServiceStories plays the scripts of testdata/script/service, in which programs talk to Corebot over HTTP.
func TestTheServiceStories(t *testing.T) {
	t.Parallel()
	models := httptest.NewServer(endpoints())
	t.Cleanup(models.Close)
	program := storyProgram(t)
	testscript.Run(t, testscript.Params{
		Files: storyFiles(t, "testdata", "script", "service"), RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("COREBOT_HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("COREBOT_LLM_OFFLINE", "true")
			e.Setenv("PATH", program+e.Getenv("PATH"))
			e.Setenv("COREBOT_WEBHOOK_ADDR", "127.0.0.1:0")
			e.Setenv("COREBOT_OBSERVABILITY_ADDR", "127.0.0.1:0")
			e.Setenv("COREBOT_CONSOLE_ADDR", "127.0.0.1:0")
			e.Setenv("MODELS", models.URL)
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await, "exits": exits, "fields": fields, "get": get, "keyed": keyed, "listens": listens,
			"look": lookInside, "post": post, "terminate": terminate,
		},
	})
}

// listens NAME LISTENER LOGFILE puts the base URL of a listener into a variable, as soon as the log says where it
// listens.
func listens(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: listens NAME LISTENER LOGFILE")
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		log, err := os.ReadFile(ts.MkAbs(args[2]))
		if addr := addressOf(log, args[1]); addr != "" {
			ts.Setenv(args[0], "http://"+addr)
			return
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			ts.Fatalf("%v", err)
		}
	}
	ts.Fatalf("%s does not listen:\n%s", args[1], ts.ReadFile(args[2]))
}

// addressOf is where a listener says in the log that it listens, or empty.
func addressOf(log []byte, listener string) string {
	found := regexp.MustCompile(`"addr":"([^"]+)".*"message":"` + listener + `"`).FindSubmatch(log)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// get STATUS URL [TOKENFILE] asks for a page; stdout has its body.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: get STATUS URL [TOKENFILE]")
	}
	request(ts, http.MethodGet, args[0], args[1], "", "", args[2:])
}

// post STATUS URL BODY [TOKENFILE] posts JSON; stdout has the body of the answer.
func post(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: post STATUS URL BODY [TOKENFILE]")
	}
	request(ts, http.MethodPost, args[0], args[1], args[2], "", args[3:])
}

// keyed STATUS URL BODY TOKENFILE KEY is post, under an idempotency key.
func keyed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: keyed STATUS URL BODY TOKENFILE KEY")
	}
	request(ts, http.MethodPost, args[0], args[1], args[2], args[4], args[3:4])
}

func request(ts *testscript.TestScript, method, status, url, body, key string, tokenFile []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	ts.Check(err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if len(tokenFile) == 1 {
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(tokenFile[0])))
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := http.DefaultClient.Do(r)
	ts.Check(err)
	text, err := io.ReadAll(answer.Body)
	ts.Check(errors.Join(err, answer.Body.Close()))
	_, err = ts.Stdout().Write(text)
	ts.Check(err)
	if strconv.Itoa(answer.StatusCode) != status {
		ts.Fatalf("%s %s: %d, want %s\n%s", method, url, answer.StatusCode, status, text)
	}
}

// service is a daemon with a webhook, on a home of its own, that can be killed and started again at the same address.
type service struct {
	t            *testing.T
	binary, home string
	addr         string
	env          []string   // settings beside the usual ones, which they override
	mu           sync.Mutex // over what follows: a test kills the daemon from the goroutines of its callers
	daemon       *exec.Cmd
	log          string // the file of the last start
	restarts     int
}

// startService makes a home and starts the daemon with the offline model.
func startService(t *testing.T, env ...string) *service {
	t.Helper()
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0", env: env,
	}
	s.output("init", "--webhook")
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	s.findWebhook()
	return s
}

// findWebhook reads from the log where the webhook listens. A later start listens there too.
func (s *service) findWebhook() {
	s.t.Helper()
	for deadline := time.Now().Add(patience); s.addr == "127.0.0.1:0"; time.Sleep(10 * time.Millisecond) {
		log, err := os.ReadFile(s.log)
		if addr := addressOf(log, "webhook"); addr != "" {
			s.addr = addr
		} else if err != nil || time.Now().After(deadline) {
			s.t.Fatalf("the webhook does not listen: %v\n%s", err, log)
		}
	}
}

func (s *service) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Env = append(os.Environ(), "COREBOT_HOME="+s.home, "COREBOT_LLM_OFFLINE=true", "COREBOT_WEBHOOK_ADDR="+s.addr,
		"COREBOT_OBSERVABILITY_ADDR=127.0.0.1:0")
	cmd.Env = append(cmd.Env, s.env...)
	cmd.WaitDelay = patience
	return cmd
}

// output runs a command beside the daemon. A command that only looks runs in the test. A new home of the released
// program is a copy of one that it has made.
func (s *service) output(args ...string) string {
	s.t.Helper()
	if args[0] == "init" && s.binary == realProgram(s.t) {
		if err := copyHome(s.home, args[1:]...); err != nil {
			s.t.Fatal(err)
		}
		return ""
	}
	if onlyLooks(args) {
		out, err := inside(s.t.Context(), s.home, args...)
		if err != nil {
			s.t.Fatalf("corebot %v: %v\n%s", args, err, out)
		}
		return out
	}
	cmd := s.command(s.t.Context(), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("corebot %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// onlyLooks says whether a command reads the home, and nothing else of what it was started with.
func onlyLooks(args []string) bool {
	switch args[0] {
	case "why", "status", "usage":
		return true
	case "audit":
		return len(args) == 1 || strings.HasPrefix(args[1], "-")
	case "db":
		return args[1] == "check"
	case "admin", "agents", "approvals", "chats", "deferred", "dlq", "jobs", "memory", "pair",
		"tasks", "tokens", "waits":
		return slices.Contains([]string{"list", "rules", "search", "show", "stats"}, args[1])
	}
	return false // the settings, skills and MCP servers also depend on variables of the environment
}

// inside runs a command in the process of the tests, which spares the time of a start: most of what such a command
// takes. In the stories each of them runs as a program at least once.
func inside(ctx context.Context, home string, args ...string) (string, error) {
	var out, errOut bytes.Buffer
	root := newRootOn(&out, &errOut)
	root.SetArgs(append([]string{"--home", home}, args...))
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

func (s *service) start() error {
	log, err := os.CreateTemp(filepath.Dir(s.home), "serve-*.log")
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the daemon has its own
	s.log = log.Name()
	s.daemon = s.command(context.WithoutCancel(s.t.Context()), "serve")
	s.daemon.Stderr = log
	return s.daemon.Start()
}

// kill ends the daemon as a power cut does.
func (s *service) kill() {
	if s.daemon != nil {
		_ = s.daemon.Process.Kill()
		_ = s.daemon.Wait()
		s.daemon = nil
	}
}

// awaitNoSuspect waits until no message has been at work in the last two crashes. A message at work in a third crash
// would be poison, and given up as such.
func (s *service) awaitNoSuspect() {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		suspects, err := s.suspects()
		if err == nil && suspects == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("%d messages were at work in two crashes and are not through: %v", suspects, err)
			return
		}
	}
}

func (s *service) suspects() (n int, err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.home, "data", "corebot.db")+"?mode=ro")
	if err != nil {
		return 0, err
	}
	err = db.QueryRow(`SELECT COUNT(*) FROM lanes WHERE depth > 0 AND lost >= 2`).Scan(&n)
	return n, errors.Join(err, db.Close())
}

// restart kills the daemon and starts it again; callers meanwhile find nobody at the address.
func (s *service) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	s.restarts++
	if err := s.start(); err != nil {
		s.t.Errorf("start again: %v", err)
	}
}

// terminate ends it in the ordinary way.
func (s *service) terminate() {
	s.t.Helper()
	if err := errors.Join(s.daemon.Process.Signal(syscall.SIGTERM), s.daemon.Wait()); err != nil {
		s.t.Errorf("SIGTERM: %v", err)
	}
	s.daemon = nil
}

// client talks to the webhook until the test ends.
func (s *service) client() *load.Client {
	s.t.Helper()
	token, err := os.ReadFile(filepath.Join(s.home, "webhook.token"))
	if err != nil {
		s.t.Fatal(err)
	}
	c := load.NewClient("http://"+s.addr, strings.TrimSpace(string(token)))
	s.t.Cleanup(c.Close)
	return c
}

// callers posts 200 messages over 20 chats, each three times at once, and checks what they get.
func (s *service) callers(accepted func(int)) load.Report {
	s.t.Helper()
	client := s.client()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*patience)
	defer cancel()
	report, err := load.Run(ctx, client, load.Options{Messages: 200, Chats: 20, Copies: 3, Accepted: accepted})
	if err != nil {
		log, _ := os.ReadFile(s.log)
		s.t.Fatalf("%+v: %v\n%s", report, err, log)
	}
	return report
}

// checkAfterwards looks at the books, beside the daemon and after its end.
func (s *service) checkAfterwards() {
	s.t.Helper()
	const want = `"chats":20,"queue":{},"deadLetters":{"inbound":0,"outbound":0}`
	got := s.output("status", "--json")
	for deadline := time.Now().Add(patience); !strings.Contains(got, want); got = s.output("status", "--json") {
		if time.Now().After(deadline) { // a reply can be read a moment before its delivery is settled
			s.t.Errorf("the status is %s", got)
			break
		}
	}
	if got = s.output("why", "chat-7-message-4"); !strings.Contains(got, "ended: answered") ||
		strings.Count(got, " sent\n") != 1 {
		s.t.Errorf("the life of one message: %s", got)
	}
	s.terminate()
	s.output("db", "check")
}

func TestEachMessageIsAnsweredOnceAndInOrderHoweverOftenItComes(t *testing.T) {
	long.Only(t, "TestTheServiceStories")
	t.Parallel()
	s := startService(t)
	report := s.callers(nil)
	if report.Posts != 600 || report.Duplicates != 400 || report.Replies != 200 {
		t.Errorf("the report is %+v", report)
	}
	s.checkAfterwards()
}

func TestEachMessageIsAnsweredOnceAndInOrderAlsoWhenTheDaemonIsKilledMeanwhile(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	s := startService(t)
	report := s.callers(func(accepted int) {
		if accepted == 40 || accepted == 90 || accepted == 150 {
			s.awaitNoSuspect()
			s.restart()
		}
	})
	if s.restarts != 3 || report.Retries == 0 || report.Replies != 200 {
		t.Errorf("%d restarts, and the report is %+v", s.restarts, report)
	}
	s.checkAfterwards()
}
