package llmtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
)

const streamed = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user",` +
	`"content":"hi"}],"tools":[{"type":"function","function":{"name":"fs_read"}}]}`

func post(t *testing.T, srv *llmtest.Running, body string) (*http.Response, string) {
	t.Helper()
	client := &http.Client{Transport: srv.Transport}
	resp, err := client.Post(srv.URL+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp, string(b) + "<" + err.Error() + ">"
	}
	return resp, string(b)
}

func TestAStreamHasPiecesAFinishReasonAndUsage(t *testing.T) {
	srv := llmtest.Start(t, llmtest.Queue(llmtest.Text("one two")))
	resp, body := post(t, srv, streamed)
	for _, want := range []string{
		`"content":"one "`, `"content":"two"`, `"finish_reason":"stop"`,
		`"completion_tokens":2`, "data: [DONE]\n\n",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
}

func TestUsageComesOnlyIfTheRequestAsksForIt(t *testing.T) {
	srv := llmtest.Start(t, llmtest.Always(llmtest.Text("x")))
	if _, body := post(t, srv, `{"stream":true,"messages":[{"role":"user"}]}`); strings.Contains(body,
		"prompt_tokens") {
		t.Error(body)
	}
}

func TestAWholeAnswerIsOneObject(t *testing.T) {
	srv := llmtest.Start(t, llmtest.Queue(llmtest.ToolCalls(llmtest.Call{Name: "f", Args: `{"a":1}`})))
	_, body := post(t, srv, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	var got struct {
		Choices []struct {
			Message llmtest.Message `json:"message"`
			Finish  string          `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if c := got.Choices[0]; c.Finish != "tool_calls" || c.Message.ToolCalls[0].ID != "call_1" ||
		c.Message.ToolCalls[0].Function.Arguments != `{"a":1}` {
		t.Errorf("%s", body)
	}
}

func TestRequestsAreRecordedInOrder(t *testing.T) {
	srv := llmtest.Start(t, func(r llmtest.Request) llmtest.Answer { return llmtest.Text(strings.Repeat("x", r.N)) })
	post(t, srv, streamed)
	if _, body := post(t, srv, strings.Replace(streamed, "hi", "bye", 1)); !strings.Contains(body, `"xx"`) {
		t.Error(body)
	}
	all := srv.Requests()
	if len(all) != 2 || all[0].LastText() != "hi" || srv.Last().LastText() != "bye" || srv.Last().N != 2 ||
		!bytes.Equal(all[0].Body, []byte(streamed)) {
		t.Errorf("%+v", all)
	}
	if names := srv.Last().ToolNames(); len(names) != 1 || names[0] != "fs_read" {
		t.Errorf("tools %v", names)
	}
}

func TestAQueueThatIsUsedUpSaysSo(t *testing.T) {
	srv := llmtest.Start(t, llmtest.Queue(llmtest.Text("x")))
	post(t, srv, streamed)
	if resp, body := post(t, srv, streamed); resp.StatusCode != 500 ||
		!strings.Contains(body, "all 1 answers are used up") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestFailuresCarryStatusHeadersAndMessage(t *testing.T) {
	fail := llmtest.Fail(429, `slow "down"`)
	srv := llmtest.Start(t, llmtest.Queue(fail.Header("Retry-After", "3"), fail))
	resp, body := post(t, srv, streamed)
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "3" || !strings.Contains(body, `slow \"down\"`) {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	if resp, _ := post(t, srv, streamed); resp.Header.Get("Retry-After") != "" {
		t.Error("a changed copy changed its original")
	}
}

func TestAStreamBreaksOrEndsEarlyAsTheScriptSays(t *testing.T) {
	srv := llmtest.Start(t, llmtest.Queue(llmtest.Text("one two").Break(1), llmtest.Text("one two").End(1)))
	if _, body := post(t, srv, streamed); !strings.Contains(body, "one") || strings.Contains(body, "two") ||
		!strings.Contains(body, "<unexpected EOF>") {
		t.Errorf("broken: %s", body)
	}
	if _, body := post(t, srv, streamed); !strings.Contains(body, "one") || strings.Contains(body, "two") ||
		strings.Contains(body, "EOF") {
		t.Errorf("ended: %s", body)
	}
}

func TestTheDelaysOfAScriptAreVirtualInsideSynctest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := llmtest.Start(t, llmtest.Queue(llmtest.Text("one two").After(time.Hour).Every(time.Minute),
			llmtest.Text("x").Stall(0)))
		began := time.Now()
		post(t, srv, streamed)
		if took := time.Since(began); took != time.Hour+5*time.Minute { // two words, the finish, the usage, [DONE]
			t.Errorf("took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/chat/completions",
			strings.NewReader(streamed))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := srv.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a stalled stream gave %q, %v", b, err)
		}
	})
}

func TestTheModelServesOnARealPort(t *testing.T) {
	web := httptest.NewServer(llmtest.New(llmtest.Always(llmtest.Text("x"))))
	defer web.Close()
	for path, want := range map[string]int{"/v1/models": 200, "/v1/nothing": 404} {
		resp, err := http.Get(web.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want || want == 200 && !strings.Contains(string(b), `"id":"scripted"`) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, b)
		}
	}
}

func TestABodyThatIsNoChatRequestIsRefused(t *testing.T) {
	srv := llmtest.Start(t, llmtest.Always(llmtest.Text("x")))
	for _, body := range []string{"", "{", `{"messages":[]}`, `[]`} {
		if resp, answer := post(t, srv, body); resp.StatusCode != 400 {
			t.Errorf("%q: %d %s", body, resp.StatusCode, answer)
		}
	}
	if n := len(srv.Requests()); n != 0 {
		t.Errorf("%d requests are recorded", n)
	}
}

func TestAClosedListenerRefuses(t *testing.T) {
	l := llmtest.NewListener()
	_ = l.Close()
	_ = l.Close()
	if _, err := l.DialContext(t.Context(), "", ""); err == nil {
		t.Error("dialled")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestManyAskAtOnce(t *testing.T) {
	srv := llmtest.Start(t, llmtest.Always(llmtest.Text("x")))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { post(t, srv, streamed) })
	}
	wg.Wait()
	seen := make(map[int]bool)
	for _, r := range srv.Requests() {
		seen[r.N] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d requests", len(seen))
	}
}

const messages = `{"model":"m","stream":true,"max_tokens":9,"system":[{"type":"text","text":"be brief"}],` +
	`"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"fs_read","input_schema":{"type":"object"}}]}`

func postMessages(t *testing.T, srv *llmtest.Running, body string) (*http.Response, string) {
	t.Helper()
	resp, err := (&http.Client{Transport: srv.Transport}).Post(srv.URL+"/messages", "application/json",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp, string(b)
}

func TestTheMessagesAPIIsSpokenToo(t *testing.T) {
	srv := llmtest.Start(t, llmtest.Always(llmtest.ToolCalls(llmtest.Call{
		Name: "f",
		Args: `{"a":"long enough"}`,
	}).With("one two").Thinking("hm")))
	_, body := postMessages(t, srv, messages)
	for _, want := range []string{
		"event: message_start\n", `"thinking":"hm"`, `"signature":"` + llmtest.Signature + `"`, `"text":"one "`,
		`"partial_json":"{\"a\":\"lo"`, `"id":"call_1"`,
		`"stop_reason":"tool_use"`, `"output_tokens":5`, "event: message_stop\n",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
	if r := srv.Last(); r.API != llmtest.Anthropic || r.LastText() != "hi" || r.Messages[0].Content != "be brief" ||
		r.ToolNames()[0] != "fs_read" {
		t.Errorf("%+v", r)
	}
}

func TestTheMessagesAPIIsAsStrictAsTheRealOne(t *testing.T) {
	srv := llmtest.Start(t, llmtest.Always(llmtest.Text("x")))
	const call, result = `{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]}`,
		`{"type":"tool_result","tool_use_id":"1","content":"x"}`
	for name, turns := range map[string]string{
		"the assistant first":     `{"role":"assistant","content":"hi"}`,
		"a call without a result": `{"role":"user","content":"hi"},` + call + `,{"role":"user","content":"and?"}`,
		"a result without a call": `{"role":"user","content":[` + result + `]}`,
		"a result that comes late": `{"role":"user","content":"hi"},` + call +
			`,{"role":"assistant","content":"x"},{"role":"user","content":[` + result + `]}`,
		"a result behind a text": `{"role":"user","content":"hi"},` + call +
			`,{"role":"user","content":[{"type":"text","text":"x"},` + result + `]}`,
		"an empty text": `{"role":"user","content":""}`,
	} {
		if resp, body := postMessages(t, srv, strings.Replace(messages, `{"role":"user","content":"hi"}`, turns,
			1)); resp.StatusCode != 400 {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
	good := `{"role":"user","content":"hi"},` + call + `,{"role":"user","content":[` + result + `]}`
	if resp, body := postMessages(t, srv, strings.Replace(messages, `{"role":"user","content":"hi"}`, good,
		1)); resp.StatusCode != 200 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestFaultsHaveNamesOfTheirOwnAndThereAreManyOfThem(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range llmtest.Faults() {
		if seen[f.Name] || f.Name == "" {
			t.Errorf("%q is there twice, or has no name", f.Name)
		}
		seen[f.Name] = true
	}
	if len(seen) < 50 {
		t.Errorf("only %d faults", len(seen))
	}
}
