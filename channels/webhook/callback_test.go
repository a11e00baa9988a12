package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/signedpost"
)

// receiver is the other side of a callback, in memory.
type receiver struct {
	answer http.HandlerFunc
	got    []*http.Request
	bodies []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	b, _ := io.ReadAll(req.Body)
	r.got, r.bodies = append(r.got, req), append(r.bodies, string(b))
	r.answer(w, req)
}

const callbackAddress = "http://callback.test/in?key=in-the-address"

// withCallback makes a webhook that pushes to answer.
func withCallback(t *testing.T, answer http.HandlerFunc) (*fixture, *receiver) {
	t.Helper()
	f := start(t, Options{Callback: callbackAddress, CallbackSecret: testSecret})
	other, network := &receiver{answer: answer}, llmtest.NewListener()
	f.callback.target.Dial(network.DialContext)
	server := &http.Server{Handler: other}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(network) }()
	t.Cleanup(func() {
		f.callback.target.Close()
		_ = server.Close()
		<-done
	})
	return f, other
}

func TestAReplyIsPushedSigned(t *testing.T) {
	within(t, func(t *testing.T) {
		f, other := withCallback(t, func(w http.ResponseWriter,
			_ *http.Request,
		) {
			w.WriteHeader(http.StatusNoContent)
		})
		for range 2 {
			f.send("c", "m/1/0", "hello <you>")
		}
		if page := f.outboundPage(""); len(page.Messages) != 1 {
			t.Errorf("the mailbox has %+v", page)
		}
		key, err := signedpost.ParseKey("test", testSecret)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range other.got {
			s, err := signedpost.Read(r.Header, time.Now())
			if err != nil || !s.Signs(key, []byte(other.bodies[i])) || r.Header.Get(signedpost.HeaderID) != "m/1/0" {
				t.Errorf("the signature of %q is no good: %v", r.Header.Get(signedpost.HeaderID), err)
			}
			var body map[string]string
			if err := json.Unmarshal([]byte(other.bodies[i]), &body); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{
				"id": "m/1/0", "chatId": "c", "inReplyTo": "q-m/1/0", "content": "hello <you>",
				"createdAt": "2023-11-14T22:13:20.123Z", "kind": "reply",
			}
			for name, value := range want {
				if body[name] != value || len(body) != len(want) {
					t.Errorf("%s is %q in %v", name, body[name], body)
				}
			}
		}
		if len(other.got) != 2 {
			t.Errorf("pushed %d times", len(other.got))
		}
	})
}

func TestTheAnswerToAPushDecidesWhatBecomesOfIt(t *testing.T) {
	within(t, func(t *testing.T) {
		var status int
		var after string
		f, other := withCallback(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			w.Header().Set("Location", "http://elsewhere.test/")
			w.WriteHeader(status)
		})
		for _, c := range []struct {
			status int
			after  string
			class  corebot.Class
			wait   time.Duration
		}{
			{429, "7", corebot.RateLimited, 7 * time.Second},
			{429, "", corebot.RateLimited, 0},
			{503, "7", corebot.RateLimited, 7 * time.Second},
			{503, time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), corebot.RateLimited, time.Minute},
			{503, "soon", corebot.Transient, 0},
			{503, "-1", corebot.Transient, 0},
			{500, "7", corebot.Transient, 0},
			{302, "", corebot.Transient, 0},
			{408, "", corebot.Transient, 0},
			{409, "", corebot.Transient, 0},
			{425, "", corebot.Transient, 0},
			{400, "", corebot.Permanent, 0},
			{401, "", corebot.Permanent, 0},
			{404, "", corebot.Permanent, 0},
			{410, "", corebot.Permanent, 0},
		} {
			status, after = c.status, c.after
			var failure *corebot.Failure
			_, err := f.Send(t.Context(), reply("c", "m", "x"))
			if !errors.As(err, &failure) || failure.Class != c.class {
				t.Errorf("%d: %v", c.status, err)
				continue
			}
			if failure.RetryAfter > c.wait || failure.RetryAfter < c.wait-time.Second {
				t.Errorf("%d %q: wait %v, want %v", c.status, c.after, failure.RetryAfter, c.wait)
			}
		}
		for _, status = range []int{200, 201, 202, 204} {
			if _, err := f.Send(t.Context(), reply("c", "m", "x")); err != nil {
				t.Errorf("%d: %v", status, err)
			}
		}
		for _, r := range other.got {
			if r.Host != "callback.test" {
				t.Fatalf("a redirect to %s was followed", r.Host)
			}
		}
	})
}

func TestAPushHasFifteenSecondsAndNeverShowsItsAddress(t *testing.T) {
	within(t, func(t *testing.T) {
		f, _ := withCallback(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		began := time.Now()
		var failure *corebot.Failure
		_, err := f.Send(t.Context(), reply("c", "m", "x"))
		if !errors.As(err, &failure) || failure.Class != corebot.Transient ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		wantTook(t, began, signedpost.Time)
		if strings.Contains(err.Error(), "callback.test") || strings.Contains(err.Error(), "in-the-address") {
			t.Errorf("the error shows the address: %v", err)
		}
	})
}

func TestAnEndlessAnswerIsNotReadToItsEnd(t *testing.T) {
	within(t, func(t *testing.T) {
		f, _ := withCallback(t, func(w http.ResponseWriter, _ *http.Request) {
			for err := error(nil); err == nil; {
				_, err = w.Write(make([]byte, 4096))
			}
		})
		began := time.Now()
		f.send("c", "m", "x")
		wantTook(t, began, 0)
	})
}

func TestAPushGoesThroughNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://proxy.test:1")
	t.Setenv("http_proxy", "http://proxy.test:1")
	c, err := newCallback(callbackAddress, testSecret)
	if err != nil {
		t.Fatal(err)
	}
	var dialled string
	c.target.Dial(func(_ context.Context, _, address string) (net.Conn, error) {
		dialled = address
		return nil, errors.New("no network")
	})
	if err := c.push(t.Context(), reply("c", "m", "x"), nil); err == nil || dialled != "callback.test:80" {
		t.Errorf("dialled %s, %v", dialled, err)
	}
}

func TestWhatIsNotInTheMailboxIsNotPushed(t *testing.T) {
	within(t, func(t *testing.T) {
		f, other := withCallback(t, func(http.ResponseWriter, *http.Request) {})
		f.replies = channels.NewReplies(brokenMailbox{corebot.ErrCommitUnknown})
		if _, err := f.Send(t.Context(), reply("c", "m", "x")); !errors.Is(err, corebot.ErrCommitUnknown) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if len(other.got) != 0 {
			t.Error("it was pushed")
		}
	})
}
