package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/long"
)

// embeddings is an endpoint that counts how often it gets each text.
type embeddings struct {
	mu    sync.Mutex
	times map[string]int
	held  string // texts that have it get no vectors
}

// hold leaves texts with a word without vectors, until it is called anew.
func (e *embeddings) hold(word string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = word
}

func (e *embeddings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Input []string }
	if json.NewDecoder(r.Body).Decode(&asked) != nil {
		http.Error(w, "no", http.StatusTeapot)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var data []string
	for _, text := range asked.Input {
		if e.held != "" && strings.Contains(text, e.held) {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
	}
	for i, text := range asked.Input {
		e.times[text]++
		data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[1,%d]}`, i, len(text)))
	}
	_, _ = fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(data, ","))
}

// least and most say how often the texts of people were sent.
func (e *embeddings) counts(texts []string) (least, most int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	least = e.times[texts[0]]
	for _, text := range texts {
		least, most = min(least, e.times[text]), max(most, e.times[text])
	}
	return least, most
}

// TestKilledWhileItEmbedsEachTextGetsItsVector kills the real program with SIGKILL around the commit of vectors, at
// first and while all are made anew.
func TestKilledWhileItEmbedsEachTextGetsItsVector(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	binary := realProgram(t)
	texts := []string{"one dog", "two towns", "three songs", "four coins"}
	for _, point := range []string{"vectors.stored", "vectors.embedded"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			e := &embeddings{times: map[string]int{}}
			server := httptest.NewServer(e)
			t.Cleanup(server.Close)
			c := &crash{t: t, binary: binary, home: t.TempDir(), env: []string{
				"COREBOT_LLM_OFFLINE=true", "COREBOT_CONSOLE_ADDR=127.0.0.1:0",
				"COREBOT_OBSERVABILITY_ADDR=127.0.0.1:0",
			}}
			chat := c.command("", "chat")
			chat.Stdin = strings.NewReader(strings.Join(texts, "\n") + "\n")
			if out, err := chat.CombinedOutput(); err != nil {
				t.Fatalf("chat: %v\n%s", err, out)
			}
			c.env = append(c.env, "COREBOT_LLM_EMBEDDINGS_BASE_URL="+server.URL, "COREBOT_LLM_EMBEDDINGS_MODEL=m",
				"COREBOT_LLM_EMBEDDINGS_BATCH=2")
			again := 0
			if point != "vectors.stored" {
				again = 1 // a call whose vectors were not stored is made once more
			}
			c.diesWhileItServes(point + "#2")
			c.servesUntil(func() bool { least, _ := e.counts(texts); return least >= 1 })
			if _, most := e.counts(texts); most > 1+again {
				t.Errorf("a text was sent %d times", most)
			}
			if out, err := c.command("", "db", "reindex", "--vectors").CombinedOutput(); err != nil {
				t.Fatalf("reindex: %v\n%s", err, out)
			}
			c.diesWhileItServes(point + "#2")
			c.servesUntil(func() bool { least, _ := e.counts(texts); return least >= 2 })
			if _, most := e.counts(texts); most > 2+2*again {
				t.Errorf("a text was sent %d times", most)
			}
			if out, err := inside(t.Context(), c.home, "db", "check"); err != nil {
				t.Errorf("db check: %v\n%s", err, out)
			}
		})
	}
}

// diesWhileItServes starts a Corebot that dies at a point.
func (c *crash) diesWhileItServes(point string) {
	c.t.Helper()
	out, err := c.command(point, "serve").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		c.t.Fatalf("the point was not reached: %v\n%s", err, out)
	}
}

// servesUntil starts a Corebot and stops it when something is so.
func (c *crash) servesUntil(done func() bool) {
	c.t.Helper()
	c.servesFrom("", done)
}

// servesFrom is servesUntil with a plan of faults.
func (c *crash) servesFrom(plan string, done func() bool) {
	c.t.Helper()
	serve := c.command(plan, "serve")
	if err := serve.Start(); err != nil {
		c.t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); !done() && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	_ = serve.Process.Signal(syscall.SIGTERM)
	_ = serve.Wait()
	if !done() {
		c.t.Error("it was not done in two minutes")
	}
}
