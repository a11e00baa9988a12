package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/load"
	"github.com/corebot/corebot/internal/long"
)

var (
	killCycles  = long.Int("kill.cycles", 3, 10, "how often the released program is killed under load")
	termCycles  = long.Int("term.cycles", 2, 5, "how often it is ended by SIGTERM under load")
	siegeReport = flag.String("siege.report", "", "a file that the tables of figures are appended to")
)

const (
	siegeChats    = 50
	siegePerCycle = 25 // messages for each cycle, on average
	siegeDrain    = 5 * time.Second
	siegePatience = 3 * time.Minute // for what has failed when it takes longer, also on a busy machine
	inOrder       = "SIGTERM"
	maxReadyP99   = 2 * time.Second
)

// TestKilledAtAnyMomentItLosesNothingAndRepeatsNothing kills the released program with SIGKILL at random moments, its
// start included, while callers post and half of the turns write a note (guarantees G1 to G5).
func TestKilledAtAnyMomentItLosesNothingAndRepeatsNothing(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	s := newSiege(t, "kill -9", killCycles())
	s.end = func() { s.kill() }
	s.lay()
}

// TestSIGTERMUnderLoadEndsItInTimeAndLosesNothing ends the released program in the ordinary way, again and again, under
// the same load.
func TestSIGTERMUnderLoadEndsItInTimeAndLosesNothing(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	s := newSiege(t, inOrder, termCycles())
	s.end = func() {
		began := time.Now()
		if err := errors.Join(s.daemon.Process.Signal(syscall.SIGTERM), s.daemon.Wait()); err != nil {
			t.Fatalf("SIGTERM: %v\n%s", err, s.lastLog())
		}
		s.exits = append(s.exits, time.Since(began))
		s.daemon = nil
	}
	s.lay()
	if slowest := quantile(s.exits, 1); slowest > siegeDrain {
		t.Errorf("an exit took %v, the drain time is %v", slowest, siegeDrain)
	}
}

// siege is a program that is ended and started again while callers post.
type siege struct {
	*service
	what    string
	cycles  int
	end     func()
	url     string // of the listener that tells how the program is
	pace    *pace
	bears   time.Duration   // how long it waits; siegePatience if it is 0
	readies []time.Duration // from the start of the process to the first yes of /ready
	exits   []time.Duration // from SIGTERM to the end of the process
	checks  int             // of the database, all of which found it whole
}

func newSiege(t *testing.T, what string, cycles int) *siege {
	t.Helper()
	if cycles < 1 {
		t.Fatalf("%d cycles: want one at least", cycles)
	}
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		llmtest.New(noteTaker).ServeHTTP(w, r) // a new one each time: it would keep every request
	}))
	t.Cleanup(model.Close)
	observability := freeAddr(t)
	s := &siege{
		service: &service{
			t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: freeAddr(t),
			env: []string{
				"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + model.URL + "/v1", "OPENAI_MODEL=scripted",
				"OPENAI_API_KEY=none",
				"COREBOT_OBSERVABILITY_ADDR=" + observability, "COREBOT_BUS_DRAIN=" + siegeDrain.String(),
			},
		},
		what: what, cycles: cycles, url: "http://" + observability,
	}
	s.pace = newPace(2 * siegePerCycle)
	t.Cleanup(s.kill)
	s.output("init", "--webhook")
	return s
}

// freeAddr is an address below the ports that outgoing connections take, so that it is still free when its listener has
// been killed.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if l, err := net.Listen("tcp", addr); err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return addr
		}
	}
	t.Fatal("no free port was found")
	return ""
}

const noteText = "NOTE %s."

// takesNote says whether the message asks for a note: about half of them do.
func takesNote(id string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return h.Sum32()%2 == 0
}

// content is what a message says: its id, so that the model can write it down.
func content(id string) string {
	if takesNote(id) {
		return "note " + id
	}
	return "say " + id
}

// noteTaker is a model that takes its time, and appends a note to the chat's memory when the message asks for one. A
// note that is written twice stands there twice.
func noteTaker(r llmtest.Request) llmtest.Answer {
	think := time.Duration(rand.IntN(30)) * time.Millisecond
	id, note := strings.CutPrefix(lastUser(r), "note ")
	if note && toolResults(r) == 0 {
		// strings: cannot fail
		args, _ := json.Marshal(map[string]string{"scope": "chat", "content": fmt.Sprintf(noteText, id)})
		return llmtest.ToolCalls(llmtest.Call{ID: "note", Name: "memory_write", Args: string(args)}).After(think)
	}
	return llmtest.Text("done").After(think)
}

// lay does it: callers post from the first start on, until the last cycle has passed and everything is answered.
func (s *siege) lay() {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute+time.Duration(s.cycles)*10*time.Second)
	defer cancel()
	defer s.pace.stop()
	client, posted := s.client(), make(chan error, 1)
	o := load.Options{
		Messages: max(s.cycles*siegePerCycle, siegeChats), Chats: siegeChats, Copies: 1,
		Accepted: s.pace.wait, Content: content,
	}
	var report load.Report
	go func() {
		var err error
		report, err = load.Run(ctx, client, o)
		posted <- err
	}()
	began := time.Now()
	for cycle := range s.cycles {
		if cycle%2 == 0 {
			s.liveLong()
		} else {
			s.liveShortly()
		}
		s.end()
		s.output("db", "check")
		s.checks++
	}
	s.begin()
	s.pace.stop()
	time.AfterFunc(2*siegePatience, cancel) // who waits for a reply that was lost waits in vain
	err := <-posted
	s.await("everything is answered and sent", func() bool { return strings.Contains(s.ask("/status"), `"queue":{}`) })
	v := s.inspect(s.t.Context(), client, o.Messages)
	s.terminate()
	s.output("db", "check")
	s.report(v, report, time.Since(began))
	if err != nil || v.wrong() {
		s.t.Errorf("what the callers saw: %v\nwhat the books say: %+v\n%s", err, v, s.lastLog())
	}
}

// liveLong is a life in which everything that waits is answered before more is let in. Some messages are at work when
// the end comes. Every second life is a long one, because a message that is cut off three times in a row at one step
// is poison by design. A slow machine would show nothing else.
func (s *siege) liveLong() {
	s.t.Helper()
	s.begin()
	s.await("everything is answered", func() bool { return strings.Contains(s.ask("/status"), `"queue":{}`) })
	s.pace.allow()
	time.Sleep(20*time.Millisecond + rand.N(400*time.Millisecond))
}

// liveShortly is a life whose end may come at any moment; half of them end while they begin, unless they are to end in
// good order.
func (s *siege) liveShortly() {
	s.t.Helper()
	if s.what == inOrder || rand.IntN(2) == 0 {
		s.begin()
		time.Sleep(rand.N(200 * time.Millisecond))
		return
	}
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(rand.N(100 * time.Millisecond))
}

// begin starts the program and measures how long it takes until it is ready.
func (s *siege) begin() {
	s.t.Helper()
	started := time.Now()
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
	s.await("it is ready", func() bool { return s.ask("/ready") == "ready\n" })
	s.readies = append(s.readies, time.Since(started))
}

// await asks until the answer is yes.
func (s *siege) await(what string, yes func() bool) {
	s.t.Helper()
	most := cmp.Or(s.bears, siegePatience)
	for deadline := time.Now().Add(most); !yes(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not after %v: %s\n%s\n%s", most, what, s.ask("/status"), s.lastLog())
		}
	}
}

// ask gets a page of the program, without white space between the words of JSON; empty if there is none.
func (s *siege) ask(page string) string {
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+page, nil)
	if err != nil {
		return ""
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return ""
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return ""
	}
	var compact bytes.Buffer
	if json.Compact(&compact, text) == nil {
		return compact.String()
	}
	return string(text)
}

func (s *siege) lastLog() string {
	log, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-4096):])
}
