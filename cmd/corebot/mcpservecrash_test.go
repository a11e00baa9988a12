package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

// host is a program that has started `corebot mcp serve`.
type host struct {
	t      *testing.T
	client *client.Client
	cmd    *exec.Cmd
}

func (s *service) host() *host {
	s.t.Helper()
	h, err := s.startHost()
	if err != nil {
		s.t.Fatal(err)
	}
	return h
}

func (s *service) startHost() (*host, error) {
	h := &host{t: s.t}
	over := transport.NewStdioWithOptions(s.binary, nil, []string{"mcp", "serve"}, transport.WithCommandFunc(
		func(_ context.Context, _ string, _ []string, args []string) (*exec.Cmd, error) {
			h.cmd = s.command(context.Background(), args...)
			return h.cmd, nil
		}))
	h.client = client.NewClient(over)
	if err := h.client.Start(s.t.Context()); err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { _ = h.client.Close() })
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion = "2025-11-25"
	_, err := h.client.Initialize(s.t.Context(), hello)
	return h, err
}

// said is the result of a publication.
type said struct {
	ID, Status string
	Answered   bool
	Replies    []struct{ ID, Content string }
}

func (h *host) publish(chat, id string) (said, error) {
	ask := mcp.CallToolRequest{}
	ask.Params.Name, ask.Params.Arguments = "message_publish", map[string]any{
		"content": "hi", "chatId": chat, "id": id,
		"waitSeconds": 60,
	}
	result, err := h.client.CallTool(h.t.Context(), ask)
	if err != nil {
		return said{}, err
	}
	var out said
	raw, err := json.Marshal(result.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

// stallsUntil answers nothing until it is released. A count of requests would not do: a turn can run before its request
// is there.
func stallsUntil(released *atomic.Bool) llmtest.Script {
	return func(llmtest.Request) llmtest.Answer {
		if !released.Load() {
			return llmtest.Text("").Stall(-1)
		}
		return llmtest.Text("done")
	}
}

func modelled(t *testing.T, script llmtest.Script) *service {
	t.Helper()
	model := httptest.NewServer(llmtest.New(script))
	t.Cleanup(model.Close)
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0",
		env: []string{
			"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + model.URL + "/v1", "OPENAI_MODEL=scripted",
			"OPENAI_API_KEY=none", "COREBOT_WEBHOOK_ENABLED=false",
		},
	}
	s.output("init")
	return s
}

// wantOneReply checks what the repeat of a call found.
func wantOneReply(t *testing.T, got said, err error, status string) {
	t.Helper()
	if err != nil || got.Status != status || !got.Answered || len(got.Replies) != 1 ||
		got.Replies[0].Content != "done" {
		t.Errorf("the call gave %+v: %v", got, err)
	}
}

func TestTwoHostsAtADaemonThatIsKilledInTheMiddleOfTheirCallsGetTheirReplies(t *testing.T) {
	long.Only(t, "TestAHostWhoseCorebotIsKilledFindsItsOneReplyWithANewOne")
	t.Parallel()
	var killed atomic.Bool
	s := modelled(t, stallsUntil(&killed))
	s.startAndWait()
	t.Cleanup(s.kill)
	one, two := s.host(), s.host()
	type end struct {
		said
		err error
	}
	ends := make(chan end, 2)
	for chat, h := range map[string]*host{"a": one, "b": two} {
		go func() {
			got, err := h.publish(chat, "q-"+chat)
			ends <- end{got, err}
		}()
	}
	s.awaitRunning("q-a")
	s.awaitRunning("q-b")
	s.kill()
	killed.Store(true)
	s.startAndWait()
	for range 2 {
		e := <-ends
		wantOneReply(t, e.said, e.err, "duplicate") // each call was made again by itself, under its key
	}
	got, err := two.publish("a", "q-a")
	wantOneReply(t, got, err, "duplicate")
	s.terminate()
	s.output("db", "check")
}

func TestAHostWhoseCorebotIsKilledFindsItsOneReplyWithANewOne(t *testing.T) {
	t.Parallel()
	var killed atomic.Bool
	s := modelled(t, stallsUntil(&killed))
	h := s.host()
	lost := make(chan error, 1)
	go func() {
		_, err := h.publish("a", "q-a")
		lost <- err
	}()
	s.awaitRunning("q-a")
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.Store(true)
	if err := <-lost; err == nil {
		t.Error("a killed Corebot has answered")
	}
	again := s.host()
	got, err := again.publish("a", "q-a")
	wantOneReply(t, got, err, "duplicate")
	got, err = again.publish("a", "q-b")
	wantOneReply(t, got, err, "accepted")
	if err := again.client.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	s.output("db", "check")
}

func TestHostsThatStartAtOnceWithoutADaemonShareOneCorebot(t *testing.T) {
	long.Only(t, "TestAHostWhoseCorebotIsKilledFindsItsOneReplyWithANewOne")
	t.Parallel()
	s := modelled(t, llmtest.Always(llmtest.Text("done")))
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			h, err := s.startHost()
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := h.publish("a", "q"); err != nil || !got.Answered || len(got.Replies) != 1 {
				t.Errorf("it gave %+v: %v", got, err)
			}
		})
	}
	all.Wait()
}

// awaitRunning waits until the turn of a message has begun.
func (s *service) awaitRunning(message string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		out, err := inside(s.t.Context(), s.home, "why", "--json", message)
		var life struct{ State string }
		if err == nil && json.Unmarshal([]byte(out), &life) == nil && life.State == "running" {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("message %s does not run: %s", message, out)
		}
	}
}
