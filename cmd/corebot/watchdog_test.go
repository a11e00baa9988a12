package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

// stalls are the points at which each part is stopped, and whether Corebot is ready meanwhile.
var stalls = map[string]struct {
	point string
	ready bool
}{
	"writer":    {"writer.work", false},
	"router":    {"router.claimed", false},
	"outbox":    {"outbox.claimed", false},
	"scheduler": {"scheduler.pass", true},
	"channels":  {"webhook.serve", true},
}

// TestAPartThatIsStoppedIsNamedAndSystemdHearsNothingUntilItGoesOn stops each part of a real Corebot at a fault point,
// and lets it go on.
func TestAPartThatIsStoppedIsNamedAndSystemdHearsNothingUntilItGoesOn(t *testing.T) {
	long.Only(t, "TestHealthFailsWhereANewStartHelpsAndWhenAskedAlsoWhereMessagesWouldBeRefused")
	binary := realProgram(t)
	for part, at := range stalls {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			s := watchedService(t, binary)
			s.until("it is ready", func() bool { status, _ := s.get("/ready"); return status == http.StatusOK })
			s.systemd.await("READY=1")
			s.systemd.await("WATCHDOG=1")
			file := filepath.Join(s.stalls, at.point)
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s.prod()
			s.until("the part is named", func() bool { return s.names(part, at.ready) })
			s.systemd.silence()
			if text := s.health(); !strings.Contains(text, "stand still: "+part+"\n") {
				t.Errorf("corebot health says %s", text)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			s.until("the part goes on", func() bool {
				status, body := s.get("/ready")
				_, metrics := s.get("/metrics")
				return status == http.StatusOK && !strings.Contains(body, "still") &&
					strings.Contains(metrics, `corebot_stuck{part="`+part+`"} 0`)
			})
			s.systemd.await("WATCHDOG=1")
			if text := s.health(); text != "ready\n" {
				t.Errorf("corebot health says %s", text)
			}
			s.stop()
			s.systemd.await("STOPPING=1")
		})
	}
}

// health is what a container engine learns; a failure has its exit code in front.
func (s *watchedCorebot) health() string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.cmd.Path, "health")
	cmd.Env = s.cmd.Env
	text, err := cmd.CombinedOutput()
	if err != nil {
		return err.Error() + "\n" + string(text)
	}
	return string(text)
}

// names says whether /ready, /metrics and /status name the part, and no other.
func (s *watchedCorebot) names(part string, ready bool) bool {
	status, body := s.get("/ready")
	if (status == http.StatusOK) != ready || !strings.Contains(body, "stood still") &&
		!strings.Contains(body, "degraded: stuck: the scheduler or a channel stands still") {
		return false
	}
	_, metrics := s.get("/metrics")
	if !strings.Contains(metrics, `corebot_stuck{part="`+part+`"} 1`) {
		return false
	}
	for other := range stalls {
		if other != part && strings.Contains(metrics, `corebot_stuck{part="`+other+`"} 1`) {
			s.t.Errorf("%s is said to stand still beside %s", other, part)
		}
	}
	if part == "writer" { // the figures of /status are read from the database all the same
		return strings.Contains(body, "the writer has stood still for ")
	}
	var v struct{ Stuck []struct{ Part, Why string } }
	_, text := s.get("/status")
	if err := json.Unmarshal([]byte(text), &v); err != nil || len(v.Stuck) != 1 || v.Stuck[0].Part != part {
		s.t.Errorf("/status says %s (%v)", text, err)
	}
	return true
}

// watchedCorebot is a Corebot that serves a webhook, with a systemd to tell.
type watchedCorebot struct {
	t           *testing.T
	stalls      string
	systemd     *systemd
	cmd         *exec.Cmd
	log         *lockedBuffer
	page, posts string
	stopOnce    sync.Once
}

func watchedService(t *testing.T, binary string) *watchedCorebot {
	t.Helper()
	model := httptest.NewServer(llmtest.New(llmtest.Always(llmtest.Text("hi"))))
	t.Cleanup(model.Close)
	s := &watchedCorebot{t: t, stalls: t.TempDir(), systemd: newSystemd(t), log: &lockedBuffer{}}
	home := t.TempDir()
	s.cmd = exec.CommandContext(context.Background(), binary, "serve")
	s.cmd.Env = append(os.Environ(), "COREBOT_HOME="+home, "COREBOT_FAULT=stall:"+s.stalls,
		"NOTIFY_SOCKET="+s.systemd.path, "WATCHDOG_USEC=100000",
		"COREBOT_OBSERVABILITY_ADDR=127.0.0.1:0", "COREBOT_OBSERVABILITY_STUCK_AFTER=2s", "COREBOT_LOG_FORMAT=json",
		"COREBOT_WEBHOOK_ENABLED=true", "COREBOT_WEBHOOK_ADDR=127.0.0.1:0",
		"COREBOT_WEBHOOK_TOKEN=a-token-of-more-than-sixteen-bytes",
		"COREBOT_WEBHOOK_CALLBACK_URL="+model.URL,
		"COREBOT_WEBHOOK_CALLBACK_SECRET=whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",
		"COREBOT_LLM_BASE_URL="+model.URL+"/v1", "COREBOT_LLM_MODEL=m", "COREBOT_LLM_DISCOVER=false")
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	s.until("it listens", func() bool {
		s.page, s.posts = s.addr("observability"), s.addr("webhook")
		return s.page != "" && s.posts != ""
	})
	return s
}

// addr is where a listener is, by the log.
func (s *watchedCorebot) addr(name string) string {
	for line := range strings.Lines(s.log.String()) {
		var v struct{ Addr, Message string }
		if json.Unmarshal([]byte(line), &v) == nil && v.Message == name && v.Addr != "" {
			return "http://" + v.Addr
		}
	}
	return ""
}

// prod gives every part something to do: a turn with a reply to send, and a task.
func (s *watchedCorebot) prod() {
	for id, text := range map[string]string{"1": "hello", "2": "/remind 1s look"} {
		go s.post(id, text)
	}
}

// post does not look at the answer: a Corebot that is stopped may give none.
func (s *watchedCorebot) post(id, text string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.posts+"/webhook",
		strings.NewReader(`{"id":"`+id+`","chatId":"c","senderId":"ann","content":"`+text+`"}`))
	if err != nil {
		return
	}
	r.Header.Set("Authorization", "Bearer a-token-of-more-than-sixteen-bytes")
	r.Header.Set("Content-Type", "application/json")
	if resp, err := http.DefaultClient.Do(r); err == nil {
		_ = resp.Body.Close()
	}
}

func (s *watchedCorebot) get(path string) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.page+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func (s *watchedCorebot) until(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			_, body := s.get("/ready")
			s.t.Fatalf("never: %s\n%s\n%s", what, body, s.log.String())
		}
	}
}

func (s *watchedCorebot) stop() {
	s.stopOnce.Do(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		ended := make(chan error, 1)
		go func() { ended <- s.cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil && !s.t.Failed() {
				s.t.Errorf("it ended with %v\n%s", err, s.log.String())
			}
		case <-time.After(20 * time.Second):
			_ = s.cmd.Process.Kill()
			s.t.Errorf("it did not end\n%s", s.log.String())
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// systemd reads what a service tells.
type systemd struct {
	t     *testing.T
	path  string
	heard chan string
}

func newSystemd(t *testing.T) *systemd {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // the name of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &systemd{t: t, path: filepath.Join(dir, "s"), heard: make(chan string, 10_000)}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			s.heard <- string(b[:n])
		}
	}()
	return s
}

// await waits until systemd is told something.
func (s *systemd) await(what string) {
	s.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case got := <-s.heard:
			if got == what {
				return
			}
		case <-limit:
			s.t.Fatalf("systemd never hears %s", what)
		}
	}
}

// silence wants no sign of life for ten times the interval of these signs.
func (s *systemd) silence() {
	s.t.Helper()
	for {
		select {
		case <-s.heard: // from before
			continue
		default:
		}
		break
	}
	limit := time.After(500 * time.Millisecond)
	for {
		select {
		case got := <-s.heard:
			if got == "WATCHDOG=1" {
				s.t.Fatal("systemd hears a sign of life")
			}
		case <-limit:
			return
		}
	}
}
