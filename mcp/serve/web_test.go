package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/channels/webhook"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/mcp/serve"
	"github.com/corebot/corebot/storage"
)

const (
	token   = "a-token-of-many-bytes"
	another = "another-token-of-bytes"

	maxWaiting = 64 // requests at once
)

// web is a rig behind the webhook's listener on loopback.
type web struct {
	*rig
	hook     *webhook.Webhook
	url      string
	registry *prometheus.Registry
}

func newWeb(t *testing.T, o rigOptions, s serve.WebOptions) *web {
	t.Helper()
	w := &web{rig: newRig(t, o), registry: prometheus.NewRegistry()}
	s.Metrics = w.registry
	handler, err := w.server.Web(s)
	w.must(err)
	w.hook, err = webhook.New(storage.NewMailbox(w.DB), webhook.Options{
		Addr: "127.0.0.1:0", Token: token,
		Guest: handler, MaxWaiting: maxWaiting, Log: zerolog.Nop(),
	})
	w.must(err)
	w.url = "http://" + w.hook.Addr() + "/mcp"
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.hook.Run(ctx, nil) }()
	t.Cleanup(func() { cancel(); <-ended })
	return w
}

// post sends one message.
func (w *web) post(body, session string, change ...func(*http.Request)) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url, strings.NewReader(body))
	w.must(err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	for _, c := range change {
		c(r)
	}
	answer, err := http.DefaultClient.Do(r)
	w.must(err)
	return answer
}

// read is the whole body of an answer.
func read(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	return string(b)
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

func (w *web) session() string {
	w.t.Helper()
	answer := w.post(initialize, "")
	body := read(w.t, answer)
	id := answer.Header.Get("Mcp-Session-Id")
	if answer.StatusCode != http.StatusOK || id == "" {
		w.t.Fatalf("initialize: %d %s", answer.StatusCode, body)
	}
	return id
}

func (w *web) sessions() float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	w.must(err)
	for _, f := range families {
		if f.GetName() == "corebot_mcp_serve_sessions" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	w.t.Fatal("no gauge of sessions")
	return 0
}

func TestAClientOfTheLibraryWorksOverHTTP(t *testing.T) {
	for _, version := range []string{"2025-03-26", "2025-11-25", mcp.LATEST_PROTOCOL_VERSION} {
		model := apptest.Always(apptest.After(50*time.Millisecond, apptest.Text("done")))
		o := rigOptions{
			kit:    apptest.Options{Model: model},
			server: serve.ServerOptions{ProgressEvery: 10 * time.Millisecond},
		}
		w := newWeb(t, o, serve.WebOptions{})
		over, err := transport.NewStreamableHTTP(w.url,
			transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + token}))
		w.must(err)
		c := client.NewClient(over)
		notes := make(chan mcp.JSONRPCNotification, 100)
		c.OnNotification(func(n mcp.JSONRPCNotification) { notes <- n })
		w.must(c.Start(t.Context()))
		hello := mcp.InitializeRequest{}
		hello.Params.ProtocolVersion = version
		_, err = c.Initialize(t.Context(), hello)
		w.must(err)
		tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
		w.must(err)
		ask := mcp.CallToolRequest{}
		ask.Params.Name, ask.Params.Arguments, ask.Params.Meta = "message_publish", map[string]any{"content": "hi"},
			&mcp.Meta{ProgressToken: "tok"}
		result, err := c.CallTool(t.Context(), ask)
		w.must(err)
		object, _ := result.StructuredContent.(map[string]any)
		if result.IsError || object["answered"] != true || len(tools.Tools) != 4 {
			t.Errorf("%s: %d tools, the result is %+v", version, len(tools.Tools), result)
		}
		if len(notes) == 0 {
			t.Errorf("%s: no progress was told", version)
		}
		w.must(c.Close())
	}
}

func TestOverHTTPNobodyComesInWithoutTheCredentialOrFromAPage(t *testing.T) {
	w := newWeb(t, rigOptions{}, serve.WebOptions{})
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"no token": {func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"a wrong token": {
			func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+another) },
			http.StatusUnauthorized,
		},
		"a page": {
			func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
			http.StatusForbidden,
		},
		"rebinding": {func(r *http.Request) { r.Host = "evil.example" }, http.StatusMisdirectedRequest},
		"a body over the cap": {func(r *http.Request) {
			body := []byte(initialize + long(2<<20))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}, http.StatusRequestEntityTooLarge},
		// it begins one
		"no session": {func(r *http.Request) { r.Header.Set("Mcp-Session-Id", "made-up") }, http.StatusOK},
		"GET": {
			func(r *http.Request) { r.Method, r.Body, r.ContentLength = http.MethodGet, nil, 0 },
			http.StatusMethodNotAllowed,
		},
		"PUT": {func(r *http.Request) { r.Method = http.MethodPut }, http.StatusMethodNotAllowed},
		"no JSON": {
			func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
			http.StatusBadRequest,
		},
		"the right token": {func(*http.Request) {}, http.StatusOK},
	} {
		if answer := w.post(initialize, "", c.change); answer.StatusCode != c.status {
			t.Errorf("%s: %d %s", name, answer.StatusCode, read(t, answer))
		} else {
			_ = read(t, answer)
		}
	}
	for _, body := range []string{
		"", "garbage", "[]", "{", "null", "7", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		strings.Repeat("[", 100_000),
	} {
		answer := w.post(body, "made-up")
		if text := read(t, answer); answer.StatusCode/100 != 4 && !strings.Contains(text, `"error"`) {
			t.Errorf("%.40q in a session that is none: %d %s", body, answer.StatusCode, text)
		}
	}
}

// gate is a model that answers once it is opened.
type gate struct {
	*apptest.Model
	open func()
}

func newGate() gate {
	opened := make(chan struct{})
	return gate{apptest.Always(func(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
		select {
		case <-opened:
			return apptest.Text("done")(ctx, r, onText)
		case <-ctx.Done():
			return corebot.Answer{}, context.Cause(ctx)
		}
	}), sync.OnceFunc(func() { close(opened) })}
}

// asked waits until the model was asked.
func (g gate) asked() {
	for len(g.Requests()) == 0 {
		time.Sleep(time.Millisecond)
	}
}

func TestThousandsOfSessionsStayBounded(t *testing.T) {
	w := newWeb(t, rigOptions{}, serve.WebOptions{MaxSessions: 8})
	first := w.session()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 250 {
				w.session()
			}
		})
	}
	all.Wait()
	if n := w.sessions(); n != 8 {
		t.Errorf("%v sessions are kept", n)
	}
	if answer := w.post(request(1, "ping", `{}`), first); answer.StatusCode != http.StatusNotFound {
		t.Errorf("the first of them: %d %s", answer.StatusCode, read(t, answer))
	}
	last := w.session()
	if answer := w.post(request(1, "ping", `{}`), last); answer.StatusCode != http.StatusOK {
		t.Errorf("the last of them: %d %s", answer.StatusCode, read(t, answer))
	}
}

func TestAnIDThatIsNeitherTextNorNumberIsRefusedOverHTTP(t *testing.T) {
	w := newWeb(t, rigOptions{}, serve.WebOptions{})
	session := w.session()
	for _, id := range []string{`{}`, `[1]`, `true`} {
		answer := w.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`, session)
		if body := read(t, answer); answer.StatusCode != http.StatusBadRequest ||
			!strings.Contains(body, `"id":null`) || !strings.Contains(body, "-32600") {
			t.Errorf("the id %s is answered %d %s", id, answer.StatusCode, body)
		}
	}
}

func TestASessionInUseMakesNoRoom(t *testing.T) {
	model := newGate()
	w := newWeb(t, rigOptions{kit: apptest.Options{Model: model}}, serve.WebOptions{MaxSessions: 1})
	busy := w.session()
	done := make(chan string, 1)
	go func() { done <- read(t, w.post(toolCall(1, "message_publish", `{"content":"x"}`), busy)) }()
	model.asked()
	if answer := w.post(initialize, ""); answer.StatusCode != http.StatusServiceUnavailable ||
		answer.Header.Get("Retry-After") == "" {
		t.Errorf("another session: %d %s", answer.StatusCode, read(t, answer))
	}
	model.open()
	if got := <-done; !strings.Contains(got, `"answered":true`) {
		t.Errorf("the busy one had %s", got)
	}
	_ = w.session()
}

func TestASessionEndsWithItsClientsWord(t *testing.T) {
	w := newWeb(t, rigOptions{}, serve.WebOptions{})
	id := w.session()
	if answer := w.post(request(1, "ping", `{}`), id); answer.StatusCode != http.StatusOK {
		t.Errorf("at once: %d", answer.StatusCode)
	}
	bye := w.post("", id, func(r *http.Request) { r.Method = http.MethodDelete })
	if bye.StatusCode != http.StatusOK || w.sessions() != 0 {
		t.Errorf("ended: %d, %v sessions", bye.StatusCode, w.sessions())
	}
	if answer := w.post(request(2, "ping", `{}`), id); answer.StatusCode != http.StatusNotFound {
		t.Errorf("later: %d", answer.StatusCode)
	}
}

func TestACredentialThatIsReplacedEndsItsSessionsAndItsWaits(t *testing.T) {
	model := newGate()
	w := newWeb(t, rigOptions{kit: apptest.Options{Model: model}}, serve.WebOptions{})
	id := w.session()
	w.must(w.hook.SetCredentials(token, "")) // a reload that changes nothing
	if n := w.sessions(); n != 1 {
		t.Fatalf("%v sessions after a reload", n)
	}
	waiting := make(chan *http.Response, 1)
	go func() { waiting <- w.post(toolCall(1, "message_publish", `{"content":"x","id":"q1"}`), id) }()
	model.asked()
	w.must(w.hook.SetCredentials(another, ""))
	if answer := <-waiting; answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the wait ended with %d %s", answer.StatusCode, read(t, answer))
	}
	model.open()
	fresh := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+another) }
	if answer := w.post(request(2, "ping", `{}`), id, fresh); answer.StatusCode != http.StatusNotFound {
		t.Errorf("the session goes on with another credential: %d", answer.StatusCode)
	}
	again := w.post(initialize, "", fresh)
	got := read(t, w.post(toolCall(3, "message_publish", `{"content":"x","id":"q1"}`),
		again.Header.Get("Mcp-Session-Id"), fresh))
	if !strings.Contains(got, `"status":"duplicate"`) || !strings.Contains(got, `"answered":true`) {
		t.Errorf("the repeated call: %s", got)
	}
}

func TestAClientThatGoesAwayStopsNoTurn(t *testing.T) {
	model := newGate()
	w := newWeb(t, rigOptions{kit: apptest.Options{Model: model}}, serve.WebOptions{})
	id := w.session()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { model.asked(); cancel() }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url,
		strings.NewReader(toolCall(1, "message_publish", `{"content":"x","id":"q1"}`)))
	w.must(err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Session-Id", id)
	if _, err := http.DefaultClient.Do(r); err == nil {
		t.Fatal("it was answered")
	}
	model.open()
	got := call[published](w.rig, "message_publish", `{"content":"x","id":"q1"}`)
	if got.Status != "duplicate" || !got.Answered || len(model.Requests()) != 1 {
		t.Errorf("the repeated call: %+v", got)
	}
}

func TestCallsAtOnceOverHTTPAreBoundedAndTheListenerAnswersOthers(t *testing.T) {
	model := newGate()
	w := newWeb(t, rigOptions{kit: apptest.Options{Model: model}}, serve.WebOptions{})
	id := w.session()
	statuses := make(chan int, 200)
	for i := range cap(statuses) {
		go func() {
			answer := w.post(toolCall(i, "message_publish", fmt.Sprintf(`{"content":"x","chatId":"c%d"}`, i)), id)
			_ = read(t, answer)
			statuses <- answer.StatusCode
		}()
	}
	for range 200 - maxWaiting { // the others wait for the model
		if got := <-statuses; got != http.StatusServiceUnavailable {
			t.Errorf("one over the bound was answered with %d", got)
		}
	}
	outbound, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		strings.TrimSuffix(w.url, "/mcp")+"/webhook/outbound?chatId=c", nil)
	w.must(err)
	outbound.Header.Set("Authorization", "Bearer "+token)
	if answer, err := http.DefaultClient.Do(outbound); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("somebody else: %v %v", answer, err)
	}
	model.open()
	for range maxWaiting {
		if got := <-statuses; got != http.StatusOK {
			t.Errorf("one within the bound was answered with %d", got)
		}
	}
}

func TestCallsAreCountedByOutcomeFromTheStart(t *testing.T) {
	registry := prometheus.NewRegistry()
	within(t, rigOptions{service: serve.Options{Metrics: registry}}, func(t *testing.T, r *rig) {
		_ = call[published](r, "message_publish", `{"content":"x"}`)
		for _, c := range []serve.Call{
			{Tool: "status_read"},
			{Tool: "made_up_1"},
			{Tool: "made_up_2"},
			{Tool: "chat_list", Args: json.RawMessage(`7`)},
		} {
			r.refused(c)
		}
		families, err := registry.Gather()
		r.must(err)
		got, atZero := map[string]float64{}, 0
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if l := m.GetLabel(); f.GetName() != "corebot_mcp_serve_calls_total" {
					continue
				} else if n := m.GetCounter().GetValue(); n > 0 {
					got[l[0].GetValue()] = n
				} else {
					atZero++
				}
			}
		}
		delete(got, "error") // the rig saw by some of these that it runs
		if want := map[string]float64{
			"success": 1, "denied": 1, "invalid_args": 1,
		}; !maps.Equal(got, want) || atZero != 2 {
			t.Errorf("counted %v, want %v; %d series are at zero", got, want, atZero)
		}
	})
}
