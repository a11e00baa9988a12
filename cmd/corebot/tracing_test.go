package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan  = "00f067aa0ba902b7"
)

// collector takes spans as a collector of OpenTelemetry does, and reads them with the types of the protocol.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	spans    []*tracepb.Span
	services map[string]int // spans by the id of the process that made them
	bodies   []byte
}

func newCollector(t *testing.T) *collector {
	c := &collector{services: map[string]int{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &data) != nil ||
			r.Header.Get("X-Key") != "a secret of the collector" {
			t.Errorf("%s %s with %d bytes is no export: %v", r.URL.Path, r.Header, len(body), err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bodies = append(c.bodies, body...)
		for _, of := range data.ResourceSpans {
			attributes := map[string]string{}
			for _, a := range of.Resource.Attributes {
				attributes[a.Key] = a.Value.GetStringValue()
			}
			if attributes["service.name"] != "support-bot" || attributes["deployment.environment.name"] != "test" {
				t.Errorf("the resource is %v", attributes)
			}
			for _, s := range of.ScopeSpans {
				c.spans = append(c.spans, s.Spans...)
				c.services[attributes["service.instance.id"]] += len(s.Spans)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// walk gives the spans of the caller's trace by name, the ids of their parents by name, and the ids of all by id.
func (c *collector) walk() (found map[string]*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found = map[string]*tracepb.Span{}
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) == callersTrace {
			found[s.Name] = s
		}
	}
	return found
}

// TestTheSpansOfAMessageAreOneTraceAlsoWhenTheProcessIsKilledInBetween has a caller of the webhook send a message with
// a traceparent, kills Corebot while the message waits for its time, and starts it again.
func TestTheSpansOfAMessageAreOneTraceAlsoWhenTheProcessIsKilledInBetween(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	c := newCollector(t)
	var told sync.Map // traceparents that the model was sent
	scripted := llmtest.New(func(r llmtest.Request) llmtest.Answer {
		if toolResults(r) == 0 {
			return llmtest.ToolCalls(llmtest.Call{
				ID: "one", Name: "memory_write",
				Args: `{"scope":"chat","content":"a private note"}`,
			})
		}
		return llmtest.Text("a private answer")
	})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told.Store(r.Header.Get("Traceparent"), true)
		scripted.ServeHTTP(w, r)
	}))
	t.Cleanup(model.Close)
	callback := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(callback.Close)
	s := startService(t, "COREBOT_TRACING_ENABLED=true", "COREBOT_TRACING_PROPAGATE=models",
		"OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_HEADERS=X-Key=a%20secret%20of%20the%20collector",
		"OTEL_SERVICE_NAME=support-bot", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test",
		"OTEL_BSP_SCHEDULE_DELAY=1", "COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL="+model.URL+"/v1",
		"OPENAI_MODEL=scripted", "OPENAI_API_KEY=none", "COREBOT_WEBHOOK_CALLBACK_URL="+callback.URL,
		"COREBOT_WEBHOOK_CALLBACK_SECRET=whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	due := time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339Nano)
	s.postTraced(`{"id":"traced","chatId":"c","senderId":"some-sender","content":"a private question",` +
		`"deliverAt":"` + due + `"}`)
	s.await("the publish is exported", func() bool { return c.walk()["publish inbound"] != nil })
	first := s.log
	s.kill()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	names := []string{
		"publish inbound", "claim inbound", "process inbound", "chat scripted", "execute_tool memory.write",
		"commit inbound", "claim outbound", "send outbound",
	}
	s.await("the walk is exported", func() bool {
		found := c.walk()
		for _, name := range names {
			if found[name] == nil {
				return false
			}
		}
		return true
	})
	found := c.walk()
	for child, parent := range map[string]string{
		"claim inbound": "publish inbound", "process inbound": "publish inbound", "chat scripted": "process inbound",
		"execute_tool memory.write": "process inbound", "commit inbound": "process inbound",
		"claim outbound": "commit inbound", "send outbound": "commit inbound",
	} {
		if got, want := found[child].ParentSpanId, found[parent].SpanId; string(got) != string(want) {
			t.Errorf("the parent of %s is %x, and %s is %x", child, got, parent, want)
		}
	}
	if got := hex.EncodeToString(found["publish inbound"].ParentSpanId); got != callersSpan {
		t.Errorf("the parent of the publish is %s", got)
	}
	s.terminate()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, private := range []string{"private", "some-sender"} {
		if strings.Contains(string(c.bodies), private) {
			t.Errorf("the spans have %q in them", private)
		}
	}
	if len(c.services) != 2 {
		t.Errorf("spans came of the processes %v", c.services)
	}
	if _, named := told.Load(""); named {
		t.Error("a request to the model named no trace")
	}
	for _, log := range []string{first, s.log} {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "secret of the collector") {
			t.Errorf("the log has the key of the collector:\n%s", text)
		}
		if log == s.log && !strings.Contains(string(text), `"message_id":"traced"`) ||
			log == s.log && !strings.Contains(string(text), `"trace_id":"`+callersTrace+`"`) {
			t.Errorf("the log does not name the message and its trace:\n%s", text)
		}
	}
}

// postTraced posts a message as part of the caller's trace.
func (s *service) postTraced(body string) {
	s.t.Helper()
	token, err := os.ReadFile(filepath.Join(s.home, "webhook.token"))
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.addr+"/webhook",
		strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", fmt.Sprintf("00-%s-%s-01", callersTrace, callersSpan))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // of a test
	if answer.StatusCode != http.StatusAccepted {
		text, _ := io.ReadAll(answer.Body)
		s.t.Fatalf("it answers %d: %s", answer.StatusCode, text)
	}
}

// await waits for a condition.
func (s *service) await(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(s.log)
			s.t.Fatalf("not so in time: %s\n%s", what, log)
		}
	}
}
