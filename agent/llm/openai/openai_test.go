package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/agent/llm/openai"
)

const apiKey = "sk-very-secret-0123456789"

func hello() llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}
}

func start(t *testing.T, opts openai.Options, answers ...llmtest.Answer) (*openai.Model, *llmtest.Running) {
	t.Helper()
	srv := llmtest.Start(t, llmtest.Queue(answers...))
	if opts.Model == "" {
		opts.Model = "scripted"
	}
	opts.APIKey, opts.Transport = apiKey, srv.Transport
	m, err := openai.New(srv.URL, opts)
	if err != nil {
		t.Fatal(err)
	}
	return m, srv
}

func complete(t *testing.T, m *openai.Model, r llm.Request) (corebot.Answer, string) {
	t.Helper()
	var streamed strings.Builder
	a, err := m.Complete(t.Context(), r, func(s string) { streamed.WriteString(s) })
	if err != nil {
		t.Fatal(err)
	}
	return a, streamed.String()
}

// requireFailure also checks what holds for every failure: it names the base URL and does not leak the key.
func requireFailure(t *testing.T, err error, class corebot.Class, words ...string) *corebot.Failure {
	t.Helper()
	f, ok := err.(*corebot.Failure)
	if !ok {
		t.Fatalf("%T %v is not a failure", err, err)
	}
	if f.Class != class {
		t.Errorf("%v: class %v, want %v", err, f.Class, class)
	}
	for _, w := range append(words, "http://model.test/v1") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if said := fmt.Sprintf("%v %+v %#v %s", err, err, f.Err, corebot.HintOf(err)); strings.Contains(said, apiKey) {
		t.Errorf("the key is in %q", said)
	}
	return f
}

func TestTextStreamsAsItArrives(t *testing.T) {
	m, srv := start(t, openai.Options{}, llmtest.Text("one two three").Usage(7, 3))
	a, streamed := complete(t, m, hello())
	if a.Text != "one two three" || streamed != a.Text {
		t.Errorf("answered %q, streamed %q", a.Text, streamed)
	}
	if want := (corebot.Usage{InputTokens: 7, OutputTokens: 3}); a.Usage != want {
		t.Errorf("usage %+v, want %+v", a.Usage, want)
	}
	if got := srv.Last().Header.Get("Authorization"); got != "Bearer "+apiKey {
		t.Errorf("authorization %q", got)
	}
}

func TestToolCallsComeBackWithInternalNames(t *testing.T) {
	m, srv := start(t, openai.Options{}, llmtest.ToolCalls(
		llmtest.Call{ID: "a", Name: "fs_read", Args: `{"path":"x y z.md"}`},
		llmtest.Call{ID: "b", Name: "make_coffee", Args: ""},
	).With("Let me see. "))
	r := hello()
	r.Tools = []llm.Tool{{Name: "fs.read", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "fs.list"}}
	a, _ := complete(t, m, r)
	want := []corebot.ToolCall{
		{ID: "a", Tool: "fs.read", Args: json.RawMessage(`{"path":"x y z.md"}`)},
		{ID: "b", Tool: "make_coffee", Args: json.RawMessage(`{}`)},
	}
	if !reflect.DeepEqual(a.Calls, want) || a.Text != "Let me see. " {
		t.Errorf("calls %+v, text %q", a.Calls, a.Text)
	}
	if got := srv.Last().ToolNames(); !reflect.DeepEqual(got, []string{"fs_read", "fs_list"}) {
		t.Errorf("offered as %v", got)
	}
}

func TestHistoryIsSentInTheProvidersWords(t *testing.T) {
	m, srv := start(t, openai.Options{}, llmtest.Text("ok"))
	complete(t, m, llm.Request{Messages: []llm.Message{
		{Role: llm.System, Text: "be brief"},
		{Role: llm.User, Text: "go"},
		{Role: llm.Assistant, Calls: []corebot.ToolCall{
			{ID: "1", Tool: "fs.read", Args: json.RawMessage(`{"path":`)},
			{ID: "2", Tool: "fs.read"},
		}},
		{Role: llm.ToolRole, CallID: "1"},
	}})
	got := srv.Last().Messages
	if got[2].ToolCalls[0].Function.Name != "fs_read" ||
		got[2].ToolCalls[0].Function.Arguments != `{"invalid_arguments":"{\"path\":"}` {
		t.Errorf("the first call was sent as %+v", got[2].ToolCalls[0])
	}
	if got[2].ToolCalls[1].Function.Arguments != "{}" {
		t.Errorf("no arguments were sent as %q", got[2].ToolCalls[1].Function.Arguments)
	}
	if got[3].CallID != "1" || got[3].Content == "" || got[0].Role != "system" {
		t.Errorf("sent %+v", got)
	}
}

func TestAStreamWithoutAFinishReasonIsNeverAShorterAnswer(t *testing.T) {
	for name, answer := range map[string]llmtest.Answer{
		"clean end":      llmtest.Text("one two three").End(2),
		"cut connection": llmtest.Text("one two three").Break(2),
		"only done":      llmtest.Stream(`{"choices":[{"index":0,"delta":{"content":"one"}}]}`),
		"nothing at all": llmtest.Text("x").End(0),
		"no headers":     llmtest.Text("x").Break(-1),
		"cut in a call": llmtest.ToolCalls(llmtest.Call{
			Name: "fs_write",
			Args: `{"path":"a","content":"long text"}`,
		}).End(3),
		"error in stream": llmtest.Stream(`{"choices":[{"index":0,"delta":{"content":"one"}}]}`,
			`{"error":{"message":"overloaded"}}`),
		"error as text": llmtest.Stream(`{"error":"overloaded"}`),
		"finish error":  llmtest.Text("one").Finish("error"),
		"garbage":       llmtest.Stream(`{"choices":[{"index":0,"delta":{"content":"one"}}]}`, `{"choi`),
		"empty body":    llmtest.Raw(200, "text/event-stream", ""),
		"empty plain":   llmtest.Raw(200, "text/plain", ""),
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := start(t, openai.Options{}, answer)
			a, err := m.Complete(t.Context(), hello(), nil)
			requireFailure(t, err, corebot.Transient)
			a.Model, a.Usage = "", corebot.Usage{} // what it cost: see cutoff_test.go
			if !reflect.DeepEqual(a, corebot.Answer{}) {
				t.Errorf("answered %+v", a)
			}
		})
	}
}

func TestAnErrorInTheStreamIsQuoted(t *testing.T) {
	for _, event := range []string{
		`{"error":{"message":"out of memory"}}`, `{"error":"out of memory"}`,
		`{"id":"x","choices":[],"error":{"message":"out of memory","code":502}}`,
	} {
		m, _ := start(t, openai.Options{}, llmtest.Stream(event))
		_, err := m.Complete(t.Context(), hello(), nil)
		requireFailure(t, err, corebot.Transient, "out of memory")
	}
}

func TestANullErrorIsNoError(t *testing.T) {
	m, _ := start(t, openai.Options{},
		llmtest.Stream(`{"error":null,"choices":[{"index":0,"delta":{"content":"fine"},"finish_reason":"stop"}]}`))
	if a, _ := complete(t, m, hello()); a.Text != "fine" {
		t.Errorf("answered %q", a.Text)
	}
}

func TestStatusesHaveTheirClass(t *testing.T) {
	for status, class := range map[int]corebot.Class{
		400: corebot.Permanent, 401: corebot.Permanent, 403: corebot.Permanent, 404: corebot.Permanent,
		405: corebot.Permanent, 422: corebot.Permanent,
		408: corebot.Transient, 409: corebot.Transient, 425: corebot.Transient, 500: corebot.Transient,
		503: corebot.Transient,
		529: corebot.RateLimited, 429: corebot.RateLimited,
	} {
		for _, answer := range []llmtest.Answer{
			llmtest.Fail(status, "no: "+apiKey),
			llmtest.Raw(status, "text/html", "<html>no: "+apiKey), llmtest.Raw(status, "", ""),
		} {
			m, srv := start(t, openai.Options{}, answer)
			_, err := m.Complete(t.Context(), hello(), nil)
			requireFailure(t, err, class, fmt.Sprint(status))
			if n := len(srv.Requests()); n != 1 {
				t.Errorf("%d: %d requests", status, n)
			}
		}
	}
}

func TestTheKeyIsNotCutInHalfAtTheEndOfAnExcerpt(t *testing.T) {
	m, _ := start(t, openai.Options{}, llmtest.Fail(401, strings.Repeat("x", 290)+apiKey),
		llmtest.Raw(401, "text/html", strings.Repeat("x", 290)+apiKey),
		llmtest.Raw(200, "text/html", strings.Repeat("x", 290)+apiKey))
	for range 3 {
		if _, err := m.Complete(t.Context(), hello(), nil); strings.Contains(err.Error(), apiKey[:6]) {
			t.Errorf("half a key is in %q", err)
		}
	}
}

func TestOperatorsGetAHint(t *testing.T) {
	for status, hint := range map[int]string{401: "OPENAI_API_KEY", 403: "OPENAI_MODEL", 404: "OPENAI_BASE_URL"} {
		m, _ := start(t, openai.Options{}, llmtest.Fail(status, "no"))
		_, err := m.Complete(t.Context(), hello(), nil)
		if got := corebot.HintOf(err); !strings.Contains(got, hint) {
			t.Errorf("%d: the hint is %q", status, got)
		}
	}
}

func TestARequestThatIsTooLongCanBeToldApart(t *testing.T) {
	m, _ := start(t, openai.Options{}, llmtest.Fail(400, "This model's maximum context length is 8192 tokens"),
		llmtest.Fail(400, "bad temperature"))
	_, err := m.Complete(t.Context(), hello(), nil)
	if !errors.Is(err, llm.ErrContextTooLong) {
		t.Errorf("%v", err)
	}
	if _, err = m.Complete(t.Context(), hello(), nil); errors.Is(err, llm.ErrContextTooLong) {
		t.Errorf("%v", err)
	}
}

func TestRetryAfterIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		date := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
		for value, want := range map[string]time.Duration{
			"7": 7 * time.Second, "0.5": 500 * time.Millisecond, date: 90 * time.Second, "86400": time.Hour,
			"1e300": time.Hour,
			"-5":    0, "NaN": 0, "soon": 0, "": 0, "Mon, 01 Jan 1990 00:00:00 GMT": 0,
		} {
			m, _ := start(t, openai.Options{}, llmtest.Fail(429, "slow down").Header("Retry-After", value))
			_, err := m.Complete(t.Context(), hello(), nil)
			if f := requireFailure(t, err, corebot.RateLimited); f.RetryAfter != want {
				t.Errorf("%q: retry after %v, want %v", value, f.RetryAfter, want)
			}
		}
	})
}

func TestWhatIsNoStreamIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		answer llmtest.Answer
		words  []string
	}{
		"html": {
			llmtest.Raw(200, "text/html; charset=utf-8", "<html><title>Router login</title>"),
			[]string{"text/html", "Router login"},
		},
		"json": {llmtest.Raw(200, "application/json", `{"hello":"world"}`), []string{"application/json", "hello"}},
		"redirect": {
			llmtest.Raw(302, "", "").Header("Location", "https://login.test/in?token=x"),
			[]string{"redirect", "https://login.test/in"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, srv := start(t, openai.Options{}, c.answer, llmtest.Text("followed"))
			_, err := m.Complete(t.Context(), hello(), nil)
			requireFailure(t, err, corebot.Permanent, c.words...)
			if corebot.HintOf(err) == "" || strings.Contains(err.Error(), "token=x") || len(srv.Requests()) != 1 {
				t.Errorf("%v (hint: %s)", err, corebot.HintOf(err))
			}
		})
	}
}

func TestAJSONErrorUnderStatus200HasItsOwnClass(t *testing.T) {
	m, _ := start(t, openai.Options{}, llmtest.Raw(200, "application/json",
		`{"error":{"message":"slow down","code":429}}`))
	_, err := m.Complete(t.Context(), hello(), nil)
	requireFailure(t, err, corebot.RateLimited, "slow down")
}

func TestAStreamUnderAWrongContentTypeIsRead(t *testing.T) {
	m, _ := start(t, openai.Options{}, llmtest.Text("fine").Header("Content-Type", "text/plain"),
		llmtest.Text("fine").KeepAlive(1).Header("Content-Type", "application/json"))
	for range 2 {
		if a, _ := complete(t, m, hello()); a.Text != "fine" {
			t.Errorf("answered %q", a.Text)
		}
	}
}

func TestKeepAliveCommentsDoNotBreakAStream(t *testing.T) {
	m, _ := start(t, openai.Options{}, llmtest.Text("fine").KeepAlive(1000))
	if a, _ := complete(t, m, hello()); a.Text != "fine" {
		t.Errorf("answered %q", a.Text)
	}
}

func TestSilenceEndsACall(t *testing.T) {
	opts := openai.Options{FirstByteTimeout: 20 * time.Second, IdleTimeout: 5 * time.Second, Timeout: 40 * time.Second}
	for name, c := range map[string]struct {
		answer llmtest.Answer
		after  time.Duration
		hint   string
	}{
		"no headers":    {llmtest.Text("x").Stall(-1), 20 * time.Second, "llm.first_byte_timeout"},
		"no body":       {llmtest.Text("x").Stall(0), 20 * time.Second, "llm.first_byte_timeout"},
		"in the middle": {llmtest.Text("one two three").Stall(2), 5 * time.Second, "llm.idle_timeout"},
		"much, but slowly": {
			llmtest.Text(strings.Repeat("x ", 100)).Every(4 * time.Second), 40 * time.Second,
			"llm.timeout",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _ := start(t, opts, c.answer)
				began := time.Now()
				_, err := m.Complete(t.Context(), hello(), nil)
				requireFailure(t, err, corebot.Transient)
				if took := time.Since(began); took != c.after || !strings.Contains(corebot.HintOf(err), c.hint) {
					t.Errorf("%v after %v (hint: %s)", err, took, corebot.HintOf(err))
				}
			})
		})
	}
}

func TestTheDefaultTimeoutsAreThoseOfTheDocs(t *testing.T) {
	for _, c := range []struct {
		answer llmtest.Answer
		after  time.Duration
	}{
		{llmtest.Text("x").Stall(-1), time.Minute},
		{llmtest.Text("x y").Stall(1), time.Minute},
		{llmtest.Text(strings.Repeat("x ", 100)).Every(50 * time.Second), 10 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, _ := start(t, openai.Options{}, c.answer)
			began := time.Now()
			_, err := m.Complete(t.Context(), hello(), nil)
			if took := time.Since(began); err == nil || took != c.after {
				t.Errorf("%v after %v, want %v", err, took, c.after)
			}
		})
	}
}

func TestAWholeAnswerDoesNotWaitForItsEnd(t *testing.T) {
	for name, answer := range map[string]llmtest.Answer{
		"stalled": llmtest.Text("fine").Stall(2),
		"broken":  llmtest.Text("fine").Break(2),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _ := start(t, openai.Options{}, answer)
				began := time.Now()
				a, _ := complete(t, m, hello())
				if took := time.Since(began); took > 5*time.Second || a.Text != "fine" || !a.Usage.Estimated {
					t.Errorf("%+v after %v", a, took)
				}
			})
		})
	}
}

func TestAnEndedContextGivesItsCause(t *testing.T) {
	for _, answer := range []llmtest.Answer{
		llmtest.Text("x").Stall(-1), llmtest.Text("one two").Stall(1),
		llmtest.Text("x").Stall(1),
	} {
		synctest.Test(t, func(t *testing.T) {
			m, _ := start(t, openai.Options{}, answer)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(corebot.ErrStopped) })
			if _, err := m.Complete(ctx, hello(), nil); err != corebot.ErrStopped {
				t.Errorf("%v", err)
			}
			if _, err := m.Complete(ctx, hello(), nil); err != corebot.ErrStopped {
				t.Errorf("a call that begins late: %v", err)
			}
		})
	}
}

func TestAnAnswerOverTheCapIsAnError(t *testing.T) {
	big := strings.Repeat("x", 2000)
	for name, answer := range map[string]llmtest.Answer{
		"text":         llmtest.Text(big).Pieces(100),
		"arguments":    llmtest.ToolCalls(llmtest.Call{Name: "f", Args: big}),
		"calls":        llmtest.ToolCalls(make([]llmtest.Call, 50)...),
		"one line":     llmtest.Stream(`{"x":"` + strings.Repeat("x", 20000) + `"}`),
		"much of none": llmtest.Text("x").KeepAlive(60000),
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := start(t, openai.Options{MaxAnswerBytes: 1000}, answer)
			_, err := m.Complete(t.Context(), hello(), nil)
			requireFailure(t, err, corebot.Permanent, "larger than allowed")
		})
	}
}

func TestAProviderThatRefusesStreamOptionsIsAskedWithoutOnce(t *testing.T) {
	m, srv := start(t, openai.Options{},
		llmtest.Raw(422, "application/json",
			`{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`),
		llmtest.Text("fine").NoUsage(), llmtest.Text("again").NoUsage(),
		llmtest.Fail(400, "Unknown field stream_options"))
	a, _ := complete(t, m, hello())
	complete(t, m, hello())
	_, err := m.Complete(t.Context(), hello(), nil)
	requireFailure(t, err, corebot.Permanent)
	var asked []bool
	for _, r := range srv.Requests() {
		asked = append(asked, r.StreamOptions != nil)
	}
	if !reflect.DeepEqual(asked, []bool{true, false, false, false}) || a.Text != "fine" {
		t.Errorf("stream_options were sent: %v", asked)
	}
}

func TestMissingUsageIsCountedAndMarked(t *testing.T) {
	for _, answer := range []llmtest.Answer{
		llmtest.Text("one two").NoUsage(), llmtest.Text("one two").Usage(0, 0),
		llmtest.Text("one two").Usage(-1, -1),
	} {
		m, _ := start(t, openai.Options{Tokenizer: llmtest.BytesAsTokens{}}, answer)
		a, _ := complete(t, m, hello())
		if want := (corebot.Usage{
			InputTokens: 4 + 5, OutputTokens: 7, Estimated: true,
			EstimatedTokens: 16,
		}); a.Usage != want {
			t.Errorf("usage %+v, want %+v", a.Usage, want)
		}
	}
}

func TestAnswersThatTheProviderCutSaySo(t *testing.T) {
	for reason, word := range map[string]string{"length": "output limit", "content_filter": "content filter"} {
		m, _ := start(t, openai.Options{}, llmtest.Text("half of").Finish(reason), llmtest.Text("").Finish(reason))
		a, streamed := complete(t, m, hello())
		if !strings.HasPrefix(a.Text, "half of") || !strings.Contains(a.Text, word) || streamed != a.Text {
			t.Errorf("%s: %q, streamed %q", reason, a.Text, streamed)
		}
		_, err := m.Complete(t.Context(), hello(), nil)
		requireFailure(t, err, corebot.Permanent, word)
	}
}

func TestTheOutputLimitIsNamedAsTheModelWantsIt(t *testing.T) {
	for model, newer := range map[string]bool{"llama3.2": false, "gpt-5-mini": true, "gpt-6-sol": true, "o3": true} {
		m, srv := start(t, openai.Options{Model: model}, llmtest.Text("ok"))
		r := hello()
		r.MaxOutputTokens = 50
		complete(t, m, r)
		if got := srv.Last(); (got.MaxOutputTokens == 50) != newer || (got.MaxTokens == 50) == newer {
			t.Errorf("%s: max_tokens %d, max_completion_tokens %d", model, got.MaxTokens, got.MaxOutputTokens)
		}
	}
}

func TestAServerThatIsNotThereIsTransient(t *testing.T) {
	listener := llmtest.NewListener()
	_ = listener.Close()
	m, err := openai.New("http://model.test/v1", openai.Options{Model: "m", Transport: listener.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Complete(t.Context(), hello(), nil)
	requireFailure(t, err, corebot.Transient, "connection refused")
	if corebot.HintOf(err) == "" {
		t.Error("no hint")
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for _, c := range []struct{ url, key, model string }{
		{"ftp://x", "", "m"},
		{"model.test/v1", "", "m"},
		{"http://", "", "m"},
		{"http://u:hunter2@x/v1", "", "m"},
		{"http://x/v1?key=hunter2", "", "m"},
		{":hunter2", "", "m"},
		{"http://x/v1", "hunter2\n", "m"},
		{"http://x/v1", "hun ter2", "m"},
		{"http://x/v1", "", ""},
	} {
		m, err := openai.New(c.url, openai.Options{APIKey: c.key, Model: c.model})
		if m != nil || !errors.Is(err, corebot.ErrInvalid) || corebot.HintOf(err) == "" ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	srv := llmtest.Start(t, func(r llmtest.Request) llmtest.Answer { return llmtest.Text("you said " + r.LastText()) })
	m, err := openai.New(srv.URL, openai.Options{Model: "m", Transport: srv.Transport})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			text := fmt.Sprint("number ", i)
			a, err := m.Complete(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: text}}}, nil)
			if err != nil || a.Text != "you said "+text {
				t.Errorf("%q: %q, %v", text, a.Text, err)
			}
		})
	}
	wg.Wait()
}

func TestAKeyThatComesEscapedOrInTheStreamIsNotRepeated(t *testing.T) {
	m, _ := start(t, openai.Options{}, llmtest.Stream(`{"error":{"message":"bad key `+apiKey+`"}}`),
		llmtest.Raw(401, "application/json", `{"error":{"message":"bad key `+strings.ReplaceAll(apiKey, "-", `\u002d`)+
			`"}}`))
	_, err := m.Complete(t.Context(), hello(), nil)
	requireFailure(t, err, corebot.Transient, "bad key ***")
	_, err = m.Complete(t.Context(), hello(), nil)
	requireFailure(t, err, corebot.Permanent, "bad key ***")
}

// forgetful is a transport that does not say why a context ended.
type forgetful struct{}

func (forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestATimeoutIsNamedWhateverTheTransportSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := openai.New("http://model.test/v1", openai.Options{Model: "m", Transport: forgetful{}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Complete(t.Context(), hello(), nil)
		requireFailure(t, err, corebot.Transient, "not a byte of an answer for 1m0s")
	})
}
