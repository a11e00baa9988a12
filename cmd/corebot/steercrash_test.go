package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

// crashStory is what a test sends to a daemon that dies on the way, and what must have become of it after another
// daemon has run.
type crashStory struct {
	mode   string
	first  string            // its id is "first"; the rest is sent when the model's script opens the gate, or at once
	rest   map[string]string // by id, sent in the order of ids
	wait   bool              // the rest is for a turn that runs
	points []string
	short  []string // the points of the short form
	model  func(started, sent *gate) llmtest.Script
	check  func(t *testing.T, point string, books map[string]bookEntry, requests []llmtest.Request)
}

// gate is opened once.
type gate struct {
	once sync.Once
	open chan struct{}
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) let() { g.once.Do(func() { close(g.open) }) }

// pass waits until the gate is open. A crash of the other side must not leave the model waiting for ever.
func (g *gate) pass() {
	select {
	case <-g.open:
	case <-time.After(patience):
	}
}

// bookEntry is what `why --json` says of an inbound message.
type bookEntry struct {
	Direction, End, Reason string
	MergedInto             struct{ ID string }
	Replies                []struct{ ID, Kind, End string }
}

// replies counts what answers the message, notices aside.
func (b bookEntry) replies() (n int) {
	for _, r := range b.Replies {
		if r.Kind == "reply" {
			n++
		}
	}
	return n
}

func crashStories() map[string]crashStory {
	return map[string]crashStory{
		"a steer": {
			first: "write notes", rest: map[string]string{"s1": "/steer just one"}, wait: true,
			points: []string{
				"steer.before", "steer.after", "merge.before", "merge.after", "model.before#3",
				"model.after#3", "turn.before", "turn.after",
			},
			short: []string{"steer.after", "merge.after"},
			model: oneNote, check: steerIsHeardOnce,
		},
		"messages that are collected": {
			mode: "collect", first: "part 0", rest: map[string]string{"s1": "part 1", "s2": "part 2"},
			points: []string{
				"publish.before#2", "publish.after#3", "merge.before", "merge.after", "model.before#1",
				"turn.before", "turn.after",
			},
			short: []string{"merge.before", "turn.after"},
			model: func(*gate, *gate) llmtest.Script { return llmtest.Always(llmtest.Text("done")) },
			check: partsAreOneTurn,
		},
		"an interrupt": {
			mode: "interrupt", first: "take your time", rest: map[string]string{"s1": "be quick"}, wait: true,
			points: []string{
				"publish.before#2", "publish.after#2", "turn.before#1", "turn.after#1", "turn.before#2",
				"turn.after#2",
			},
			short: []string{"publish.after#2", "turn.before#1"},
			model: slowAtFirst, check: interruptedOnce,
		},
	}
}

// TestKilledDuringASteerAMergeOrAnInterruptNothingIsLostOrDoubled kills the daemon at each step of a message that acts
// on the turn of another, and starts it again (guarantees G1 to G6).
func TestKilledDuringASteerAMergeOrAnInterruptNothingIsLostOrDoubled(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	for name, story := range crashStories() {
		for _, point := range long.Or(story.short, story.points) {
			t.Run(name+" "+point, func(t *testing.T) {
				t.Parallel()
				story.play(t, point)
			})
		}
	}
}

func (c crashStory) play(t *testing.T, point string) {
	started, sent := newGate(), newGate()
	server := llmtest.New(c.model(started, sent))
	model := httptest.NewServer(server)
	t.Cleanup(model.Close)
	t.Cleanup(sent.let)
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0",
		env: []string{
			"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + model.URL + "/v1", "OPENAI_MODEL=scripted",
			"OPENAI_API_KEY=none", "COREBOT_WEBHOOK_ENABLED=false",
			// longer than a program takes to start on a busy machine: each message is sent by one
			"COREBOT_BUS_QUEUE_MODE=" + orQueue(c.mode), "COREBOT_BUS_COLLECT_DEBOUNCE=1s",
		},
	}
	s.output("init")
	usual := s.env
	s.env = append(slices.Clone(usual), "COREBOT_FAULT="+point)
	s.startAndWait()
	s.env = usual
	s.sendAll(c, started, sent)
	s.wantKilled()
	s.startAndWait()
	s.sendAll(c, started, sent) // again, as a platform does that got no acknowledgement
	books := s.awaitEnds(c)
	c.check(t, point, books, server.Requests())
	s.terminate()
	s.output("db", "check")
}

func orQueue(mode string) string {
	if mode == "" {
		return "queue"
	}
	return mode
}

// startAndWait starts the daemon and waits until it can be talked to. The daemon ends with the test at the latest.
func (s *service) startAndWait() {
	s.t.Helper()
	s.t.Cleanup(s.kill)
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if log, err := os.ReadFile(s.log); err == nil && strings.Contains(string(log), "corebot runs") {
			return
		} else if time.Now().After(deadline) {
			s.t.Fatalf("it does not start: %v\n%s", err, log)
		}
	}
}

// sendAll sends the messages of a story to the daemon, which may die of it.
func (s *service) sendAll(c crashStory, started, sent *gate) {
	defer sent.let()
	s.try("send", "--id", "first", c.first)
	if c.wait {
		started.pass()
	}
	for i := 1; i <= len(c.rest); i++ {
		id := fmt.Sprint("s", i)
		s.try("send", "--id", id, c.rest[id])
	}
}

// try runs a command that may find the daemon dead. It never runs Corebot itself: a dead daemon's fault is not in its
// environment.
func (s *service) try(args ...string) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	_ = s.command(ctx, args...).Run()
}

// wantKilled waits until the daemon has died of its fault.
func (s *service) wantKilled() {
	s.t.Helper()
	died := make(chan error, 1)
	go func() { died <- s.daemon.Wait() }()
	select {
	case <-died:
	case <-time.After(3 * patience): // it has done much until then, on a busy machine too
		s.t.Fatal("the point was not reached")
	}
	if s.daemon.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		s.t.Fatalf("it ended by itself: %v", s.daemon.ProcessState)
	}
	s.daemon = nil
}

// awaitEnds waits until every message has ended, and gives the books.
func (s *service) awaitEnds(c crashStory) map[string]bookEntry {
	s.t.Helper()
	ids := []string{"first"}
	for id := range c.rest {
		ids = append(ids, id)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		books, open := map[string]bookEntry{}, 0
		for _, id := range ids {
			var b bookEntry
			out := s.output("why", "--json", id)
			if err := json.Unmarshal([]byte(out), &b); err != nil {
				s.t.Fatalf("why %s: %v\n%s", id, err, out)
			}
			if books[id] = b; b.End == "" {
				open++
			}
		}
		if open == 0 {
			return books
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("it has not ended: %+v", books)
		}
	}
}

// oneNote writes a note, then asks for two more. The steer "just one" is sent during the second call of the model. So
// the turn merges it between the second note and the third, however slow the machine is.
func oneNote(started, sent *gate) llmtest.Script {
	note := func(id string) llmtest.Call {
		return llmtest.Call{ID: id, Name: "memory_write", Args: fmt.Sprintf(`{"scope":"chat","content":"NOTE %s"}`, id)}
	}
	return func(r llmtest.Request) llmtest.Answer {
		switch {
		case strings.Contains(lastUser(r), "just one"):
			return llmtest.Text("Just one.")
		case toolResults(r) == 0:
			return llmtest.ToolCalls(note("one"))
		case toolResults(r) == 1:
			started.let()
			sent.pass()
			return llmtest.ToolCalls(note("two"), note("three"))
		}
		return llmtest.Text("Three notes.")
	}
}

func steerIsHeardOnce(t *testing.T, point string, books map[string]bookEntry, _ []llmtest.Request) {
	first, steer := books["first"], books["s1"]
	if first.End != "answered" || first.replies() != 1 {
		t.Errorf("the turn: %+v", first)
	}
	switch {
	case steer.End == "merged" && steer.MergedInto.ID == "first" && steer.replies() == 0:
	// it came too late
	case steer.End == "answered" && steer.MergedInto.ID == "" && steer.replies() == 1 &&
		strings.HasPrefix(point, "steer."):
	default:
		t.Errorf("the steer: %+v", steer)
	}
}

func partsAreOneTurn(t *testing.T, _ string, books map[string]bookEntry, requests []llmtest.Request) {
	answers := 0
	for id, b := range books {
		switch {
		case b.End == "answered" && b.replies() == 1:
			answers++
		case b.End != "merged" || b.replies() != 0:
			t.Errorf("message %s: %+v", id, b)
		}
	}
	if answers < 1 || books["first"].End != "answered" {
		t.Errorf("the books are %+v", books)
	}
	for _, part := range []string{"part 0", "part 1", "part 2"} { // each once in what the model was shown last
		n := 0
		for _, m := range requests[len(requests)-1].Messages {
			if m.Role == "user" && string(m.Content) == part {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q was shown %d times", part, n)
		}
	}
}

// slowAtFirst does not answer the first message until another was sent, and a second time at once.
func slowAtFirst(started, sent *gate) llmtest.Script {
	var asked atomic.Bool
	return func(r llmtest.Request) llmtest.Answer {
		started.let()
		if lastUser(r) == "take your time" && !asked.Swap(true) {
			sent.pass()
			time.Sleep(500 * time.Millisecond)
		}
		return llmtest.Text("done")
	}
}

func interruptedOnce(t *testing.T, point string, books map[string]bookEntry, _ []llmtest.Request) {
	first, newer := books["first"], books["s1"]
	if newer.End != "answered" || newer.replies() != 1 {
		t.Errorf("the newer message: %+v", newer)
	}
	switch {
	case first.End == "stopped" && first.Reason == "interrupt" && first.replies() == 0 && len(first.Replies) == 1:
	// the newer one was not there yet
	case first.End == "answered" && first.replies() == 1 && point == "publish.before#2":
	default:
		t.Errorf("the older message: %+v", first)
	}
}
