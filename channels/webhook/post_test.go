package webhook

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

const goodBody = `{"id":"m1","chatId":"c","senderId":"alice","content":"hello","metadata":{"k":"v"}}`

func TestAMessageIsAcceptedOnceAndThenADuplicate(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{Interactive: true})
		for i, want := range []string{`{"id":"m1","status":"accepted"}`, `{"id":"m1","status":"duplicate"}`} {
			got := f.post(goodBody)
			if got.status != http.StatusAccepted || got.body != want ||
				got.header.Get("Content-Type") != "application/json" {
				t.Errorf("post %d: %d %s", i+1, got.status, got.body)
			}
		}
		want := channels.Incoming{
			ID: "m1", Channel: "webhook", Chat: "c", SenderID: "alice",
			Parts: corebot.TextPart("hello"), Metadata: corebot.Texts(map[string]string{"k": "v"}), Interactive: true,
		}
		if len(f.door.in) != 1 || !reflect.DeepEqual(f.door.in[0], want) {
			t.Errorf("the door got %+v", f.door.in)
		}
	})
}

// TestACallersTraceIsTakenOnlyWhereTracingIsOn: otherwise the header means nothing, and the message is accepted.
func TestACallersTraceIsTakenOnlyWhereTracingIsOn(t *testing.T) {
	within(t, func(t *testing.T) {
		const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		for _, c := range []struct {
			traced       bool
			header, want string
		}{{false, caller, ""}, {true, caller, caller}, {true, "nonsense", ""}} {
			f := start(t, Options{Traced: c.traced})
			r := f.request("POST", pathPost, strings.NewReader(goodBody))
			r.Header.Set("Traceparent", c.header)
			if got := f.do(r); got.status != http.StatusAccepted || len(f.door.in) != 1 {
				t.Fatalf("%+v: %d %s", c, got.status, got.body)
			}
			want, _ := corebot.ParseTraceparent(c.want)
			if got := f.door.in[0].Trace; got != want {
				t.Errorf("%+v: the message is of the trace %q", c, got.Traceparent())
			}
		}
	})
}

func TestASenderMayBeMissingOrEmpty(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		for i, sender := range []string{``, `,"senderId":""`} {
			if got := f.post(fmt.Sprintf(`{"id":"m%d","chatId":"c","content":"x"%s}`, i,
				sender)); got.status != http.StatusAccepted {
				t.Errorf("%s: %d %s", sender, got.status, got.body)
			}
		}
	})
}

func TestEveryErrorOfTheDoorHasItsStatus(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		for _, c := range []struct {
			err    error
			status int
			retry  string
			detail string
		}{
			{channels.ErrNotAdmitted, 403, "", "may not talk"},
			{corebot.ErrConflict, 409, "", "another body"},
			{corebot.ErrTooLarge, 413, "", "too large"},
			{corebot.ErrInvalid, 422, "", "invalid"},
			{corebot.ErrLaneFull, 429, "2", "chat"},
			{corebot.ErrSenderFull, 429, "2", "sender"},
			{
				&corebot.TooSoon{After: 28*time.Second + time.Millisecond}, 429, "29",
				"too many commands of the sender in this chat: the next one is accepted in 29s",
			},
			{corebot.ErrOverloaded, 503, "5", "waiting"},
			{corebot.ErrDiskFull, 503, "30", "disk"},
			{corebot.ErrClosed, 503, "5", "stopping"},
			{corebot.ErrCommitUnknown, 503, "1", "same id"},
			{fmt.Errorf("what only the log should see: %s", testSecret), 500, "", "an error of Corebot"},
		} {
			f.door.accept = func(channels.Incoming) error { return fmt.Errorf("accept: %w", c.err) }
			got := f.post(goodBody)
			wantProblem(t, got, c.status, c.detail)
			if got.header.Get("Retry-After") != c.retry {
				t.Errorf("%v: Retry-After is %q, want %q", c.err, got.header.Get("Retry-After"), c.retry)
			}
		}
	})
}

func TestAPostWithAQueryIsRefused(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		r := f.request("POST", pathPost+"?chatId=elsewhere", strings.NewReader(goodBody))
		r.Header.Set("Content-Type", "application/json")
		wantProblem(t, f.do(r), 400, `no query parameters: leave out "chatId"`)
		if n := f.door.count(); n != 0 {
			t.Errorf("%d messages were accepted", n)
		}
	})
}

func TestARequestThatIsNotForTheWebhookIsRefused(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		for _, c := range []struct {
			method, path string
			status       int
			allow        string
		}{
			{"GET", "/webhook", 405, "POST"},
			{"PUT", "/webhook", 405, "POST"},
			{"POST", "/webhook/outbound", 405, "GET, HEAD"},
			{"OPTIONS", "/webhook/stream", 405, "GET, HEAD"},
			{"POST", "/webhook/", 404, ""},
			{"GET", "/", 404, ""},
			{"GET", "/debug/pprof/", 404, ""},
			{"POST", "/Webhook", 404, ""},
			{"POST", "/mcp", 404, ""},
		} {
			got := f.do(f.request(c.method, c.path, strings.NewReader(goodBody)))
			if got.header.Get("Allow") != c.allow {
				t.Errorf("%s %s: Allow is %q", c.method, c.path, got.header.Get("Allow"))
			}
			wantProblem(t, got, c.status, "")
		}
		if f.door.count() != 0 {
			t.Error("something came in")
		}
	})
}

func TestAnAddressThatIsNoneSaysWhatThereIs(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		wantProblem(t, f.get("/"), 404, "/webhook, /webhook/outbound, /webhook/stream")
		wantProblem(t, f.get("/mcp"), 404, "mcp.serve.http")
		f = start(t, Options{Guest: silent{}})
		wantProblem(t, f.get("/"), 404, "/webhook/stream, /mcp")
	})
}

// silent is a guest that answers nothing.
type silent struct{}

func (silent) ServeHTTP(http.ResponseWriter, *http.Request) {}
func (silent) EndSessions()                                 {}

func TestOnlyPlainJSONIsRead(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		for _, c := range []struct {
			name, value string
			status      int
		}{
			{"Content-Type", "application/json", 202},
			{"Content-Type", "Application/JSON; charset=utf-8", 202},
			{"Content-Type", "", 415},
			{"Content-Type", "text/plain", 415},
			{"Content-Type", "application/json;;", 415},
			{"Content-Type", "application/x-www-form-urlencoded", 415},
			{"Content-Type", "application/jsonx", 415},
			{"Content-Encoding", "identity", 202},
			{"Content-Encoding", "gzip", 415},
			{"Content-Encoding", "identity, gzip", 415},
		} {
			r := f.request("POST", pathPost, strings.NewReader(goodBody))
			r.Header.Set(c.name, c.value)
			if got := f.do(r); got.status != c.status {
				t.Errorf("%s %q: %d, want %d", c.name, c.value, got.status, c.status)
			} else if c.status != 202 {
				wantProblem(t, got, c.status, c.name)
			}
		}
	})
}

func TestTheCapOfBodiesHoldsWhateverTheirFraming(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{MaxBodyBytes: 200})
		ofSize := func(n int) string {
			empty := len(`{"id":"m1","chatId":"c","content":""}`)
			return fmt.Sprintf(`{"id":"m1","chatId":"c","content":%q}`, strings.Repeat("x", n-empty))
		}
		for name, framed := range map[string]func(string) *http.Request{
			"with a length": func(s string) *http.Request { return f.request("POST", pathPost, strings.NewReader(s)) },
			"in chunks": func(s string) *http.Request {
				r := f.request("POST", pathPost, strings.NewReader(s))
				r.ContentLength = -1
				return r
			},
		} {
			if got := f.do(framed(ofSize(200))); got.status != 202 {
				t.Errorf("%s, 200 bytes: %d %s", name, got.status, got.body)
			}
			got := f.do(framed(ofSize(201)))
			wantProblem(t, got, 413, "200 bytes")
			wantProblem(t, f.do(framed(ofSize(100_000))), 413, "200 bytes")
		}
	})
}

func TestABodyThatIsSaidToBeTooLargeIsNotWaitedFor(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		began := time.Now()
		p := f.dial()
		p.say(postHead + "Content-Length: 1048577\r\n\r\n")
		wantProblem(t, p.hear(), 413, "1048576 bytes")
		wantTook(t, began, 0)
	})
}

func TestAHundredPostsOfOneIdAreOneMessage(t *testing.T) {
	f := start(t, Options{})
	got := make(chan response, 100)
	for range 100 {
		go func() { got <- f.post(goodBody) }()
	}
	count := map[string]int{}
	for range 100 {
		r := <-got
		count[fmt.Sprint(r.status, r.body)]++
	}
	if count[`202{"id":"m1","status":"accepted"}`] != 1 || count[`202{"id":"m1","status":"duplicate"}`] != 99 {
		t.Errorf("got %v", count)
	}
}

func BenchmarkPost(b *testing.B) {
	w, err := prepare(nil, Options{Token: testToken})
	if err != nil {
		b.Fatal(err)
	}
	h := newHandler(w, &door{}, b.Context())
	r, err := http.NewRequest("POST", pathPost, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(goodBody))
	b.ReportAllocs()
	for b.Loop() {
		r.Body = readOnce(goodBody)
		h.ServeHTTP(&sheet{header: http.Header{}}, r)
	}
}
